"""The publisher: one object for a program that must not lose a message on its way to a broker."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from topicdb import _core
from topicdb.arguments.wrong_types import wrong_type
from topicdb.closing import first_error
from topicdb.creating import settled_path
from topicdb.forward.forwarder import Forwarder
from topicdb.forward.options import OnError, Seconds, finite_seconds
from topicdb.forward.sink import PermanentError
from topicdb.publisher import refused as letters
from topicdb.publisher.connecting import PathLike, host_and_port, tls_of, will_of
from topicdb.publisher.messages import (
    Expiry,
    Packer,
    PayloadCodec,
    PropertiesLike,
    QoS,
    Will,
)
from topicdb.publisher.options import (
    Durability,
    Overflow,
    check_items,
    check_paho,
    check_pauses,
    checked_callback,
    queue_options,
)
from topicdb.publisher.refused import Refused
from topicdb.publisher.sink import PublisherSink
from topicdb.publisher.stats import Pending, PublisherStats, cursor_of, pending_of, stats_of
from topicdb.queue.queue import Queue
from topicdb.queue.records import Drop, QueueReceipt

_logger = logging.getLogger(__name__)
_BATCHES = 3  # that are with the sink at a time
_IN_FLIGHT_MAX = 10_000


class Publisher:
    """Publishes to an MQTT broker, and keeps every message until the broker has acknowledged it.

    ``publish`` returns when the message is as durable as asked, and never waits for the broker. A
    thread of the publisher connects, sends the messages in their order, and connects again when the
    connection is lost. What is pending when the program ends is sent when the publisher is opened
    again. Thread-safe. A forked child must not use it.

    Attributes:
        path: The directory of the queue, or None if it is in memory.

    Example:
        ```python
        with topicdb.Publisher("out.q", "mqtts://broker.example", ca="ca.pem") as publisher:
            publisher.publish("plant/pump/temperature", "21.5", qos=1)
        ```
    """

    def __init__(
        self,
        path: PathLike | None,
        url: str,
        *,
        durability: Durability = "os",
        max_bytes: int = 1_000_000_000,
        overflow: Overflow = "raise",
        block_timeout: Seconds | None = None,
        codec: PayloadCodec | None = None,
        expiry: Expiry | None = None,
        username: str | None = None,
        password: str | None = None,
        ca: PathLike | None = None,
        cert: PathLike | None = None,
        key: PathLike | None = None,
        tls: ssl.SSLContext | None = None,
        client_id: str | None = None,
        protocol: Literal["5", "3.1.1"] = "5",
        keepalive: int = 60,
        connect_timeout: Seconds = 5.0,
        will: Will | tuple[Any, ...] | None = None,
        in_flight_max: int = 20,
        retry_min: Seconds = 0.1,
        retry_max: Seconds = 30.0,
        refuse_after: Seconds = 60.0,
        close_timeout: Seconds = 5.0,
        on_error: OnError | None = None,
        on_drop: Callable[[Drop], object] | None = None,
    ) -> None:
        """Opens the queue, or makes it, and begins to connect. It does not wait for the broker.

        Arguments:
            path: The directory of the queue; one process at a time has it open. None: in memory,
                with ``durability="memory"``.
            url: The broker: ``mqtt://`` or ``mqtts://`` (with TLS), ``user:password@``, host,
                ``:port``; or a host with or without a port.
            durability: What a message survives once ``publish`` has returned: ``"disk"`` (loss of
                power), ``"os"`` (the end of the process, also by SIGKILL), or ``"memory"``
                (``close``).
            max_bytes: How many bytes the pending messages may have, with their headers.
            overflow: What ``publish`` does if there is no room: ``"raise"`` (QuotaError),
                ``"block"`` (wait for room), ``"drop_oldest"`` (drop the oldest messages).
            block_timeout: How many seconds ``"block"`` waits before it raises QuotaError; None: for
                ever.
            codec: ``"json"``, or a function that makes bytes or text of a payload; then every
                payload goes through it. None: payloads are bytes or text.
            expiry: How long messages live that name no ``expiry``: seconds, a timedelta, or text
                such as ``"1h"``. Messages that have expired are not sent.
            username: The name for the login, unless the URL has it.
            password: The password for the login, unless the URL has it.
            ca: A file with the certificates to trust, in PEM; None: those of the system.
            cert: A file with the certificate of this client, in PEM.
            key: A file with the key of that certificate, in PEM.
            tls: A context of your own instead of ``ca``, ``cert`` and ``key``.
            client_id: The client id; None: a random one. Two clients with the same id end each
                other's connections.
            protocol: ``"5"`` or ``"3.1.1"``. With the latter a broker cannot say that it refuses a
                message, and messages have no properties.
            keepalive: Seconds after which a silent connection is given up; 0: never.
            connect_timeout: Seconds to wait for the broker to accept a connection.
            will: What the broker publishes when the connection ends without a goodbye:
                (topic, payload, qos, retain); see ``Will``.
            in_flight_max: How many messages may be on their way, 1 to 10,000; fewer if the broker
                says so.
            retry_min: The pause after a failed attempt, in seconds. It doubles with each further
                failure in a row.
            retry_max: The longest such pause, in seconds.
            refuse_after: For how many seconds a message is sent again that the broker refuses for a
                reason that may pass, such as an exceeded quota. Then it goes to ``refused``.
            close_timeout: How many seconds ``close`` and the end of ``with`` wait for the broker.
            on_error: Called with the error of each failed attempt and each refused message, by the
                publisher's thread.
            on_drop: Called with each ``Drop``, by the thread in which it happens.

        Raises:
            ImportError: paho-mqtt is missing, or does not fit.
            ValueError, TypeError: An option that cannot be; nothing was made.
            LockedError: Another process has the queue open.
            SchemaError: The queue has items that are no messages of a publisher.
            CorruptionError, StorageError: As of ``Queue.open``.
        """
        check_paho()
        self.path = None if path is None else Path(settled_path(path))
        self._options = queue_options(self.path, durability, max_bytes, overflow, block_timeout)
        check_pauses(retry_min, retry_max)
        self._close_timeout_s = finite_seconds(close_timeout, "close_timeout")
        self._on_error = checked_callback("on_error", on_error)
        self._on_drop = checked_callback("on_drop", on_drop)
        self._packer = Packer(codec, expiry, with_properties=protocol == "5")
        if isinstance(in_flight_max, bool) or not isinstance(in_flight_max, int):
            raise wrong_type("in_flight_max", "int", in_flight_max)
        if not 1 <= in_flight_max <= _IN_FLIGHT_MAX:
            raise ValueError(f"in_flight_max: expected 1 to {_IN_FLIGHT_MAX}, got {in_flight_max}")
        host, port = host_and_port(url)
        self._sink = PublisherSink(
            host,
            port,
            on_refused=self._refuse,
            refuse_after_s=finite_seconds(refuse_after, "refuse_after"),
            in_flight_max=in_flight_max,
            given_again_max=_BATCHES * in_flight_max,
            will=will_of(will),
            username=username,
            password=password,
            tls=tls_of(url, tls, ca, cert, key) or False,
            client_id=client_id,
            protocol=protocol,
            keepalive=keepalive,
            connect_timeout=connect_timeout,
        )
        self._closing = threading.RLock()  # a signal handler may close it, too
        self._closed = False
        self._is_done = False
        self._refused_count = 0
        self._queue = self._open_queue(self.path)
        try:
            check_items(self._queue)
            beside = None if self.path is None else Path(f"{self.path}.refused")
            self._refused = Refused(beside, self._open_refused)
            self._forwarder = Forwarder(
                self._queue,
                self._sink,
                batch_count=in_flight_max,
                in_flight_max=_BATCHES,
                retry_min=retry_min,
                retry_max=retry_max,
                poison=self._refuse_all,
                on_error=self._on_error,
            )
        except BaseException:
            self._queue.close()
            raise
        self._forwarder.start()

    def publish(
        self,
        topic: str,
        payload: Any = None,
        qos: QoS = 1,
        retain: bool = False,
        *,
        expiry: Expiry | None = None,
        properties: PropertiesLike | None = None,
    ) -> QueueReceipt:
        """Takes a message, and returns when it is as durable as the publisher was asked for.

        Arguments:
            topic: The topic, without wildcards.
            payload: Bytes, or text, which is sent as UTF-8; None is an empty payload. With a
                ``codec``: what that takes.
            qos: 0, 1 or 2.
            retain: Whether the broker keeps the message for later subscribers.
            expiry: How long the message lives: seconds, a timedelta, or text such as ``"1h"``.
                None: the ``expiry`` of the publisher.
            properties: MQTT 5 properties, as reads of a database give them; or a mapping with user
                properties alone. Their QoS, retain flag, client id and times are not used.

        Returns:
            The number of the message, and the durability that was reached.

        Raises:
            TopicError: MQTT does not allow the topic, or brokers may refuse it.
            ValueError, TypeError, CodecError: Another argument that cannot be.
            QuotaError: There is no room; see ``overflow``.
            ClosedError, ForkedError, StorageError: Nothing was taken, as with all other errors.

        Example:
            ```python
            publisher.publish("plant/pump/alarm", "on", qos=2, properties={"unit": "K"})
            ```
        """
        item = self._packer.item(topic, payload, qos, retain, expiry, properties)
        return self._append([item])

    async def publish_await(
        self,
        topic: str,
        payload: Any = None,
        qos: QoS = 1,
        retain: bool = False,
        *,
        expiry: Expiry | None = None,
        properties: PropertiesLike | None = None,
    ) -> QueueReceipt:
        """Takes a message like ``publish``, for asyncio: the event loop goes on meanwhile.

        A task that is cancelled does not take its message back.

        Arguments:
            topic: as of ``publish``.
            payload: as of ``publish``.
            qos: as of ``publish``.
            retain: as of ``publish``.
            expiry: as of ``publish``.
            properties: as of ``publish``.

        Returns:
            The number of the message, and the durability that was reached.
        """
        item = self._packer.item(topic, payload, qos, retain, expiry, properties)
        self._check_open()
        with self._named_option():
            return await self._queue.append_await([item])

    def publish_many(
        self,
        messages: Iterable[tuple[str, Any]],
        qos: QoS = 1,
        retain: bool = False,
        *,
        expiry: Expiry | None = None,
        properties: PropertiesLike | None = None,
    ) -> QueueReceipt:
        """Takes many messages at once: all of them or none. It is faster than many ``publish``.

        Arguments:
            messages: Pairs of topic and payload.
            qos: as of ``publish``, for each of them; so are the other arguments.
            retain: as of ``publish``.
            expiry: as of ``publish``.
            properties: as of ``publish``.

        Returns:
            The numbers of the messages, and the durability that was reached.

        Raises:
            What ``publish`` raises, with the number of the message, counted from 0.

        Example:
            ```python
            publisher.publish_many([("plant/pump/speed", "1450"), ("plant/fan/speed", "900")])
            ```
        """
        if isinstance(messages, (str, bytes, dict)):
            raise wrong_type("messages", "pairs (topic, payload)", messages)
        items = []
        for number, message in enumerate(messages):
            if not isinstance(message, (tuple, list)) or len(message) != 2:
                raise TypeError(f"message {number}: expected a pair (topic, payload)")
            try:
                items.append(self._packer.item(*message, qos, retain, expiry, properties))
            except (ValueError, TypeError) as error:  # TopicError and CodecError are ValueErrors
                raise type(error)(f"message {number}: {error}") from error
        return self._append(items)

    # What is pending, and what became of the rest.

    @property
    def pending(self) -> Pending:
        """How many messages the broker has not acknowledged, and their bytes.

        Raises ClosedError after ``close``.
        """
        return pending_of(self._queue)

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Waits until the broker has acknowledged all messages that were published before.

        Messages that the broker refused, that expired or that were dropped are not waited for.

        Arguments:
            timeout: How many seconds to wait; None: for ever.

        Returns:
            Whether all of them are acknowledged.

        Raises:
            ClosedError: The publisher is closed, or was closed meanwhile.

        Example:
            ```python
            assert publisher.wait(timeout=10)
            ```
        """
        self._check_open()
        until = self._queue.stats().next_sequence
        done = False

        def is_over() -> bool:
            nonlocal done
            try:
                # After a kill the queue skips numbers, which no message has.
                cursor = cursor_of(self._queue)
                done = cursor.low_water >= until or cursor.waiting + cursor.in_flight == 0
            except _core.ClosedError:
                return True
            return done or self._forwarder.health.state in ("failed", "stopped")

        self._forwarder.wait_for(is_over, timeout)
        if not done:
            self._check_open()
        return done

    @property
    def refused(self) -> Queue:
        """The messages that the broker refused: a queue of ``RefusedMessage``.

        It has ``max_bytes``, too; the oldest messages are dropped if it is full. A loop over the
        queue takes them out; ``publish_refused`` publishes them again.

        Example:
            ```python
            for message in publisher.refused:
                print(message.topic, message.reason)
            ```
        """
        self._check_open()
        return self._refused.queue

    def publish_refused(self) -> int:
        """Publishes all messages again that the broker refused, behind those that are pending.

        Returns:
            How many these are.

        Raises:
            QuotaError, StorageError, ClosedError: The rest of them is still in ``refused``.
        """
        self._check_open()
        return self._refused.give_back(lambda item: self._append([item]))

    def stats(self) -> PublisherStats:
        """Returns how the publisher stands. After ``close`` nothing counts as pending."""
        return stats_of(
            None if self._closed else self._queue,
            self._forwarder,
            self._sink,
            refused=self._refused_count,
            refused_waiting=self._refused.count,
        )

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self, timeout: Seconds | None = None) -> bool:
        """Takes no more messages, waits for the broker, and closes the queue. May be repeated.

        What the broker has not acknowledged stays in the queue, and is sent when the publisher is
        opened again. Calls that wait for room raise ClosedError.

        Arguments:
            timeout: How many seconds to wait for the broker; None: ``close_timeout``.

        Returns:
            Whether the broker has acknowledged everything.
        """
        limit = self._close_timeout_s if timeout is None else finite_seconds(timeout, "timeout")
        with self._closing:
            if self._closed:
                return self._is_done
            self._closed = True
            try:
                # Without pending messages there is nothing to wait for, even if the broker is away.
                self._forwarder.stop(limit, drain=pending_of(self._queue).items > 0)
                left = pending_of(self._queue).items
                self._is_done = left == 0
                if left > 0 and self.path is None:
                    _logger.warning("%r is closed: %d messages in memory are lost", self, left)
            finally:
                self._refused.close()
                self._queue.close()
        return self._is_done

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with first_error(error):
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._forwarder.health.state
        where = "in memory" if self.path is None else str(self.path)
        return f"<topicdb.Publisher {where} to {self._sink.address}: {state}>"

    # The parts.

    def _append(self, items: list[bytes]) -> QueueReceipt:
        self._check_open()
        with self._named_option():
            return self._queue.append(items)

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"{self!r} is closed; open it again")

    @contextmanager
    def _named_option(self) -> Iterator[None]:
        """Gives an error the name that the limit has here."""
        try:
            yield
        except _core.QuotaError as error:
            text = str(error).replace("max_total_bytes", "max_bytes")
            raise _core.QuotaError(text) from None

    def _open_queue(self, path: Path | None) -> Queue:
        return Queue.open(path, **self._options, on_drop=self._on_drop)

    def _open_refused(self, path: Path | None) -> Queue:
        options = {**self._options, "overflow": "drop_oldest", "block_timeout": None}
        on_drop = self._on_drop
        return Queue.open(
            path,
            **options,
            codec=(letters.encode, letters.decode),
            on_drop=on_drop and (lambda drop: on_drop(drop._replace(cursor="refused"))),
        )

    def _refuse_all(self, items: list[bytes], error: PermanentError) -> None:
        for item in items:
            self._refuse(item, error)

    def _refuse(self, item: bytes, error: PermanentError) -> None:
        """Keeps a message that the broker refused; the forwarder's thread calls it."""
        self._refused.keep(item, error)
        self._refused_count += 1
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                _logger.exception("on_error of a publisher")

"""The sink of a publisher: sends the messages of its queue, and sends none again without need."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from topicdb.arguments.times import now_us
from topicdb.forward.mqtt import PACKET_IDS, MqttSink, Tally
from topicdb.forward.sink import PermanentError
from topicdb.mqtt.address import named
from topicdb.mqtt.expiry import left_s
from topicdb.mqtt.properties import PublishProperties
from topicdb.publisher.link import Link, SessionLostError
from topicdb.publisher.messages import Outgoing, Will

_logger = logging.getLogger(__name__)
# How long a broker keeps what it knows of the messages on their way when a connection is lost.
SESSION_EXPIRY_S = 86_400
# Not authorized, topic name invalid, packet too large, payload format invalid: to send the message
# again makes no difference. Other reasons, such as an exceeded quota, may pass.
_FINAL = {0x87, 0x90, 0x95, 0x99}

OnRefused = Callable[[bytes, PermanentError], object]


@dataclass(slots=True)
class Counts:
    """What became of messages. The thread of the forwarder writes it."""

    acknowledged: int = 0
    expired: int = 0
    connections: int = 0


class Sent:
    """A message that the forwarder has given to the sink, and what has become of it."""

    __slots__ = ("batch", "is_done", "item", "message", "packet_id", "refused_at")

    def __init__(self, item: bytes, message: Outgoing | None) -> None:
        self.item = item
        self.message = message
        self.batch: Tally | None = None
        self.is_done = False
        self.packet_id: int | None = None  # while it is on its way
        self.refused_at: float | None = None  # when the broker refused it first; monotonic

    def finish(self) -> None:
        self.is_done = True
        self.packet_id = None
        if self.batch is not None:
            self.batch.confirm()

    def fail(self, error: Exception) -> None:
        self.packet_id = None
        if self.batch is not None:
            self.batch.fail(error)


class PublisherSink(MqttSink):
    """Sends the items of a publisher's queue; serves one forwarder, whose thread calls it.

    It remembers which of the messages that the forwarder may give again were acknowledged, and does
    not send them again. With MQTT 5 it also takes up the session at the broker after a lost
    connection, so that messages with QoS 2 arrive once. A message that the broker refuses goes to
    ``on_refused``, and then counts as done: nothing waits behind it.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        on_refused: OnRefused,
        refuse_after_s: float,
        in_flight_max: int,
        given_again_max: int,
        will: Will | None,
        **options: Any,
    ) -> None:
        """Checks the options, of which ``options`` are those of MqttSink.

        ``given_again_max``: how many messages the forwarder may give again, at most.
        """
        super().__init__(host, port, topic="unused", unconfirmed_max=in_flight_max, **options)
        self._on_refused = on_refused
        self._refuse_after_s = refuse_after_s
        self._given_again_max = given_again_max
        self._will = will
        self._link: Link | None = None
        self._given: deque[Sent] = deque()  # that the forwarder may give again, oldest first
        self._before: deque[Sent] = deque()  # the same, of the time before the last close
        self._waiting: deque[Sent] = deque()  # given, and not sent
        self.counts = Counts()

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the connection that there is."""
        return self._link is not None and self._link.is_connected

    @property
    def address(self) -> str:
        """Host and port of the broker, for people."""
        return self._broker.address

    def open(self) -> None:
        """Connects, and takes up the session of the connection that was lost, if there is one."""
        try:
            if self._link is not None:
                try:
                    self._connect_link(self._link, clean_start=False)
                    return
                except SessionLostError:
                    self._link.close()
                    self._link = None
                    for sent in self._before:
                        sent.packet_id = None
            self._link = Link(self._new_client(), self._broker.address, self._acknowledged)
            self._connect_link(self._link, clean_start=True)
        finally:
            if self._link is not None and self._link.is_connected:
                self.counts.connections += 1

    def _connect_link(self, link: Link, *, clean_start: bool) -> None:
        try:
            link.begin(self._unconfirmed_max)
            start = self._start_options(clean_start) if self._v5 else {}
            link.client.connect(self._broker.host, self._broker.port, self._keepalive, **start)
            link.wait_until_accepted(self._connect_seconds)
        except OSError as error:
            # The frames of the traceback would keep the socket of a failed TLS handshake.
            raise named(error, self._broker.address).with_traceback(None) from None

    def _start_options(self, clean_start: bool) -> dict[str, Any]:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        lasting: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        lasting.SessionExpiryInterval = SESSION_EXPIRY_S
        return {"clean_start": clean_start, "properties": lasting}

    def _new_client(self) -> Any:
        client = super()._new_client()
        client.max_inflight_messages_set(PACKET_IDS)  # the sink itself holds messages back
        if self._will is not None:
            client.will_set(*self._will)
        return client

    def begin(self, items: list[bytes]) -> Future[None]:
        if self._link is None:
            raise ConnectionError("the sink is not open")
        batch = Tally(len(items))
        for item in items:
            sent = self._again(item) or Sent(item, _decoded(item))
            sent.batch = batch
            self._given.append(sent)
            if sent.is_done:
                batch.confirm()
            elif sent.packet_id is None:
                self._waiting.append(sent)
        while len(self._given) > self._given_again_max and self._given[0].is_done:
            self._given.popleft()
        self._send_waiting(self._link)
        return batch.future

    def _again(self, item: bytes) -> Sent | None:
        """Returns the message if it was given before the sink was closed."""
        while self._before:
            sent = self._before.popleft()
            if sent.item == item:
                return sent
        return None

    def poll(self, timeout: float) -> None:
        link = self._link
        if link is None:
            return
        link.turn(timeout)
        if link.lost is None:
            self._send_waiting(link)
        if link.lost is None:
            return
        if isinstance(link.lost, PermanentError) and link.unconfirmed:
            for sent in link.unconfirmed.values():  # the forwarder looks which one was at fault
                if sent.batch is not None:
                    sent.batch.fail(link.lost)
            link.unconfirmed.clear()
            return
        raise link.lost

    def close(self) -> None:
        """Ends the connection. What the forwarder may give again is remembered."""
        if self._given:
            self._given.extend(self._before)
            self._before, self._given = self._given, deque()
        self._waiting.clear()
        for sent in self._before:
            sent.batch = None
        link = self._link
        if link is None:
            return
        if link.unconfirmed and self._v5 and not isinstance(link.lost, PermanentError):
            link.suspend()
            return
        link.close()
        self._link = None
        for sent in self._before:
            sent.packet_id = None

    def _send_waiting(self, link: Link) -> None:
        while self._waiting and link.room > 0 and link.lost is None:
            self._send(link, self._waiting.popleft())

    def _send(self, link: Link, sent: Sent) -> None:
        message = sent.message
        if message is None:
            self._refuse(sent, PermanentError("the item is no message of a publisher"))
            return
        envelope = message.envelope
        expiry_s = left_s(envelope, message.published, now_us())
        if expiry_s == 0:
            self.counts.expired += 1
            sent.finish()
            return
        properties = PublishProperties(envelope, expiry_s) if self._v5 else None
        error = link.obstacle(message, b"\0" if properties is None else properties.pack())
        if error is not None:
            self._refuse(sent, error)
        elif link.publish_message(message, properties, sent):
            self._done(sent)

    def _acknowledged(self, sent: Sent, error: PermanentError | None, reason: int) -> None:
        """Is called when the broker has answered: with an error if it refused the message."""
        if error is None:
            self._done(sent)
            return
        sent.packet_id = None
        if sent.refused_at is None:
            sent.refused_at = time.monotonic()
        if reason in _FINAL or time.monotonic() - sent.refused_at >= self._refuse_after_s:
            self._refuse(sent, error)
        else:
            sent.fail(ConnectionError(str(error)))

    def _done(self, sent: Sent) -> None:
        self.counts.acknowledged += 1
        sent.finish()

    def _refuse(self, sent: Sent, error: PermanentError) -> None:
        try:
            self._on_refused(sent.item, error)
        except Exception as other:  # it could not be kept: it is tried again
            sent.fail(other)
        else:
            sent.finish()


def _decoded(item: bytes) -> Outgoing | None:
    try:
        return Outgoing.decode(item)
    except ValueError:
        return None

"""Replay logs of a server: the server has them open, and clients of their endpoints are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Literal
from weakref import WeakSet

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.filters import filter_list
from topicdb.arguments.times import timeout_us
from topicdb.remote.client.appending import append
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.lease import Lease, RemoteHandle, wait_slices
from topicdb.remote.client.outgoing import packed, table_of
from topicdb.remote.client.reading import WAIT_SLICE_US
from topicdb.remote.message_ids import ids_of, runs_of
from topicdb.remote.records import record_of
from topicdb.replay.distant.endpoint import DistantEndpoint, Send
from topicdb.replay.distant.log import DistantLog
from topicdb.replay.endpoint.endpoint import WINDOW, Endpoint
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.received import (
    ListedMessages,
    Received,
    ReplayBatch,
    ReplayMessage,
)
from topicdb.replay.endpoint.starting import ReplayStart
from topicdb.replay.errors import BrowserError, ReplayError
from topicdb.replay.ids import MessageId
from topicdb.replay.orders.plain import promotion_plain, replay_plain, start_plain
from topicdb.types import ArrowArray, ArrowStream, Durability, Receipt, Row

_PAGE_ROWS = 1_000
_ALL = (1 << 63) - 1


def opened(connection: Connection, name: str, options: Mapping[str, Any]) -> RemoteReplayLog:
    """Returns a replay log of the server, which makes or changes it if there are options."""
    plain = dict(options)
    for filters in ("include", "exclude"):
        if filters in plain:
            plain[filters] = filter_list(plain[filters])
    if "promote" in plain:
        plain["promote"] = promotion_plain(plain["promote"])
    return RemoteReplayLog(connection, name, connection.call("replay.open", name, plain))


class RemoteReplayLog(DistantLog):
    """A ``ReplayLog`` that a server has open, so that its clients may be in any process.

    Its methods are those of ``ReplayLog``. The clients of its endpoints end with the connection:
    what they had not acknowledged comes again, to them or to others. ``close`` ends only the
    clients that this object has made. Thread-safe.
    """

    def __init__(self, connection: Connection, name: str, origin: int) -> None:
        super().__init__(name, origin, partial(_send, connection, name))
        self._connection = connection
        self._clients: WeakSet[RemoteFlow | RemoteBrowser] = WeakSet()

    def publish(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        qos: Literal[0, 1, 2] = 1,
        durability: Durability | None = None,
        raw: bool = False,
    ) -> Receipt:
        """Publishes messages as ``ReplayLog.publish`` does."""
        if qos not in (0, 1, 2):
            raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
        if qos > 0:
            return append(self._connection, messages, durability, not raw)
        data = packed(self._connection, table_of(messages, escapes=not raw))
        found = self._connection.call("replay.publish", self._name, qos, durability, data)
        return record_of(Receipt, found)

    def _endpoint_of(self, name: str) -> Endpoint:
        return RemoteEndpoint(name, self._order, self._bound, self._browsing)

    def _bound(self, endpoint: str, options: dict[str, Any]) -> RemoteFlow:
        lease = self._lease()
        number, client = lease.call("replay.bind", self._name, endpoint, options)
        window, selector = options.get("window", WINDOW), options.get("selector")
        flow = RemoteFlow(RemoteHandle(lease, number), self._origin, client, window, selector)
        self._clients.add(flow)
        return flow

    def _browsing(self, endpoint: str, client: str) -> RemoteBrowser:
        lease = self._lease()
        number = lease.call("replay.browse", self._name, endpoint, client)
        browser = RemoteBrowser(RemoteHandle(lease, number), self._origin, client)
        self._clients.add(browser)
        return browser

    def _lease(self) -> Lease:
        if self.closed:
            raise _core.ClosedError(f"replay log {self._name!r} is closed")
        return self._connection.lease()

    def close(self) -> None:
        """Ends the clients that this object has made; the log stays open. May be repeated."""
        super().close()
        for client in list(self._clients):
            client.close()


def _send(connection: Connection, log: str, order: str, *args: Any) -> Any:
    return connection.call(f"replay.{order}", log, *args)


class RemoteEndpoint(DistantEndpoint):
    """An ``Endpoint`` of a log that a server has open. Thread-safe."""

    def __init__(
        self,
        name: str,
        send: Send,
        bind: Callable[[str, dict[str, Any]], RemoteFlow],
        browse: Callable[[str, str], RemoteBrowser],
    ) -> None:
        super().__init__(name, send)
        self._bind = bind
        self._browse = browse

    def bind(self, *, replay: ReplayStart | None = None, **options: Any) -> Flow:
        """Connects a client as ``Endpoint.bind`` does; it ends with the connection."""
        plain = replay_plain(options)
        if replay is not None:
            plain["replay"] = start_plain(replay)
        return self._bind(self._name, plain)

    def browse(self, *, client: str = "", replay: ReplayStart | None = None) -> Browser:
        """Connects a client that looks, as ``Endpoint.browse`` does."""
        if replay is not None:
            raise BrowserError(f"endpoint {self._name!r}: who browses cannot start a replay")
        return self._browse(self._name, client)


class RemoteFlow(Flow):
    """A ``Flow`` of an endpoint at a server; it leaves when its connection ends.

    A call that breaks ends it, as its result may be lost: what it had not acknowledged then comes
    again, to a client that is bound anew. Thread-safe.
    """

    def __init__(
        self, handle: RemoteHandle, origin: int, client: str, window: int, selector: str | None
    ) -> None:
        self._handle = handle
        self._origin = origin
        self._client = client
        self.window = window
        self._condition = selector
        self._reason: ReplayError | None = None

    @property
    def selector(self) -> str | None:
        """The condition for the messages that this client wants, or None if it wants all."""
        return self._condition

    @property
    def active(self) -> bool:
        """Whether the client is given messages now."""
        return bool(self._call("flow.active"))

    def receive(self, timeout: float | timedelta | None = None) -> ReplayMessage | None:
        """Waits for the next message, and returns it, as ``Flow.receive`` does."""
        batch = self._received(1, timeout)
        return None if batch is None else next(iter(batch))

    def receive_batch(
        self, rows: int = 1_000, timeout: float | timedelta | None = None
    ) -> ReplayBatch | None:
        """Waits for messages, and returns at most ``rows``, as ``Flow.receive_batch`` does."""
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        return self._received(rows, timeout)

    def _received(self, rows: int, timeout: float | timedelta | None) -> ReplayBatch | None:
        wait_us = timeout_us(timeout)
        if self._handle.closed and self._reason is None:
            raise _core.ClosedError(f"client {self._client!r} is closed")
        for slice_us in wait_slices(wait_us, WAIT_SLICE_US):
            try:
                found = self._call("flow.receive", rows, slice_us)
            except _core.ClosedError:
                if self._handle.closed:  # by another thread
                    return None
                raise
            if found is not None:
                return _batch_of(self._origin, found)
        return None

    def ack(self, *received: Received) -> None:
        """Acknowledges messages as ``Flow.ack`` does."""
        self._settled("ack", received)

    def reject(self, *received: Received) -> None:
        """Removes messages that this client cannot use, as ``Flow.reject`` does."""
        self._settled("reject", received)

    def release(self, *received: Received) -> None:
        """Gives messages back as ``Flow.release`` does."""
        self._settled("release", received)

    def _settled(self, what: str, received: tuple[Received, ...]) -> None:
        ids = [id for one in received for id in _ids_in(one)]
        for id in ids:
            if id.origin != self._origin:
                raise ValueError(f"message {id} was not given to this client, or it is done with")
        self._call("flow.settle", what, runs_of(ids))

    def _call(self, method: str, *args: Any) -> Any:
        if self._reason is not None:
            raise self._reason
        try:
            return self._handle.call(method, *args)
        except ReplayError as error:
            self._reason = error
            raise

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, the client was disconnected, or its connection ended."""
        return self._reason is not None or self._handle.over

    def close(self) -> None:
        """Leaves the endpoint. Closing it again does nothing."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"<topicdb.replay.Flow {self._client!r}>"


class RemoteBrowser(Browser):
    """A ``Browser`` of an endpoint at a server. Thread-safe.

    It is given the messages in parts, each as of its moment.
    """

    def __init__(self, handle: RemoteHandle, origin: int, client: str) -> None:
        self._handle = handle
        self._origin = origin
        self.client = client

    def __iter__(self) -> Iterator[ReplayMessage]:
        """Yields the messages that are at the endpoint, in order."""
        after: list[int] | None = None
        while True:
            found = self._handle.call("browser.page", after, _PAGE_ROWS)
            batch = _batch_of(self._origin, found)
            if len(batch) == 0:
                return
            yield from batch
            after = list(batch.ids[-1].place)

    def ack(self, *received: Received) -> None:
        """Raises BrowserError, as a browser takes no messages."""
        raise BrowserError(f"client {self.client!r} browses, and takes nothing")

    def close(self) -> None:
        """Leaves the endpoint. Closing it again does nothing."""
        self._handle.close()


def _ids_in(received: Received) -> list[MessageId]:
    if isinstance(received, ReplayBatch):
        return received.ids
    return [received.id if isinstance(received, ReplayMessage) else received]


def _batch_of(origin: int, found: Any) -> ReplayBatch:
    """Returns the messages that a server has sent, with their ids."""
    stored, runs, again = found
    assert isinstance(stored, Batch)
    redelivered = [False] * len(stored)
    for index in again:
        redelivered[index] = True
    return ReplayBatch(stored, ListedMessages(ids_of(origin, runs, _ALL), redelivered))

"""A connection to a server: its calls, and what the client has open there."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.errors import AccessError
from topicdb.remote.addresses import why_not
from topicdb.remote.client.lease import Lease
from topicdb.remote.errors import unpacked
from topicdb.remote.wire import PROTOCOL, bare_name, decode, encode
from topicdb.rights import served_methods

CONNECT_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 10.0
SILENCE_MAX_S = 20.0
"""After how long a connection counts as broken whose other machine takes nothing any more."""
SILENCE_OF_A_SITE_MAX_S = 3.0
"""The same where another server can answer."""
_PROBE_INTERVAL_S = 3600
"""Servers allow no probes more often than every 5 minutes, but without any gRPC sets no limit."""
_CHANGES = ("admin", "delete")
_REPEATED = frozenset(
    {name for name, right in served_methods().items() if right.kind not in _CHANGES}
    | {"cluster", "cluster.verify", "extent", "hello", "next", "next_of_scan", "stage.files"}
)
"""The calls that change nothing, so that another server may answer them."""
_TRANSPORT = (flight.FlightError, pa.ArrowException, OSError)


class Connection:
    """A connection to one server, with one token. Thread-safe, but not for use in a forked child.

    What lasts between calls belongs to a ``Lease``. The first such thing begins a lease, and a new
    one begins after the connection broke.

    If there are several servers, which are the sites of one cluster, it is a connection to the
    first of them that answers. When that one is gone, the next call goes to another one. Reads that
    must see what that one has not yet go to ``others``, which this connection owns.
    """

    def __init__(self, urls: Sequence[str], token: str | None, options: dict[str, Any]) -> None:
        self._urls = list(urls)
        self._client_options = options
        self._token = token
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._calls = 0
        self._reads = 0  # reads of streams that run
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._closed = False
        self._lease: Lease | None = None
        self._lease_lock = threading.Lock()
        self.id = secrets.token_hex(16)
        self._base = self.options_for(self.id)
        self._moving = threading.Lock()  # held while it connects to another server
        self._is_broken = False
        self._others: dict[str, Connection] = {}
        self._others_lock = threading.Lock()
        self.url = self._urls[0]
        self.hello: dict[str, Any] = {}
        self._client = self._reach(self._urls)

    def _reach(self, urls: Sequence[str]) -> flight.FlightClient:
        """Connects to the first of these servers that answers, and notes which that is.

        Raises AccessError, or the UnavailableError of the last one.
        """
        last: UnavailableError | None = None
        for url in urls:
            self.url = url
            try:
                return self._reach_one(url)
            except UnavailableError as error:
                last = error
        assert last is not None
        if len(urls) == 1:
            raise last
        raise UnavailableError(f"none of {', '.join(urls)} answers: {last}") from None

    def _reach_one(self, url: str) -> flight.FlightClient:
        with self.told():
            client = flight.FlightClient(
                url, generic_options=self._limits(), **self._client_options
            )
        try:
            hello = self._first_call(client)
            if hello["protocol"] != PROTOCOL:
                raise UnavailableError(
                    f"{url} speaks protocol {hello['protocol']}, this is {PROTOCOL}: install the "
                    "same version of topicdb on both sides"
                )
        except BaseException:
            client.close()
            raise
        self.hello = hello
        self._is_broken = False
        return client

    def _limits(self) -> list[tuple[str, int]]:
        """Returns what makes gRPC end a connection to a machine that has vanished.

        A machine that is switched off, or cut off, closes no connection. By itself, Linux would
        send a call again and again for about 15 minutes.
        """
        silence_s = SILENCE_OF_A_SITE_MAX_S if self.has_others else SILENCE_MAX_S
        return [
            ("grpc.keepalive_time_ms", _PROBE_INTERVAL_S * 1000),
            ("grpc.keepalive_timeout_ms", round(silence_s * 1000)),
        ]

    def _first_call(self, client: flight.FlightClient) -> dict[str, Any]:
        """Returns what the server says of itself; checks the token, too.

        Raises AccessError, or UnavailableError that says in plain words why there is no connection.
        """
        action = flight.Action("hello", encode([]))
        try:
            (result,) = client.do_action(action, self.options_for(self.id, CONNECT_TIMEOUT_S))
        except _TRANSPORT as error:
            found = self._translated(error)
            if isinstance(found, UnavailableError) and not getattr(error, "extra_info", None):
                found = UnavailableError(why_not(self.url, _text_of(error)))
            raise found from None
        hello: dict[str, Any] = decode(result.body.to_pybytes(), trusted=True)
        return hello

    @property
    def has_others(self) -> bool:
        """Returns whether there are several servers, of which another one may answer."""
        return len(self._urls) > 1

    def others(self) -> list[Callable[[], Connection]]:
        """Returns what connects to each of the other servers, and stays connected."""
        place = self._urls.index(self.url)
        urls = [*self._urls[place + 1 :], *self._urls[:place]]
        return [partial(self._other, url) for url in urls]

    def _other(self, url: str) -> Connection:
        with self._others_lock:
            self.check_open()
            if url not in self._others:
                self._others[url] = Connection([url], self._token, self._client_options)
            return self._others[url]

    def _taken_others(self) -> list[Connection]:
        with self._others_lock:
            others, self._others = list(self._others.values()), {}
        return others

    def _sound(self) -> flight.FlightClient:
        """Returns the client of a server that was not seen to be gone."""
        if not self._is_broken:
            return self._client
        with self._moving:
            if self._is_broken and not self._closed:
                place = self._urls.index(self.url) + 1
                old, self._client = (
                    self._client,
                    self._reach([*self._urls[place:], *self._urls[:place]]),
                )
                with suppress(*_TRANSPORT):
                    old.close()
            return self._client

    def options_for(
        self, connection: str, timeout: float | None = None
    ) -> flight.FlightCallOptions:
        """Returns options for calls of the client with this id; ``timeout`` is in seconds."""
        headers = [(b"topicdb-connection", connection.encode())]
        if self._token is not None:
            headers.append((b"authorization", b"Bearer " + self._token.encode()))
        return flight.FlightCallOptions(headers=headers, timeout=timeout)

    def call(
        self,
        method: str,
        *args: Any,
        options: flight.FlightCallOptions | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Returns the result of a call, or raises what the server raises, or UnavailableError.

        A call that changes nothing goes to each of several servers before it fails.
        """
        if timeout is not None:
            options = self.options_for(self.id, timeout)
        for _ in self._urls:
            try:
                with self.calling(), self.told():
                    action = flight.Action(method, encode(list(args)))
                    (result,) = self._sound().do_action(action, options or self._base)
                    return decode(result.body.to_pybytes(), trusted=True)
            except UnavailableError:
                if not self._is_broken or bare_name(method) not in _REPEATED:
                    raise
        raise UnavailableError(f"none of {', '.join(self._urls)} answers")

    def read(
        self, method: str, *args: Any, options: flight.FlightCallOptions | None = None
    ) -> Stream:
        """Returns a stream of messages; read it within ``told``, which translates its errors."""
        with self.calling(), self.told():
            ticket = flight.Ticket(encode([method, *args]))
            stream = Stream(self, self._sound().do_get(ticket, options or self._base))
            self._streams.add(stream)
            return stream

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raises transport errors of the block as ours, and errors of the server as they were."""
        try:
            yield
        except _core.Error:
            raise
        except _TRANSPORT as error:
            raise self._translated(error) from None

    def _translated(self, error: BaseException) -> BaseException:
        info = getattr(error, "extra_info", None)
        if info:
            with suppress(ValueError, KeyError, TypeError):
                found = unpacked(decode(bytes(info)))
                if type(found) is UnavailableError:  # it shuts down
                    self._is_broken = self.has_others
                return found
        text = _text_of(error)
        if isinstance(error, (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)):
            return AccessError(f"{self.url}: {text}")
        # A stream that somebody has cancelled, or a call that took too long, is no sign of that.
        if isinstance(error, flight.FlightUnavailableError):
            self._is_broken = self.has_others
        return UnavailableError(f"{self.url}: {text}")

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Counts the block as a call, for whose end ``close`` waits."""
        self.check_process()
        with self._changed:
            self.check_open()
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts the block as a read, which ``close`` cancels and waits for."""
        with self._changed:
            self._reads += 1
        try:
            yield
        finally:
            with self._changed:
                self._reads -= 1
                self._changed.notify_all()

    @property
    def is_forked(self) -> bool:
        """Returns whether this process is a fork of the one that connected.

        The threads of the connection, and those that hold its locks, are only in the other one.
        """
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raises ForkedError in a forked child."""
        if self.is_forked:
            raise _core.ForkedError(
                f"the connection to {self.url} belongs to process {self._pid}: connect anew here"
            )

    def check_open(self) -> None:
        """Raises ClosedError after ``close``, and ForkedError in a forked child."""
        self.check_process()
        if self._closed:
            raise _core.ClosedError(f"the connection to {self.url} is closed")

    def lease(self) -> Lease:
        """Returns the lease of now, or a new one if it has ended."""
        with self._lease_lock:
            if self._lease is not None and self._lease.lost:
                self.id = secrets.token_hex(16)
                self._base = self.options_for(self.id)
                self._lease = None
            if self._lease is None:
                self._lease = Lease(self, self._base)
            return self._lease

    @property
    def closed(self) -> bool:
        """Returns whether ``close`` was called."""
        return self._closed

    def abandon(self) -> None:
        """Ends what is open at the server without waiting, for a database that nobody refers to."""
        self._closed = True
        if self.is_forked:
            return
        for other in self._taken_others():
            other.abandon()
        if self._lease is not None:
            self._lease.end()
        self._let_go()

    def close(self) -> None:
        """Ends what is open at the server, and waits for calls that run. May be repeated."""
        if self.is_forked:
            self._closed = True
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
        for other in self._taken_others():
            other.close()
        with self._lease_lock:
            if self._lease is not None:
                self._lease.end()
        with self._changed:
            self._changed.wait_for(lambda: self._calls == 0)
        self._let_go()
        with self._changed:
            self._changed.wait_for(lambda: self._reads == 0, CLOSE_TIMEOUT_S)
        with suppress(*_TRANSPORT):
            self._client.close()

    def _let_go(self) -> None:
        for stream in list(self._streams):
            stream.let_go()


class Stream:
    """A stream of messages that the server sends bit by bit.

    Closing the connection lets it go, even if a caller still refers to it: pyarrow's reader would
    keep the socket open.
    """

    def __init__(self, connection: Connection, reader: flight.FlightStreamReader) -> None:
        self._connection = connection
        self._reader: flight.FlightStreamReader | None = reader

    def read_chunk(self) -> flight.FlightStreamChunk:
        """Returns the next chunk; raises StopIteration at the end, ClosedError if it was let go."""
        reader = self._reader
        if reader is None:
            raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
        try:
            with self._connection.reading():
                return reader.read_chunk()
        finally:
            del reader  # a traceback would keep it alive

    def cancel(self) -> None:
        """Ends the stream, and calls that wait for it."""
        reader = self._reader
        if reader is not None:
            reader.cancel()

    def let_go(self) -> None:
        """Ends the stream, and frees what pyarrow has of it."""
        self.cancel()
        self._reader = None


def _text_of(error: BaseException) -> str:
    text = str(error).partition(". gRPC client debug context")[0]
    return text.partition(" error, with message: ")[2] or text

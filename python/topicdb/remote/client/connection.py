"""A connection to a server: calls, and what the client has open there."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from topicdb import _core
from topicdb.errors import AccessError, UnavailableError
from topicdb.remote.addresses import why_not
from topicdb.remote.errors import unpacked
from topicdb.remote.wire import PROTOCOL, decode, encode

PING_INTERVAL_S = 5.0
PING_TIMEOUT_S = 20.0
PING_RETRY_S = 0.1
CONNECT_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 10.0
_TRANSPORT = (flight.FlightError, pa.ArrowException, OSError)


class Connection:
    """To one server, with one token. Thread-safe; not in a forked child.

    What lasts between calls belongs to a ``Lease``, which begins with the first such thing and ends
    when the connection breaks; the next one begins anew.
    """

    def __init__(self, url: str, token: str | None, options: dict[str, Any]) -> None:
        self.url = url
        self._token = token
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._calls = 0
        self._reads = 0  # of streams, that wait for something
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._closed = False
        self._lease: Lease | None = None
        self._lease_lock = threading.Lock()
        self.id = secrets.token_hex(16)
        self._base = self.options_for(self.id)
        with self.told():
            self._client = flight.FlightClient(url, **options)
        try:
            self.hello: dict[str, Any] = self._first_call()
        except BaseException:
            self._client.close()
            raise
        if self.hello["protocol"] != PROTOCOL:
            self._client.close()
            raise UnavailableError(
                f"{url} speaks protocol {self.hello['protocol']}, this is {PROTOCOL}: install the "
                "same version of topicdb on both sides"
            )

    def _first_call(self) -> dict[str, Any]:
        """AccessError; UnavailableError says in plain words why there is no connection."""
        action = flight.Action("hello", encode([]))
        try:
            (result,) = self._client.do_action(action, self.options_for(self.id, CONNECT_TIMEOUT_S))
        except _TRANSPORT as error:
            found = self._translated(error)
            if isinstance(found, UnavailableError) and not getattr(error, "extra_info", None):
                found = UnavailableError(why_not(self.url, _text_of(error)))
            raise found from None
        hello: dict[str, Any] = decode(result.body.to_pybytes(), trusted=True)
        return hello

    def options_for(
        self, connection: str, timeout: float | None = None
    ) -> flight.FlightCallOptions:
        """Who calls; ``timeout`` in seconds."""
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
        """What the server's method gives. Raises what that raises; UnavailableError."""
        if timeout is not None:
            options = self.options_for(self.id, timeout)
        with self.calling(), self.told():
            action = flight.Action(method, encode(list(args)))
            (result,) = self._client.do_action(action, options or self._base)
            return decode(result.body.to_pybytes(), trusted=True)

    def read(
        self, method: str, *args: Any, options: flight.FlightCallOptions | None = None
    ) -> Stream:
        """A stream of messages; reading it raises within ``told``."""
        with self.calling(), self.told():
            ticket = flight.Ticket(encode([method, *args]))
            stream = Stream(self, self._client.do_get(ticket, options or self._base))
            self._streams.add(stream)
            return stream

    @contextmanager
    def told(self) -> Iterator[None]:
        """Transport errors as ours, and those of the server as they were there."""
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
                return unpacked(decode(bytes(info)))
        text = _text_of(error)
        if isinstance(error, (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)):
            return AccessError(f"{self.url}: {text}")
        return UnavailableError(f"{self.url}: {text}")

    @contextmanager
    def calling(self) -> Iterator[None]:
        """``close`` waits for what runs in it."""
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
        """``close`` ends what runs in it, and waits for that."""
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
        """This is not the process that connected: its threads, and who holds locks, are there."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """ForkedError."""
        if self.is_forked:
            raise _core.ForkedError(
                f"the connection to {self.url} belongs to process {self._pid}: connect anew here"
            )

    def check_open(self) -> None:
        """ClosedError, ForkedError."""
        self.check_process()
        if self._closed:
            raise _core.ClosedError(f"the connection to {self.url} is closed")

    def lease(self) -> Lease:
        """That of now; a new one if it has ended."""
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
        """``close`` was called."""
        return self._closed

    def abandon(self) -> None:
        """For who has forgotten it: ends what is open at the server, and does not wait."""
        self._closed = True
        if self.is_forked:
            return
        if self._lease is not None:
            self._lease.end()
        self._let_go()

    def close(self) -> None:
        """Ends what is open at the server, waits for calls in flight. May be repeated."""
        if self.is_forked:
            self._closed = True
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
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
    """What the server gives bit by bit. It is let go when the connection is closed, whoever still
    has this: what pyarrow has of a stream keeps the socket open."""

    def __init__(self, connection: Connection, reader: flight.FlightStreamReader) -> None:
        self._connection = connection
        self._reader: flight.FlightStreamReader | None = reader

    def read_chunk(self) -> flight.FlightStreamChunk:
        """The next; StopIteration at the end. ClosedError: it was let go."""
        reader = self._reader
        if reader is None:
            raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
        try:
            with self._connection.reading():
                return reader.read_chunk()
        finally:
            del reader  # a traceback keeps what is here

    def cancel(self) -> None:
        """Ends it, and calls that wait."""
        reader = self._reader
        if reader is not None:
            reader.cancel()

    def let_go(self) -> None:
        """Ends it for good."""
        self.cancel()
        self._reader = None


def _text_of(error: BaseException) -> str:
    text = str(error).partition(". gRPC client debug context")[0]
    return text.partition(" error, with message: ")[2] or text


class Lease:
    """What a client has open at a server lives as long as this. Thread-safe.

    One thread waits for the end, another says that the client is there and passes on, without
    keeping anybody waiting, what was acknowledged and what was left to the garbage collector.
    """

    def __init__(self, connection: Connection, options: flight.FlightCallOptions) -> None:
        self.connection = connection
        self._options = options
        self._ping_options = connection.options_for(connection.id, PING_TIMEOUT_S)
        self._readers: set[Stream] = set()
        self._changed = threading.Condition()
        self._acknowledged: dict[int, int] = {}
        self._sending = False
        self._left: list[int] = []
        self._reason: Exception | None = None
        self.lost = False
        self._reader = connection.read("connection", options=self._options)
        with connection.told():
            self._reader.read_chunk()
        for target, name in ((self._wait, "topicdb-connection"), (self._tell, "topicdb-pings")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def call(self, method: str, *args: Any) -> Any:
        """As ``Connection.call``; UnavailableError when the lease has ended."""
        if self.lost:
            raise self.why()
        return self.connection.call(method, *args, options=self._options)

    def read(self, method: str, *args: Any) -> Stream:
        """As ``Connection.read``."""
        return self.connection.read(method, *args, options=self._options)

    def end_with(self, reader: Stream) -> None:
        """Cancels a reader that lasts when this ends."""
        with self._changed:
            self._readers.add(reader)
            if not self.lost:
                return
        reader.cancel()

    def forget(self, reader: Stream) -> None:
        """It has come to its end."""
        with self._changed:
            self._readers.discard(reader)

    def acknowledge(self, number: int, seqno: int) -> None:
        """To be told soon: the messages of a subscription up to there are done with."""
        with self._changed:
            self._acknowledged[number] = seqno
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until what was acknowledged is told."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.lost or (not self._acknowledged and not self._sending)
            )

    def why(self) -> _core.Error:
        """What to raise when it is lost."""
        url = self.connection.url
        if self.connection.closed:
            return _core.ClosedError(f"the connection to {url} is closed")
        if isinstance(self._reason, AccessError):
            return AccessError(str(self._reason))
        told = "" if self._reason is None else f": {self._reason}"
        return UnavailableError(f"{url}: the connection broke, what was open has ended{told}")

    def leave(self, number: int) -> None:
        """To be closed soon; for finalizers, which must not wait."""
        self._left.append(number)

    def _wait(self) -> None:
        try:
            with self.connection.told(), suppress(StopIteration):
                while True:
                    self._reader.read_chunk()
        except Exception as error:
            self._reason = self._reason or error
        finally:
            self.end()

    def _tell(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self.lost or bool(self._acknowledged), PING_INTERVAL_S
                )
                if self.lost:
                    return
                acknowledged, self._acknowledged = self._acknowledged, {}
                self._sending = True
            try:
                self._tell_once(acknowledged)
            except _core.QuotaError:  # too many calls: what was acknowledged must get there
                self._tell_later(acknowledged)
            except _core.Error as error:
                self._reason = self._reason or error
                self.end()
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()

    def _tell_once(self, acknowledged: dict[int, int]) -> None:
        while self._left:  # a finalizer may append meanwhile
            self.call("close", self._left[0])
            self._left.pop(0)
        self.connection.call("ping", acknowledged, options=self._ping_options)

    def _tell_later(self, acknowledged: dict[int, int]) -> None:
        time.sleep(PING_RETRY_S)
        with self._changed:
            self._acknowledged = {**acknowledged, **self._acknowledged}

    def _end(self) -> None:
        with self._changed:
            self.lost = True
            self._changed.notify_all()

    def end(self) -> None:
        """Closes everything at the server, which notices soon. Does not wait."""
        self._end()
        self._reader.cancel()
        with self._changed:
            readers = list(self._readers)
        for reader in readers:
            reader.cancel()


class RemoteHandle:
    """Something that is open at the server, under a number.

    A call of it that breaks may have had its effect there, and what it gave may be lost: so it is
    over then, and what it had not acknowledged is given again to who opens it anew.
    """

    def __init__(self, lease: Lease, number: int) -> None:
        self.lease = lease
        self.number = number
        self._over = False
        self._finalizer = weakref.finalize(self, lease.leave, number)
        self._finalizer.atexit = False

    def call(self, method: str, *args: Any) -> Any:
        """A call about it. ClosedError when it is over."""
        if self._over:
            raise _core.ClosedError(f"{method}: it is closed, or its connection broke")
        try:
            return self.lease.call(method, self.number, *args)
        except UnavailableError:
            self.close()
            raise
        except (_core.Error, ValueError, TypeError, OverflowError, RuntimeError):
            raise
        except BaseException:  # interrupted: what it gave has reached nobody
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """``close`` was called, or a call of it broke."""
        return self._over

    @property
    def over(self) -> bool:
        """It is closed, or its connection broke."""
        return self._over or self.lease.lost

    def ended(self) -> None:
        """The server has ended it."""
        self._over = True
        self._finalizer.detach()

    def close(self) -> None:
        """Ends it at the server. May be repeated."""
        if self._over:
            return
        self.ended()
        with suppress(_core.Error):
            self.lease.call("close", self.number)


def wait_slices(timeout_us: int | None, slice_us: int) -> Iterator[int]:
    """Times to wait for, together ``timeout_us``; at least one."""
    end = None if timeout_us is None else time.monotonic() + timeout_us / 1e6
    while True:
        left = slice_us if end is None else round((end - time.monotonic()) * 1e6)
        yield max(0, min(left, slice_us))
        if end is not None and time.monotonic() >= end:
            return

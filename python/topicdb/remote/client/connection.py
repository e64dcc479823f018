"""A connection to a server: its calls, and what the client has open there."""

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
    """A connection to one server, with one token. Thread-safe, but not for use in a forked child.

    What lasts between calls belongs to a ``Lease``. The first such thing begins a lease, and a new
    one begins after the connection broke.
    """

    def __init__(self, url: str, token: str | None, options: dict[str, Any]) -> None:
        self.url = url
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
        """Returns what the server says of itself; checks the token, too.

        Raises AccessError, or UnavailableError that says in plain words why there is no connection.
        """
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
        """Returns the result of a call, or raises what the server raises, or UnavailableError."""
        if timeout is not None:
            options = self.options_for(self.id, timeout)
        with self.calling(), self.told():
            action = flight.Action(method, encode(list(args)))
            (result,) = self._client.do_action(action, options or self._base)
            return decode(result.body.to_pybytes(), trusted=True)

    def read(
        self, method: str, *args: Any, options: flight.FlightCallOptions | None = None
    ) -> Stream:
        """Returns a stream of messages; read it within ``told``, which translates its errors."""
        with self.calling(), self.told():
            ticket = flight.Ticket(encode([method, *args]))
            stream = Stream(self, self._client.do_get(ticket, options or self._base))
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
                return unpacked(decode(bytes(info)))
        text = _text_of(error)
        if isinstance(error, (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)):
            return AccessError(f"{self.url}: {text}")
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


class Lease:
    """Keeps alive what a client has open at a server. Thread-safe.

    The connection makes it. One thread waits for the end of the connection. Another one pings: it
    says that the client is there, which messages were acknowledged, and which handles the garbage
    collector has left, so that no caller waits for that. ``lost`` is true once it has ended; what
    was open at the server has ended as well, and the lease is not used again.
    """

    def __init__(self, connection: Connection, options: flight.FlightCallOptions) -> None:
        self.connection = connection
        self._id = connection.id
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

    def call(self, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Returns the result of ``Connection.call``; raises ``why()`` if the lease has ended."""
        if self.lost:
            raise self.why()
        options = self._options
        if timeout is not None:
            options = self.connection.options_for(self._id, timeout)
        return self.connection.call(method, *args, options=options)

    def read(self, method: str, *args: Any) -> Stream:
        """Returns a stream of messages as ``Connection.read`` does."""
        return self.connection.read(method, *args, options=self._options)

    def end_with(self, reader: Stream) -> None:
        """Has a stream cancelled when the lease ends."""
        with self._changed:
            self._readers.add(reader)
            if not self.lost:
                return
        reader.cancel()

    def forget(self, reader: Stream) -> None:
        """Forgets a stream that has come to its end."""
        with self._changed:
            self._readers.discard(reader)

    def acknowledge(self, number: int, seqno: int) -> None:
        """Has the server told soon that the messages of a subscription up to ``seqno`` are done."""
        with self._changed:
            self._acknowledged[number] = seqno
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until the server is told what was acknowledged."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.lost or (not self._acknowledged and not self._sending)
            )

    def why(self) -> _core.Error:
        """Returns the error for a lease that has ended."""
        url = self.connection.url
        if self.connection.closed:
            return _core.ClosedError(f"the connection to {url} is closed")
        if isinstance(self._reason, AccessError):
            return AccessError(str(self._reason))
        told = "" if self._reason is None else f": {self._reason}"
        return UnavailableError(f"{url}: the connection broke, what was open has ended{told}")

    def leave(self, number: int) -> None:
        """Has a handle closed soon; for finalizers, which must not wait."""
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
        """Ends everything at the server, which notices soon; does not wait for that."""
        self._end()
        self._reader.cancel()
        with self._changed:
            readers = list(self._readers)
        for reader in readers:
            reader.cancel()


class RemoteHandle:
    """Something that is open at the server, under a number.

    A call of it that breaks may have had its effect at the server, and its result may be lost. So
    such a call ends the handle, and whatever it had not acknowledged is given again to a reader
    that is opened anew. If the handle is garbage collected, the lease closes it.
    """

    def __init__(self, lease: Lease, number: int) -> None:
        self.lease = lease
        self.number = number
        self._over = False
        self._finalizer = weakref.finalize(self, lease.leave, number)
        self._finalizer.atexit = False

    def call(self, method: str, *args: Any) -> Any:
        """Returns the result of a call about it, or raises ClosedError if it is closed."""
        if self._over:
            raise _core.ClosedError(f"{method}: it is closed, or its connection broke")
        try:
            return self.lease.call(method, self.number, *args)
        except UnavailableError:
            self.close()
            raise
        except (_core.Error, ValueError, TypeError, OverflowError, RuntimeError):
            raise
        except BaseException:  # interrupted: the result has reached no caller
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Returns whether it was closed, or a call of it broke."""
        return self._over

    @property
    def over(self) -> bool:
        """Returns whether it is closed, or its connection broke."""
        return self._over or self.lease.lost

    def ended(self) -> None:
        """Notes that the server has ended it."""
        self._over = True
        self._finalizer.detach()

    def leave(self) -> None:
        """Has it ended at the server soon; does not wait for that."""
        self._over = True
        self._finalizer()

    def close(self) -> None:
        """Ends it at the server. May be repeated.

        If the server takes no more calls now, the lease does it soon.
        """
        if self._over:
            return
        self._over = True
        try:
            self.lease.call("close", self.number)
        except _core.QuotaError:
            self._finalizer()
        except _core.Error:
            pass
        self._finalizer.detach()


def wait_slices(timeout_us: int | None, slice_us: int) -> Iterator[int]:
    """Yields times to wait, in microseconds, at most ``slice_us`` each; at least one.

    Together they are ``timeout_us``; None: they never end.
    """
    end = None if timeout_us is None else time.monotonic() + timeout_us / 1e6
    while True:
        left = slice_us if end is None else round((end - time.monotonic()) * 1e6)
        yield max(0, min(left, slice_us))
        if end is not None and time.monotonic() >= end:
            return

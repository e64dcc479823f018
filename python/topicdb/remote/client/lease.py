"""What a client has open at a server, and what keeps it open."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow.flight as flight

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.errors import AccessError

if TYPE_CHECKING:
    from topicdb.remote.client.connection import Connection, Stream

PING_INTERVAL_S = 5.0
PING_TIMEOUT_S = 20.0
PING_RETRY_S = 0.1


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

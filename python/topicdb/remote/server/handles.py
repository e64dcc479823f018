"""The clients of a server, and what the server keeps for them between calls."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from topicdb import _core
from topicdb.remote.server.access import Access
from topicdb.remote.server.memory import Account, Charge, Memory

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What the clients of one token together may use of a server at a time.

    A call that asks for more fails with QuotaError, unless the field says otherwise.

    Attributes:
        calls_max: calls, scans and subscriptions that run; each takes a thread. A connection that
            has something open counts as one as well.
        handles_max: transactions, tails, watches, subscriptions, members and names that are open.
        appends_max: appends that are stored at a time. Others wait.
        append_bytes_max: bytes of one append, or of the writes of one transaction.
        arguments_bytes_max: bytes of the arguments of one call as JSON, without values.
        batch_bytes_max: bytes of a batch of a scan. A scan that asks for larger ones gets these.
        window_bytes_max: bytes of the window of a subscription. One that asks for a larger window
            gets this.
        token_memory_bytes_max: bytes of memory that calls and open transactions hold. A call that
            needs more waits.
        memory_bytes_max: the same, of all tokens together.
        memory_wait_s: seconds that a call waits for memory before it fails.
        client_timeout_s: seconds of silence after which a client counts as gone.

    Example:
        >>> from topicdb.remote.server.handles import Limits
        >>> limits = Limits(calls_max=100, token_memory_bytes_max=256 << 20)
        >>> with topicdb.serve(db, limits=limits) as server:
        ...     server.port > 0
        True
    """

    calls_max: int = 1_000
    handles_max: int = 10_000
    appends_max: int = 8
    append_bytes_max: int = 64 << 20
    arguments_bytes_max: int = 4 << 20
    batch_bytes_max: int = 64 << 20
    window_bytes_max: int = 64 << 20
    token_memory_bytes_max: int = 512 << 20
    memory_bytes_max: int = 1 << 30
    memory_wait_s: float = 10.0
    client_timeout_s: float = 30.0

    def window_bytes(self, wanted: int) -> int:
        """Returns the window that a client gets: several of them must fit in a token's memory."""
        return min(wanted, self.window_bytes_max, self.token_memory_bytes_max // 4)


class Handle(Protocol):
    """Something that a client has open at the server, and that ends with the client."""

    def close(self) -> None: ...


AnyHandle = TypeVar("AnyHandle", bound=Handle)


class Share:
    """Counts what the clients of one token use together, against the limits. Thread-safe.

    ``Clients`` owns it, and keeps it as long as the server runs.
    """

    def __init__(self, token: str, limits: Limits, memory: Memory) -> None:
        self._token = token
        self.account = Account(memory, token, limits.token_memory_bytes_max)
        self._limits = limits
        self._lock = threading.Lock()
        self._calls = 0
        self._handles = 0
        self.appends = threading.BoundedSemaphore(limits.appends_max)

    def begin_call(self) -> None:
        """Counts a call, or raises QuotaError if too many run."""
        with self._lock:
            if self._calls >= self._limits.calls_max:
                raise _core.QuotaError(
                    f"token {self._token!r}: {self._calls} calls at a time are too many: use fewer "
                    "threads and subscriptions, or raise the server's limit"
                )
            self._calls += 1

    def end_call(self) -> None:
        with self._lock:
            self._calls -= 1

    def begin_handle(self) -> None:
        """Counts a handle, or raises QuotaError if too many are open."""
        with self._lock:
            if self._handles >= self._limits.handles_max:
                raise _core.QuotaError(
                    f"token {self._token!r}: {self._handles} transactions, subscriptions and others"
                    " at a time are too many: close some, or raise the server's limit"
                )
            self._handles += 1

    def end_handles(self, count: int) -> None:
        with self._lock:
            self._handles -= count


class Client:
    """One connection of one token, with the handles that it has open. Thread-safe.

    ``Clients`` makes it at the first call of the connection. It ends with the connection, or when
    it was silent for too long. ``has_lease``: a call lasts as long as the connection, and others
    come all the time to say that the client is there.
    """

    def __init__(self, name: str, share: Share, numbers: Iterator[int]) -> None:
        self.name = name
        self.share = share
        self._numbers = numbers
        self._lock = threading.Lock()
        self._handles: dict[int, Handle] = {}
        self._ended = False
        self._calls = 0
        self._seen_at = time.monotonic()  # when a call last began or ended
        self.has_lease = False

    def begin_call(self) -> None:
        """Counts a call, or raises QuotaError if too many of the token run."""
        self._seen_at = time.monotonic()
        self.share.begin_call()
        with self._lock:
            self._calls += 1

    def end_call(self) -> None:
        with self._lock:
            self._seen_at = time.monotonic()
            self._calls -= 1
        self.share.end_call()

    def is_silent_since(self, time_s: float) -> bool:
        """Returns whether it made no call since then, by the monotonic clock in seconds.

        A client without a lease is not silent while it reads a long scan.
        """
        with self._lock:
            return self._seen_at < time_s and (self.has_lease or self._calls == 0)

    def keep(self, handle: AnyHandle) -> int:
        """Takes over a handle, and returns the number under which ``get`` finds it.

        Raises QuotaError if too many handles are open, and ClosedError if the client has gone; the
        handle is closed then.
        """
        try:
            self.share.begin_handle()
        except BaseException:
            handle.close()
            raise
        with self._lock:
            if not self._ended:
                number = next(self._numbers)
                self._handles[number] = handle
                return number
        self.share.end_handles(1)
        handle.close()
        raise _core.ClosedError(f"client {self.name} has gone")

    def get(self, number: Any, kind: type[AnyHandle]) -> AnyHandle:
        """Returns the handle with this number, or raises ClosedError if it has ended."""
        with self._lock:
            handle = self._handles.get(number)
        if not isinstance(handle, kind):
            raise _core.ClosedError(
                f"this {kind.__name__.lower()} is over: it was closed, or its connection broke"
            )
        return handle

    def drop(self, number: Any) -> None:
        """Closes the handle with this number, if there is one."""
        with self._lock:
            handle = self._handles.pop(number, None)
        if handle is not None:
            self.share.end_handles(1)
            handle.close()

    def handles(self) -> list[Handle]:
        """Returns all handles that are open."""
        with self._lock:
            return list(self._handles.values())

    def end(self) -> None:
        """Closes all handles; ``keep`` takes no more from now on. May be repeated."""
        with self._lock:
            self._ended = True
            handles, self._handles = list(self._handles.values()), {}
        self.share.end_handles(len(handles))
        for handle in handles:
            try:
                handle.close()
            except Exception:
                _logger.exception("closing a handle of client %s", self.name)

    @property
    def ended(self) -> bool:
        """Returns whether ``end`` was called."""
        return self._ended


class Caller(NamedTuple):
    """The token and client that make a call, and what the call holds of the server's memory."""

    access: Access
    client: Client
    charge: Charge


class Clients:
    """All clients of a server, and the shares of their tokens. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.memory = Memory(limits.memory_bytes_max, limits.memory_wait_s)
        self._lock = threading.Lock()
        self._by_key: dict[tuple[str, str], Client] = {}
        self._shares: dict[str, Share] = {}
        # All clients share it, so that the numbers of an ended client mean nothing to a later one.
        self._numbers = itertools.count(1)

    def find(self, access: Access, connection: str) -> Client:
        """Returns the client of a connection, a new one if there is none that has not ended.

        The name of the token is part of the key: numbers of handles mean nothing to the connections
        of other tokens.
        """
        key = access.name, connection
        with self._lock:
            client = self._by_key.get(key)
            if client is None or client.ended:
                share = self._shares.get(access.name)
                if share is None:
                    share = self._shares[access.name] = Share(
                        access.name, self._limits, self.memory
                    )
                client = self._by_key[key] = Client(
                    f"{access.name}/{connection[:8]}", share, self._numbers
                )
            return client

    def end_silent(self) -> None:
        """Ends the clients that made no call for ``client_timeout_s``."""
        since = time.monotonic() - self._limits.client_timeout_s
        self._end(lambda client: client.is_silent_since(since))

    def end_all(self) -> None:
        """Ends all clients."""
        self._end(lambda _: True)

    def _end(self, has_gone: Callable[[Client], bool]) -> None:
        with self._lock:
            gone = [key for key, client in self._by_key.items() if has_gone(client)]
            clients = [self._by_key.pop(key) for key in gone]
        for client in clients:
            client.end()

    def memory_by_token(self) -> dict[str, int]:
        """Returns the bytes that calls and open transactions hold, by the name of the token."""
        with self._lock:
            return {token: share.account.used for token, share in self._shares.items()}

    def all(self) -> list[Client]:
        """Returns the clients that are known, of which some may have ended."""
        with self._lock:
            return list(self._by_key.values())

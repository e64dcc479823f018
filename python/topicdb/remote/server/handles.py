"""What a server keeps for its clients between calls, and who they are."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from topicdb import _core
from topicdb.remote.server.access import Access
from topicdb.remote.server.memory import Account, Memory

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What the clients of one token may have of a server at a time, together.

    ``calls_max``: calls, scans and subscriptions, each of which takes a thread; a connection with
    something open takes one as well. ``handles_max``: transactions, tails, watches, subscriptions,
    members and names. ``appends_max``: appends that are stored at a time; others
    wait. ``append_bytes_max``: of one append, or of the writes of one transaction.
    ``arguments_bytes_max``: of the arguments of one call, without values, as JSON.
    ``batch_bytes_max``, ``window_bytes_max``: what a scan or a subscription may ask for.
    ``token_memory_bytes_max``: what calls and open transactions hold in memory; of all tokens
    together ``memory_bytes_max``. Who needs more waits up to ``memory_wait_s``.
    ``client_timeout_s``: who says nothing for so long has gone.
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


class Handle(Protocol):
    """Something that ends when its client does."""

    def close(self) -> None: ...


AnyHandle = TypeVar("AnyHandle", bound=Handle)


class Share:
    """What the clients of one token have, together. Thread-safe."""

    def __init__(self, token: str, limits: Limits, memory: Memory) -> None:
        self._token = token
        self.account = Account(memory, token, limits.token_memory_bytes_max)
        self._limits = limits
        self._lock = threading.Lock()
        self._calls = 0
        self._handles = 0
        self.appends = threading.BoundedSemaphore(limits.appends_max)

    def begin_call(self) -> None:
        """QuotaError: there are too many."""
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
        """QuotaError: there are too many."""
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
    """One connection of one token, and what it has open. Thread-safe."""

    def __init__(self, name: str, share: Share, numbers: Iterator[int]) -> None:
        self.name = name
        self.share = share
        self._numbers = numbers
        self._lock = threading.Lock()
        self._handles: dict[int, Handle] = {}
        self._ended = False
        self.seen_at = time.monotonic()

    def begin_call(self) -> None:
        """QuotaError: there are too many of its token."""
        self.seen_at = time.monotonic()
        self.share.begin_call()

    def end_call(self) -> None:
        self.seen_at = time.monotonic()
        self.share.end_call()

    def keep(self, handle: AnyHandle) -> int:
        """Its number. QuotaError: there are too many, ClosedError: the client has gone; then it is
        closed."""
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
        """ClosedError: it has ended, with the connection or by itself."""
        with self._lock:
            handle = self._handles.get(number)
        if not isinstance(handle, kind):
            raise _core.ClosedError(
                f"this {kind.__name__.lower()} is over: it was closed, or its connection broke"
            )
        return handle

    def drop(self, number: Any) -> None:
        """Closes it, if it is there."""
        with self._lock:
            handle = self._handles.pop(number, None)
        if handle is not None:
            self.share.end_handles(1)
            handle.close()

    def handles(self) -> list[Handle]:
        """All that it has."""
        with self._lock:
            return list(self._handles.values())

    def end(self) -> None:
        """Closes everything; nothing can be kept from now on. May be repeated."""
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
        """``end`` was called."""
        return self._ended


class Clients:
    """All that are known. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.memory = Memory(limits.memory_bytes_max, limits.memory_wait_s)
        self._lock = threading.Lock()
        self._by_key: dict[tuple[str, str], Client] = {}
        self._shares: dict[str, Share] = {}
        # Of all clients: the number of one that has ended means nothing to who comes after it.
        self._numbers = itertools.count(1)

    def find(self, access: Access, connection: str) -> Client:
        """That of this connection; a new one if need be. What a connection of another token has
        open cannot be reached by its number."""
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
        """Ends those that said nothing for too long."""
        since = time.monotonic() - self._limits.client_timeout_s
        self._end(lambda client: client.seen_at < since)

    def end_all(self) -> None:
        """Ends all of them."""
        self._end(lambda _: True)

    def _end(self, has_gone: Callable[[Client], bool]) -> None:
        with self._lock:
            gone = [key for key, client in self._by_key.items() if has_gone(client)]
            clients = [self._by_key.pop(key) for key in gone]
        for client in clients:
            client.end()

    def memory_by_token(self) -> dict[str, int]:
        """Bytes that calls and open transactions of each token hold."""
        with self._lock:
            return {token: share.account.used for token, share in self._shares.items()}

    def all(self) -> list[Client]:
        """Those that are known now."""
        with self._lock:
            return list(self._by_key.values())

"""What a server keeps for its clients between calls, and who they are."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from topicdb import _core
from topicdb.remote.access import Access

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one client may have of a server at a time.

    ``calls_max``: calls, scans and subscriptions. ``handles_max``: transactions, tails, watches,
    subscriptions, members and names. ``appends_max``: appends whose messages are received; others
    wait. ``append_bytes_max``: of one append, or of the writes of one transaction.
    ``batch_bytes_max``, ``window_bytes_max``: what a scan or a subscription may ask for.
    ``client_timeout_s``: who says nothing for so long has gone.
    """

    calls_max: int = 256
    handles_max: int = 1_000
    appends_max: int = 4
    append_bytes_max: int = 64 << 20
    batch_bytes_max: int = 64 << 20
    window_bytes_max: int = 64 << 20
    client_timeout_s: float = 30.0


class Handle(Protocol):
    """Something that ends when its client does."""

    def close(self) -> None: ...


AnyHandle = TypeVar("AnyHandle", bound=Handle)


class Client:
    """One connection of one token, and what it has open. Thread-safe."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self._lock = threading.Lock()
        self._handles: dict[int, Handle] = {}
        self._numbers = itertools.count(1)
        self._calls = 0
        self._ended = False
        self.appends = threading.BoundedSemaphore(limits.appends_max)
        self.seen_at = time.monotonic()

    def begin_call(self) -> None:
        """QuotaError: it has too many."""
        self.seen_at = time.monotonic()
        with self._lock:
            if self._calls >= self._limits.calls_max:
                raise _core.QuotaError(
                    f"client {self.name}: {self._calls} calls at a time are too many: "
                    "use fewer threads, or raise the server's limit"
                )
            self._calls += 1

    def end_call(self) -> None:
        self.seen_at = time.monotonic()
        with self._lock:
            self._calls -= 1

    def keep(self, handle: Handle) -> int:
        """Its number. QuotaError: the client has too many; then it is closed."""
        with self._lock:
            if not self._ended and len(self._handles) < self._limits.handles_max:
                number = next(self._numbers)
                self._handles[number] = handle
                return number
            ended = self._ended
        handle.close()
        if ended:
            raise _core.ClosedError(f"client {self.name} has gone")
        raise _core.QuotaError(
            f"client {self.name}: {self._limits.handles_max} transactions, subscriptions and others"
            " at a time are too many: close some, or raise the server's limit"
        )

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
        self._lock = threading.Lock()
        self._by_key: dict[tuple[str, str], Client] = {}

    def find(self, access: Access, connection: str) -> Client:
        """That of this connection; a new one if need be. What a connection of another token has
        open cannot be reached by its number."""
        key = access.name, connection
        with self._lock:
            client = self._by_key.get(key)
            if client is None or client.ended:
                client = self._by_key[key] = Client(f"{access.name}/{connection[:8]}", self._limits)
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

    def all(self) -> list[Client]:
        """Those that are known now."""
        with self._lock:
            return list(self._by_key.values())

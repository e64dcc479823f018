"""Limits the memory that calls of clients hold, and makes them wait before the limit.

Every token has an account, and all accounts share the memory of the server. A call that is about to
read waits until there is room, and gets less at a time while there is little. Data that is in
memory already, such as the arguments of a call that has arrived, may wait only while at most a
quarter of the account's limit waits so; more is refused at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from topicdb import _core
from topicdb.closing import Closing, nothing

SHARE_BYTES_MIN = 64 << 10
_SHARES = 4
_LOOK_INTERVAL_S = 0.5


class Memory:
    """The bytes of memory that clients of a server may hold, and do hold.

    Thread-safe: ``changed`` guards its figures and those of all accounts.
    """

    def __init__(self, bytes_max: int, wait_s: float) -> None:
        self.bytes_max = bytes_max
        self.wait_s = wait_s
        self.changed = threading.Condition()
        self.used = 0
        self.waits = 0
        """How often a call had to wait."""


class Account:
    """The bytes of memory that the clients of one token may hold, and do hold. Thread-safe.

    While a method waits for room, it calls ``check`` now and then. An error that ``check`` raises
    ends the wait.
    """

    def __init__(self, memory: Memory, token: str, bytes_max: int) -> None:
        self._memory = memory
        self._token = token
        self._bytes_max = min(bytes_max, memory.bytes_max)
        self._held_max = self._bytes_max // _SHARES
        self._held = 0
        self.used = 0

    def share(self, most: int, check: Callable[[], None]) -> int:
        """Takes up to ``most`` bytes, and returns how many; waits while there is nearly no room.

        It takes at most a quarter of what is free, but at least 64 KiB, or ``most`` if that is
        less. Raises QuotaError if there was no room for too long.
        """
        least = min(most, SHARE_BYTES_MIN)
        return self._when_free(least, lambda free: max(least, min(most, free // _SHARES)), check)

    def take(self, size: int, check: Callable[[], None]) -> None:
        """Takes ``size`` bytes for what is not in memory yet; waits for room as ``share`` does."""
        self._when_free(size, lambda free: size, check)

    def hold(self, size: int, check: Callable[[], None]) -> None:
        """Takes ``size`` bytes for what is in memory already.

        Without room it waits, but raises QuotaError at once if too much in memory waits already.
        """
        with self._memory.changed:
            if self._free() >= size:
                self._add(size)
                return
            if self._held + size > self._held_max:
                raise self._full(size, 0.0)
            self._held += size
        try:
            self.take(size, check)
        finally:
            with self._memory.changed:
                self._held -= size

    def give_back(self, size: int) -> None:
        """Gives back ``size`` bytes that were taken."""
        with self._memory.changed:
            self._add(-size)
            self._memory.changed.notify_all()

    def _when_free(
        self, least: int, wanted: Callable[[int], int], check: Callable[[], None]
    ) -> int:
        memory = self._memory
        began = time.monotonic()
        has_waited = False
        while True:
            with memory.changed:
                free = self._free()
                if free >= least:
                    size = wanted(free)
                    self._add(size)
                    return size
                waited_s = time.monotonic() - began
                if least > self._bytes_max or waited_s >= memory.wait_s:
                    raise self._full(least, waited_s)
                memory.waits += not has_waited
                has_waited = True
                memory.changed.wait(min(_LOOK_INTERVAL_S, memory.wait_s - waited_s))
            check()

    def _free(self) -> int:
        """Returns the bytes that are free. REQUIRES: ``changed`` is held."""
        return min(self._bytes_max - self.used, self._memory.bytes_max - self._memory.used)

    def _add(self, size: int) -> None:
        """Counts ``size`` bytes more, or less if negative. REQUIRES: ``changed`` is held."""
        self.used += size
        self._memory.used += size

    def _full(self, size: int, waited_s: float) -> _core.QuotaError:
        """Returns the error for ``size`` bytes too many. REQUIRES: ``changed`` is held."""
        memory = self._memory
        waited = f", and {waited_s:.0f} s of waiting freed too little" if waited_s else ""
        return _core.QuotaError(
            f"token {self._token!r}: {size} bytes more are too many: its calls hold {self.used} of "
            f"{self._bytes_max} bytes, those of all {memory.used} of {memory.bytes_max}{waited}: "
            "read faster, close what is open, do less at a time, or raise the server's limits "
            "(--token-memory, --memory)"
        )


class Charge(Closing):
    """The bytes that one call, or one open object, has taken of an account. Thread-safe.

    It calls ``check`` now and then while it waits for room. An error that ``check`` raises ends the
    wait.
    """

    def __init__(self, account: Account, check: Callable[[], None] = nothing) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._bytes = 0
        self._closed = False
        self.check = check

    @property
    def bytes(self) -> int:
        """Returns how many bytes it has."""
        return self._bytes

    def share(self, most: int) -> int:
        """Takes up to ``most`` bytes for what is to come; see ``Account.share``."""
        size = self._account.share(most, self.check)
        self._add(size)
        return size

    def take(self, size: int) -> None:
        """Takes ``size`` bytes for what is to come; see ``Account.take``."""
        self._account.take(size, self.check)
        self._add(size)

    def hold(self, size: int) -> None:
        """Takes ``size`` bytes for what is in memory already; see ``Account.hold``."""
        self._account.hold(size, self.check)
        self._add(size)

    def settle(self, size: int) -> None:
        """Changes what it has to ``size`` bytes, which are in memory already."""
        with self._lock:
            spare = max(0, self._bytes - size)
            missing = max(0, size - self._bytes)
            self._bytes -= spare
        if spare:
            self._account.give_back(spare)
        if missing:
            self.hold(missing)

    def moved(self) -> Charge:
        """Returns a new charge that has all bytes of this one."""
        other = Charge(self._account)
        with self._lock:
            other._bytes, self._bytes = self._bytes, 0
        return other

    def _add(self, size: int) -> None:
        """Counts ``size`` bytes; after ``close`` it gives them back, and raises ClosedError."""
        with self._lock:
            if not self._closed:
                self._bytes += size
                return
        self._account.give_back(size)
        raise _core.ClosedError("the call is over")

    def close(self) -> None:
        """Gives everything back. May be repeated."""
        with self._lock:
            self._closed = True
            size, self._bytes = self._bytes, 0
        if size:
            self._account.give_back(size)

"""What a client has open in a server: each has a number, and ends with the connection."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import Any

from topicdb import _core
from topicdb.group import Member as GroupMember
from topicdb.remote.access import Access


class Transaction:
    """A transaction; changes come in lists, so that a call is needed for reads and the commit."""

    def __init__(self, core: _core.Transaction, bytes_max: int) -> None:
        self.core = core
        self._bytes_max = bytes_max
        self._bytes = 0

    def apply(self, access: Access, changes: list[Any]) -> None:
        """Writes, deletes and requirements, in their order. An error ends the transaction."""
        try:
            for kind, *args in changes:
                getattr(self, f"_{kind}" if kind in ("write", "delete", "require") else "_no")(
                    access, *args
                )
        except BaseException:
            self.core.rollback()
            raise

    def _no(self, access: Access, *args: Any) -> None:
        raise ValueError("a transaction writes, deletes and requires")

    def _write(
        self, access: Access, topic: str, timestamp: int | None, value: bytes | None, reserved: bool
    ) -> None:
        access.check_write(topic)
        self._bytes += len(topic) + len(value or b"")
        if self._bytes > self._bytes_max:
            raise _core.QuotaError(
                f"a transaction may write {self._bytes_max} bytes here: make it smaller, or raise "
                "the server's limit"
            )
        self.core.write(topic, timestamp, value, reserved)

    def _delete(
        self, access: Access, filter: str, start: int | None, end: int | None, reserved: bool
    ) -> None:
        access.check_delete(filter)
        self.core.delete(filter, start, end, reserved)

    def _require(self, access: Access, topic: str, timestamp: int, value: bytes | None) -> None:
        _core.check_topic(topic)
        access.check_read(topic)  # a failure tells what is there
        self.core.require(topic, timestamp, value)

    def close(self) -> None:
        self.core.rollback()


class Tail:
    def __init__(self, core: _core.Tail) -> None:
        self.core = core

    def close(self) -> None:
        self.core.close()


class Watch:
    def __init__(self, core: _core.StreamWatch) -> None:
        self.core = core

    def close(self) -> None:
        self.core.close()


class Subscription:
    """One that is given away as it comes, by a call that lasts."""

    def __init__(self, core: _core.Subscription) -> None:
        self.core = core
        self._acknowledged = 0
        self._lock = threading.Lock()

    def acknowledge(self, seqno: int) -> None:
        """Up to there; what is acknowledged already does not count."""
        with self._lock:
            if seqno > self._acknowledged:
                self.core.acknowledge(seqno)
                self._acknowledged = seqno

    def pause(self) -> None:
        self.core.pause()

    def resume(self) -> None:
        self.core.resume()

    def close(self) -> None:
        self.core.close()


class Member:
    """A member of a group; its batches have numbers until they are acknowledged."""

    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self._numbers = itertools.count(1)
        self._given: dict[int, _core.Batch] = {}
        self._acknowledged = 0

    def poll(self, rows: int, wait_us: int) -> tuple[int, _core.Batch] | None:
        batch = self.member.poll(rows, wait_us / 1e6)
        if len(batch) == 0:
            return None
        number = next(self._numbers)
        self._given[number] = batch
        return number, batch

    def ack(self, number: int) -> None:
        batch = self._given.get(number)
        if batch is None:
            raise ValueError("ack: this batch is acknowledged already, or was never given")
        self.member.ack(batch)
        del self._given[number]

    def close(self) -> None:
        self._given.clear()
        self.member.close()


class Holds:
    """Names of consumers and sessions that somebody has open. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[tuple[str, str], Hold] = {}

    def take(self, hold: Hold, *, takeover: bool) -> None:
        with self._lock:
            if not takeover and hold.key in self._by_name:
                kind, name = hold.key
                raise _core.ConflictError(
                    f"{kind} {name!r} is open already: close it, or take it with takeover=True"
                )
            self._by_name[hold.key] = hold

    def has(self, kind: str, name: str) -> bool:
        """Whether somebody has it open."""
        with self._lock:
            return (kind, name) in self._by_name

    def release(self, hold: Hold) -> None:
        with self._lock, suppress(KeyError):
            if self._by_name[hold.key] is hold:
                del self._by_name[hold.key]


class Hold:
    """That a consumer or session is open. ConflictError: it is, elsewhere."""

    def __init__(self, holds: Holds, kind: str, name: str, *, takeover: bool) -> None:
        self.key = kind, name
        self._holds = holds
        holds.take(self, takeover=takeover)

    def close(self) -> None:
        self._holds.release(self)

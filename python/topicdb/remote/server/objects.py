"""The objects that a client has open in a server: each has a number, and ends with the client."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb.engine import StreamCursor, SubscriptionCursor, TailCursor, TransactionEngine
from topicdb.follow.member import Member as GroupMember
from topicdb.follow.positions import check_stored
from topicdb.remote.records import About
from topicdb.remote.server.access import Access
from topicdb.remote.server.memory import Charge
from topicdb.remote.wire import ROW_SCHEMA, arrow_of

_ALL = (1 << 63) - 1
_CHANGE_BYTES = 100  # about what a change takes beside its topic and value


class Transaction:
    """A transaction that a client has open.

    Its changes come in lists, so the client needs a call only for reads and for the commit.
    ``Client`` owns it and closes it.
    """

    def __init__(self, core: TransactionEngine, bytes_max: int, charge: Charge) -> None:
        self.core = core
        self._bytes_max = bytes_max
        self._bytes = 0
        self._charge = charge

    def apply(self, access: Access, changes: list[Any]) -> None:
        """Applies writes, deletes and requirements in order; an error ends the transaction."""
        changing: dict[str, Callable[..., None]] = {
            "write": self._write,
            "delete": self._delete,
            "require": self._require,
            "require_present": self._require_present,
        }
        try:
            self._charge.take(_CHANGE_BYTES * len(changes))
            for change in changes:
                if not isinstance(change, list) or not change or change[0] not in changing:
                    raise ValueError("a transaction writes, deletes and requires")
                changing[change[0]](access, *change[1:])
        except BaseException:
            self.close()
            raise

    def _write(
        self, access: Access, topic: str, timestamp: int | None, value: bytes | None, reserved: bool
    ) -> None:
        access.check_write(topic)
        self._count(len(topic) + len(value or b""))
        check_stored(topic, value)
        self.core.write(topic, timestamp, value, reserved)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._bytes_max:
            raise _core.QuotaError(
                f"a transaction may write {self._bytes_max} bytes here: make it smaller, or raise "
                "the server's limit"
            )
        self._charge.take(size)

    def _delete(
        self, access: Access, filter: str, start: int | None, end: int | None, reserved: bool
    ) -> None:
        access.check_delete(filter)
        self._count(len(filter))
        self.core.delete(filter, start, end, reserved)

    def _require(self, access: Access, topic: str, timestamp: int, value: bytes | None) -> None:
        _core.check_topic(topic)
        access.check_read(topic)  # a requirement that fails tells what is stored
        self._count(len(topic) + len(value or b""))
        self.core.require(topic, timestamp, value)

    def _require_present(self, access: Access, topic: str, timestamp: int) -> None:
        _core.check_topic(topic)
        access.check_read(topic)
        self._count(len(topic))
        self.core.require_present(topic, timestamp)

    def close(self) -> None:
        self.core.rollback()
        self._charge.close()


class Tail:
    """A tail that a client has open."""

    def __init__(self, core: TailCursor) -> None:
        self.core = core

    def close(self) -> None:
        self.core.close()


class Watch:
    """A watch for new streams that a client has open."""

    def __init__(self, core: StreamCursor) -> None:
        self.core = core

    def close(self) -> None:
        self.core.close()


class Subscription:
    """A subscription that a client has open; one call, which lasts, sends its messages.

    ``wait_until_ready`` and ``next`` are for the thread of that call; others may call the rest.
    """

    def __init__(self, core: SubscriptionCursor, window_bytes: int) -> None:
        self.core = core
        self.window_bytes = window_bytes
        self._acknowledged = 0
        self._lock = threading.Lock()
        self._ready = _core.ReadyTokens()
        self._may_have_more = False
        core.on_ready(self._ready, 0)

    def wait_until_ready(self, timeout_us: int) -> bool:
        """Waits, and returns whether ``next`` has something or may have something."""
        return self._may_have_more or bool(self._ready.take(timeout_us))

    def next(self) -> tuple[pa.RecordBatch, About] | None:
        """Returns messages within the window, and what the client is told of them, or None."""
        found = self.core.next(0, _ALL)
        self._may_have_more = found is not None
        if found is None:
            return None
        columns = [*arrow_of(found.batch).columns, pa.array(found.rows)]
        return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA), About.of(found)

    def acknowledge(self, seqno: int) -> None:
        """Acknowledges messages up to ``seqno``, unless they are acknowledged already."""
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
        self._ready.close()


class Member:
    """A member of a group that a client has open.

    The batches that it gives have numbers until they are acknowledged. One call at a time uses it;
    ``close`` may come from another thread meanwhile.
    """

    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self._lock = threading.Lock()  # guards what is given, and whether it is closed
        self._closed = False
        self._numbers = itertools.count(1)
        self._given: dict[int, tuple[_core.Batch, Charge]] = {}

    def poll(self, rows: int, wait_us: int) -> tuple[int, _core.Batch] | None:
        """Returns the next batch and its number, or None if nothing came in time."""
        batch = self.member.poll(rows, wait_us / 1e6)
        if len(batch) == 0:
            return None
        return next(self._numbers), batch

    def keep(self, number: int, batch: _core.Batch, charge: Charge) -> None:
        """Keeps a batch until it is acknowledged, and counts what ``charge`` has until then.

        Raises ClosedError if the member was closed meanwhile; then ``charge`` stays as it is.
        """
        with self._lock:
            if self._closed:
                raise _core.ClosedError("the client has ended, and its member with it")
            self._given[number] = batch, charge.moved()

    def ack(self, number: int) -> None:
        """Acknowledges the batch with this number, or raises ValueError if it is not kept."""
        with self._lock:
            found = self._given.get(number)
        if found is None:
            raise ValueError("ack: this batch is acknowledged already, or was never given")
        batch, charge = found
        self.member.ack(batch)
        with self._lock:
            self._given.pop(number, None)
        charge.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            given, self._given = self._given, {}
        for _, charge in given.values():
            charge.close()
        self.member.close()


class Holds:
    """The names of consumers and sessions that clients have open. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[tuple[str, str], Hold] = {}

    def take(self, hold: Hold, *, takeover: bool) -> None:
        """Gives ``hold`` its name, or raises ConflictError if it is taken, unless ``takeover``."""
        with self._lock:
            if not takeover and hold.key in self._by_name:
                kind, name = hold.key
                raise _core.ConflictError(
                    f"{kind} {name!r} is open already: close it, or take it with takeover=True"
                )
            self._by_name[hold.key] = hold

    def has(self, kind: str, name: str) -> bool:
        """Returns whether a client has this name open."""
        with self._lock:
            return (kind, name) in self._by_name

    def release(self, hold: Hold) -> None:
        """Frees the name, unless another hold has taken it over."""
        with self._lock, suppress(KeyError):
            if self._by_name[hold.key] is hold:
                del self._by_name[hold.key]


class Hold:
    """Keeps the name of a consumer or session until it is closed.

    The constructor raises ConflictError if the name is open, unless ``takeover``.
    """

    def __init__(self, holds: Holds, kind: str, name: str, *, takeover: bool) -> None:
        self.key = kind, name
        self._holds = holds
        holds.take(self, takeover=takeover)

    def close(self) -> None:
        self._holds.release(self)

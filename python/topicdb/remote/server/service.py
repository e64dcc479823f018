"""The calls of a server, and the check whether a token may make them; no transport."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from topicdb import _core
from topicdb.cooperating import Extent
from topicdb.cursor.scan import check_batch_limits
from topicdb.database.database import Database
from topicdb.engine import Engine
from topicdb.engines.features import lacks_of, require
from topicdb.errors import AccessError
from topicdb.follow import session_state
from topicdb.follow.subscription import WINDOW_BYTES
from topicdb.remote.records import arguments_of, plain_result
from topicdb.remote.server.access import Access
from topicdb.remote.server.cluster import ClusterCalls
from topicdb.remote.server.handles import Caller, Clients, Limits
from topicdb.remote.server.objects import (
    Hold,
    Holds,
    Member,
    Subscription,
    Tail,
    Watch,
)
from topicdb.remote.server.reading import (
    PARCEL_SCHEMA,
    SCAN_PARCELS,
    WAIT_US_MAX,
    Parcels,
    Reads,
    chunks,
    seen,
)
from topicdb.remote.server.replays import FAMILIES as REPLAYS
from topicdb.remote.server.replays import Replays
from topicdb.remote.server.staging import FAMILY, UPLOAD, Staging
from topicdb.remote.server.transactions import TransactionCalls
from topicdb.remote.wire import (
    PARTIAL,
    PROTOCOL,
    arrow_of,
    bare_name,
    columns_schema,
    without_needs,
)
from topicdb.rights import ADMIN, served_methods

_Table: TypeAlias = dict[str, Callable[..., Any]]
_SERVED = served_methods()

_FEW_BYTES_MAX = 64 << 10
_MANY = {
    "check_log",
    "flow.settle",
    "missing_shards",
    "ping",
    "set_retention",
    "stage.commit",
    "subscribe",
    "subscription.find",
    "tail",
}
_NAMED = ("hold", "group", "drop_group", "member")
_WRITES = ("append", "append_async", "replay.publish")
_WITH_VALUES = (*_WRITES, UPLOAD, "check_log", "next_of_scan", "subscribe", "tail")  # or iterators
_ARGUMENTS_OF_SLICES = 5  # filters, slices, rows, bytes and serials: columns may follow the slices
_VALUES_OF_READ_MAX = 64 << 20  # of streams, slices and iterators, which travel as bytes


class Service:
    """Answers the calls of clients about one database, which it does not own. Thread-safe."""

    def __init__(self, database: Database, limits: Limits, snapshots: str | None) -> None:
        self.database = database
        self.limits = limits
        self.clients = Clients(limits)
        self._core: Engine = database._core
        whole, part = Reads(self._core, limits), Reads.of_part(self._core, limits)
        self._plain = {**whole.served(), **part.served()}
        self._parcels = Parcels(self._core, limits)
        self._snapshots = None if snapshots is None else Path(snapshots)
        self._holds = Holds()
        self._groups: dict[str, Any] = {}
        self._groups_lock = threading.Lock()
        self.replays = Replays(database, limits)
        self._calls: dict[str, Callable[..., Any]] = {
            "hello": self._hello,
            "extent": self._extent,
            "trim": self._trim,
            "snapshot": self._snapshot,
            "verify": self._verify,
            **ClusterCalls(database).calls(),
            **whole.calls(),
            **part.calls(),
            "tail.next": self._tail_next,
            "tail.shards": lambda caller, number: caller.client.get(number, Tail).core.shards(),
            "watch.next": self._watch_next,
            "subscription.info": self._subscription_info,
            "subscription.find": self._subscription_find,
            "subscription.pause": lambda who, number: self.subscription(who, number).pause(),
            "subscription.resume": lambda who, number: self.subscription(who, number).resume(),
            "ping": self._ping,
            "hold": self._hold,
            "group": self._group,
            "group.members": lambda caller, name: self._opened_group(caller, name).members(),
            "group.lag": lambda caller, name: self._opened_group(caller, name).lag(),
            "group.expired": lambda caller, name: self._opened_group(caller, name).expired,
            "group.lost": lambda caller, name: self._opened_group(caller, name).lost,
            "group.join": self._join,
            "group.set_filters": self._set_filters,
            "drop_group": self._drop_group,
            "member.poll": self._member_poll,
            "member.ack": self._member_ack,
            "member.heartbeat": lambda caller, number: self._member(
                caller, number
            ).member.heartbeat(),
            "member.parts": lambda caller, number: self._member(caller, number).member.parts,
            "close": lambda caller, number: caller.client.drop(number),
            **self.replays.calls,
        }
        self._reads: dict[str, Callable[..., Any]] = {
            **whole.scans(),
            **part.scans(),
            SCAN_PARCELS: self._parcels.read,
        }
        self._calls.update(Staging(self._core).calls)
        transactions = TransactionCalls(self._core, database._appends, limits)
        self._calls.update(transactions.calls)
        self._reads.update(transactions.reads)

    def knows(self, method: str) -> bool:
        """Returns whether there is a call with this name."""
        name = without_needs(method)
        return name in self._plain or name in self._calls or name in self._reads

    def admit(self, access: Access, method: str, size: int) -> int:
        """Returns how many bytes of JSON the arguments of a call may have, before they are read.

        ``size`` is that of the whole call. Raises ValueError if there is no such call, AccessError
        if the token may not make it, whatever the arguments are, and QuotaError if it is too large.
        """
        name = without_needs(method)
        if name not in _WRITES and name not in self._plain:
            _known(name, self._calls)
        _check_kind(access, bare_name(method))
        many = self.limits.arguments_bytes_max
        json_max = many if _has_many(method) else min(many, _FEW_BYTES_MAX)
        values_max = self.limits.append_bytes_max if _has_values(method) else _FEW_BYTES_MAX
        if size > json_max + values_max + _FEW_BYTES_MAX:
            raise _core.QuotaError(
                f"{method}: a call may have {json_max + values_max} bytes here, this one has {size}"
                ": split it, or raise the server's limits"
            )
        return json_max

    def admit_read(self, access: Access, size: int) -> int:
        """Does what ``admit`` does for a read, whose method is among its arguments."""
        many = self.limits.arguments_bytes_max if access.may_read_any() else _FEW_BYTES_MAX
        if size > many + _VALUES_OF_READ_MAX:
            raise _core.QuotaError(f"a read may have {many} bytes of arguments here, not {size}")
        return many

    def call(self, caller: Caller, method: str, args: list[Any]) -> Any:
        """Returns the result of a call.

        Raises what the database would, AccessError, and ValueError for a malformed call.
        """
        core, method, args = seen(self._core, method, args)
        plain, calls, _ = self._tables(core, method)
        if method in plain:
            name = method.removeprefix(PARTIAL)
            _check_right(caller.access, name, args)
            given = arguments_of(getattr(Engine, name), args)
            return plain_result(plain[method](*given))
        call = _known(method, calls)
        _check_arguments(call, method, caller, args)
        return call(caller, *args)

    def _tables(self, core: Engine, method: str) -> tuple[_Table, _Table, _Table]:
        """Returns the plain calls, the others, and the reads: all of them, or those of an engine.

        ``core``: one of the database, of which the reads must see more than those of the server's.
        """
        if core is self._core:
            return self._plain, self._calls, self._reads
        reads = Reads(core, self.limits, PARTIAL if method.startswith(PARTIAL) else "")
        return reads.served(), reads.calls(), reads.scans()

    def read(self, caller: Caller, method: str, args: list[Any]) -> Iterator[pa.RecordBatch]:
        """Returns the messages of a read; ``args`` ends with rows_max, bytes_max, with_serials.

        Parcels are read with other arguments, see ``Parcels.read``.
        """
        core, method, args = seen(self._core, method, args)
        if method == SCAN_PARCELS:
            _check_arguments(self._parcels.read, method, caller, args)
            return self._parcels.read(caller, *args)
        if len(args) < 3:
            raise ValueError(f"{method}: rows, bytes and serials are missing")
        *own, rows_max, bytes_max, with_serials = args
        check_batch_limits(rows_max, bytes_max)
        bytes_max = min(bytes_max, self.limits.batch_bytes_max)
        read = _known(method, self._tables(core, method)[2])
        _check_arguments(read, method, caller, own)
        names = self.schema_of(method, args).names
        scan = read(caller, *own)
        return chunks(scan, rows_max, bytes_max, with_serials, names, caller.charge)

    def schema_of(self, method: str, args: list[Any]) -> pa.Schema:
        """Returns the columns of what ``read`` gives for these arguments.

        Raises ValueError for columns that messages do not have.
        """
        if method == SCAN_PARCELS:
            return PARCEL_SCHEMA
        own = args if without_needs(method) == method else args[1:]
        chosen = bare_name(method) == "scan_slices" and len(own) > _ARGUMENTS_OF_SLICES
        with_serials = bool(own) and own[-1] is True
        return columns_schema(own[2] if chosen else None, with_serials=with_serials)

    def expire_sessions(self) -> None:
        """Forgets sessions that have ended and are not open; none while a shard is missing."""
        with suppress(_core.MissingShardError):
            session_state.expire(self._core, lambda name: self._holds.has("session", name))

    def close(self) -> None:
        """Ends what clients have open, and closes the groups."""
        self.clients.end_all()
        with self._groups_lock:
            for group in self._groups.values():
                group.close()
        self.replays.close()

    def groups(self) -> list[Any]:
        """Returns the groups that are open."""
        with self._groups_lock:
            return [group for group in self._groups.values() if not group.closed]

    # Reading.

    def _hello(self, caller: Caller) -> dict[str, Any]:
        caller.access.check_any()
        return {
            "append_bytes_max": self.limits.append_bytes_max,
            "lacks": sorted(lacks_of(self._core)),
            "protocol": PROTOCOL,
            "schema": self._core.schema,
            "token": caller.access.name,
            "quota_bytes": self._core.quota().quota_bytes,
            "missing_shards": sorted(self._core.missing_shards("#")),
            "parcels": self._parcels.versions(),
            "is_replicated": self.database.cluster is not None,
        }

    def _extent(self, caller: Caller, filters: Any) -> Extent:
        caller.access.check_read(filters)
        id = ""
        with suppress(NotImplementedError):
            id = self._core.scan_iterator(filters or "#", None, None).database.hex()
        return replace(self.database._extent(filters), database=id)

    # Administration.

    def _trim(self, caller: Caller, before_us: int, filter: str | None, dry_run: bool) -> Any:
        if filter is None:
            caller.access.check_admin()
        else:
            caller.access.check_delete(filter)
        return self._core.trim(before_us, filter, dry_run)

    def _snapshot(self, caller: Caller, path: str, base: str | None, copy: bool) -> Any:
        caller.access.check_admin()
        require(self._core, "snapshots", "snapshot")
        target = os.fspath(self._snapshot_path(path))
        source = None if base is None else os.fspath(self._snapshot_path(base))
        return self._core.snapshot(target, source, copy)

    def _snapshot_path(self, name: str) -> Path:
        if self._snapshots is None:
            raise AccessError("this server makes no snapshots: start it with a folder for them")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(
                f"snapshot: {name!r} is no name: it is made in the server's folder for snapshots"
            )
        return self._snapshots / name

    def _verify(self, caller: Caller, deep: bool) -> Any:
        caller.access.check_admin()
        return self.database.verify(deep=deep)

    # Following.

    def _tail_next(
        self, caller: Caller, number: int, rows: int, size: int, wait_us: int, with_serials: bool
    ) -> tuple[_core.Batch | None, dict[int, int]]:
        check_batch_limits(rows, size)
        tail = caller.client.get(number, Tail).core
        size = caller.charge.share(min(size, self.limits.batch_bytes_max))
        batch = tail.next_batch(rows, size, _wait(wait_us), with_serials)
        self._settle(caller, number, batch)
        return batch, tail.serials()

    def _settle(self, caller: Caller, number: int, batch: _core.Batch | None) -> None:
        """Charges for a batch; if there is no room for it, the reader has lost it, and ends."""
        try:
            caller.charge.settle(0 if batch is None else arrow_of(batch).nbytes)
        except BaseException:
            caller.client.drop(number)
            raise

    def _watch_next(self, caller: Caller, number: int, wait_us: int) -> list[_core.Stream]:
        return caller.client.get(number, Watch).core.next_streams(_wait(wait_us))

    def subscription(self, caller: Caller, number: int) -> Subscription:
        """Returns the subscription that this client has open under this number."""
        return caller.client.get(number, Subscription)

    def _subscription_info(self, caller: Caller, number: int) -> dict[str, Any]:
        return self.subscription(caller, number).core.info()

    def _subscription_find(self, caller: Caller, number: int, shard: int, places: Any) -> Any:
        return self.subscription(caller, number).core.find(shard, places)

    def _ping(self, caller: Caller, acknowledged: dict[int, int]) -> None:
        """Notes that the client is there, and what it acknowledges, by number of subscription."""
        for number, seqno in acknowledged.items():
            with suppress(_core.ClosedError):  # one that has ended does not stop the others
                self.subscription(caller, number).acknowledge(seqno)

    # Names and groups.

    def _hold(self, caller: Caller, kind: str, name: str, takeover: bool) -> int:
        caller.access.check_name(kind, name)
        return caller.client.keep(Hold(self._holds, kind, name, takeover=takeover))

    def _group(self, caller: Caller, name: str, filters: Any, options: dict[str, Any]) -> int:
        """Opens a group, and returns how many parts it has."""
        caller.access.check_name("group", name)
        caller.access.check_read(filters)
        timeout = timedelta(microseconds=options.pop("member_timeout_us"))
        options["window_bytes"] = self.limits.window_bytes(options["window_bytes"])
        with self._groups_lock:
            group = self.database.group(name, filters, member_timeout=timeout, **options)
            self._groups[name] = group
        return group.parts

    def _opened_group(self, caller: Caller, name: str) -> Any:
        caller.access.check_name("group", name)
        with self._groups_lock:
            group = self._groups.get(name)
        if group is None or group.closed:
            raise _core.ClosedError(f"group {name!r} is closed")
        return group

    def _set_filters(self, caller: Caller, name: str, filters: Any) -> None:
        group = self._opened_group(caller, name)
        caller.access.check_read(filters)
        group.set_filters(filters)

    def _drop_group(self, caller: Caller, name: str) -> None:
        caller.access.check_name("group", name)
        with self._groups_lock:
            group = self._groups.get(name)
            if group is not None and not group.members():
                group.close()
            self.database.drop_group(name)
            self._groups.pop(name, None)

    def _join(self, caller: Caller, group: str, name: str | None) -> tuple[int, str]:
        opened = self._opened_group(caller, group)
        caller.access.check_read(opened.filters)
        member = opened.join(name, raw=True)  # the client puts values in the form that it needs
        try:
            caller.access.check_read(opened.filters)  # with a member they cannot change any more
        except BaseException:
            member.close()
            raise
        return caller.client.keep(Member(member)), member.name

    def _member(self, caller: Caller, number: int) -> Member:
        return caller.client.get(number, Member)

    def _member_poll(self, caller: Caller, number: int, rows: int, wait_us: int) -> Any:
        member = self._member(caller, number)
        caller.charge.share(WINDOW_BYTES)
        found = member.poll(rows, _wait(wait_us))
        self._settle(caller, number, None if found is None else found[1])
        if found is not None:
            member.keep(*found, caller.charge)
        return found

    def _member_ack(self, caller: Caller, number: int, batch: int) -> None:
        self._member(caller, number).ack(batch)


def _known(method: str, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    if method not in table:
        raise ValueError(f"there is no call {method!r}: the client is of another version")
    return table[method]


def _wait(wait_us: int) -> int:
    return max(0, min(wait_us, WAIT_US_MAX))


def _has_many(method: str) -> bool:
    """Returns whether a call may have long lists as arguments."""
    return bare_name(method) in _MANY or method.startswith("transaction.")


def _has_values(method: str) -> bool:
    return bare_name(method) in _WITH_VALUES or method.startswith("transaction.")


def _check_kind(access: Access, method: str) -> None:
    """Raises AccessError if the token may not make such a call, whatever the arguments are."""
    if _SERVED.get(method) == ADMIN:
        access.check_admin()
    elif method in _WRITES:
        access.check_write_any()
    elif method.partition(".")[0] in _NAMED:
        access.check_own_any()
    elif method.partition(".")[0] in REPLAYS:
        access.check_logs_any()
    elif method.partition(".")[0] == FAMILY:
        access.check_everything()
    else:
        access.check_any()


def _check_right(access: Access, method: str, args: list[Any]) -> None:
    """Raises AccessError if the arguments are not allowed, ValueError if they are missing."""
    right = _SERVED[method]
    if right == ADMIN:
        access.check_admin()
    elif right.argument is None:
        access.check_any()
    elif len(args) <= right.argument:
        raise ValueError(f"{method}: arguments are missing")
    else:
        check = access.check_delete if right.kind == "delete" else access.check_read
        check(args[right.argument])


def _check_arguments(
    call: Callable[..., Any], method: str, caller: Caller, args: list[Any]
) -> None:
    """Raises ValueError if the arguments do not fit the call."""
    try:
        inspect.signature(call).bind(caller, *args)
    except TypeError as error:
        raise ValueError(f"{method}: {error}") from None

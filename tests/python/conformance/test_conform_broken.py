"""The suite catches engines that are broken on purpose, each in one way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import Faults
from lossy_engine import open_lossy

import topicdb
from examples.memory_engine.engine import MemoryEngine
from examples.memory_engine.journal import JournalEngine
from examples.memory_engine.state import Commit, Shard, Stored
from topicdb.conformance import BrokenPromiseError, Subject, promises
from topicdb.engines import BatchScan

broken = Faults()


# Messages are lost, or come twice.


@broken("it loses every 50th message", Shard, "_write", "histories.first_history")
def _(right: Any) -> Any:
    def write(self: Shard, stored: Stored) -> None:
        if not stored.value.endswith(b"50"):
            right(self, stored)

    return write


@broken("it loses an empty value", Shard, "_write", "appending.rows_come_back")
def _(right: Any) -> Any:
    def write(self: Shard, stored: Stored) -> None:
        if stored.value:
            right(self, stored)

    return write


@broken(
    "it acknowledges before it writes",
    JournalEngine,
    "record",
    "keeping.everything_is_there_afterwards",
)
def _(right: Any) -> Any:
    kept: list[Any] = []

    def record(self: JournalEngine, change: object, durability: str) -> None:
        kept.append((change, durability))  # the last one waits for the next
        if len(kept) > 1:
            right(self, *kept.pop(0))

    return record


@broken(
    "it acknowledges what nobody will find",
    JournalEngine,
    "_check_in_place",
    "keeping.nothing_durable_is_acknowledged_elsewhere",
)
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "it takes keys, and passes over them",
    MemoryEngine,
    "append_rows",
    "keys.keys_are_refused_where_topics_decide",
)
def _(right: Any) -> Any:
    def append_rows(self: MemoryEngine, rows: Any, *more: Any) -> Any:
        return right(self, rows, *more[:3])

    return append_rows


@broken(
    "it stores a repeated append again",
    MemoryEngine,
    "_known",
    "ids.a_repeated_append_is_stored_once",
)
def _(right: Any) -> Any:
    return lambda self, name, rows: None


@broken("it forgets ids when it is closed", JournalEngine, "_play", "ids.ids_are_kept")
def _(right: Any) -> Any:
    return lambda self, record: right(self, {**record, "id": None} if "id" in record else record)


@broken("it takes an id for other messages", MemoryEngine, "_known", "ids.an_id_is_for_one_append")
def _(right: Any) -> Any:
    def known(self: MemoryEngine, id: str, rows: Any) -> Any:
        found = {s.number: s.ids[id].serial for s in self.shards if id in s.ids}
        return found or None

    return known


@broken(
    "it keeps one message of a topic and time",
    Shard,
    "_write",
    "appending.equal_places_follow_the_layout",
)
def _(right: Any) -> Any:
    def write(self: Shard, stored: Stored) -> None:
        same = [p for p, m in self.messages.items() if m[:2] == stored[:2]]
        for place in same:
            del self.messages[place]
        right(self, stored)

    return write


@broken(
    "a bad row stores those before it",
    MemoryEngine,
    "append_rows",
    "appending.a_bad_row_stores_nothing",
)
def _(right: Any) -> Any:
    def append(self: MemoryEngine, rows: Iterable[Any], *more: Any) -> Any:
        *before, last = list(rows) or [None]
        if before:
            right(self, before[:1], *more)
        return right(self, [*before[1:], last] if last is not None else [], *more)

    return append


# Orders.


@broken("a scan by time is not sorted", MemoryEngine, "scan", "scanning.by_time")
def _(right: Any) -> Any:
    return lambda self, wanted, start, end, order, streams: right(
        self, wanted, start, end, "stream" if order == "time" else order, streams
    )


@broken("equal timestamps come in reverse", Stored, "rank", "scanning.by_stream")
def _(right: Any) -> Any:
    return property(lambda self: (self.timestamp, -self.serial, -self.row))


@broken(
    "a new generation comes among old ones",
    MemoryEngine,
    "scan",
    "scanning.an_older_generation_comes_first",
)
def _(right: Any) -> Any:
    return lambda self, wanted, start, end, order, streams: right(
        self, wanted, start, end, "time" if order == "stream" else order, streams
    )


@broken("the log is by timestamp", Shard, "behind", "log.commits_in_their_order")
def _(right: Any) -> Any:
    return lambda self, place: sorted(right(self, place), key=lambda stored: stored.timestamp)


@broken("serials are used twice", MemoryEngine, "commit", "appending.serials_increase")
def _(right: Any) -> Any:
    def commit(self: MemoryEngine, shard: Shard, *more: Any) -> Any:
        done = right(self, shard, *more)
        if shard.serial % 5 == 0:
            shard.serial -= 1
        return done

    return commit


@broken("serials begin again", JournalEngine, "_play", "keeping.serials_and_timestamps_go_on")
def _(right: Any) -> Any:
    def play(self: JournalEngine, record: Any) -> None:
        right(self, record)
        for shard in self.shards:
            shard.serial = 0

    return play


@broken("assigned timestamps repeat", MemoryEngine, "commit", "appending.timestamps_are_assigned")
def _(right: Any) -> Any:
    def commit(self: MemoryEngine, shard: Shard, rows: Any, *more: Any) -> Any:
        given = [(topic, 10**16 if time is None else time, value) for topic, time, value in rows]
        return right(self, shard, given, *more)

    return commit


# Deletes.


@broken(
    "it forgets a delete when it is closed", JournalEngine, "record", "deleting.deletes_are_kept"
)
def _(right: Any) -> Any:
    def record(self: JournalEngine, change: object, durability: str) -> None:
        if not (isinstance(change, Commit) and change.deletes):
            right(self, change, durability)

    return record


@broken(
    "a delete takes the end of its range", Shard, "_delete", "deleting.exactly_what_matches_is_gone"
)
def _(right: Any) -> Any:
    def delete(self: Shard, range: Any, generation: Any) -> Any:
        filter, start, end = range
        return right(self, (filter, start, None if end is None else end + 1), generation)

    return delete


@broken(
    "a delete takes the current generation alone",
    Shard,
    "_delete",
    "deleting.all_generations_are_meant",
)
def _(right: Any) -> Any:
    return lambda self, times, generation: right(self, times, generation or self.generation)


@broken("a wildcard deletes $ topics", Shard, "_delete", "deleting.a_wildcard_spares_dollar_topics")
def _(right: Any) -> Any:
    def delete(self: Shard, range: Any, generation: Any) -> Any:
        more = right(self, ("$SYS/#", *range[1:]), generation) if range[0] == "#" else []
        return [*right(self, range, generation), *more]

    return delete


# Errors.


@broken("a bad filter is a KeyError", MemoryEngine, "scan", "scanning.what_cannot_be_is_refused")
def _(right: Any) -> Any:
    def scan(self: MemoryEngine, *arguments: Any) -> Any:
        try:
            return right(self, *arguments)
        except topicdb.TopicError as error:
            raise KeyError(str(error)) from None

    return scan


@broken("a bad filter finds nothing", MemoryEngine, "scan", "scanning.what_cannot_be_is_refused")
def _(right: Any) -> Any:
    def scan(self: MemoryEngine, *arguments: Any) -> Any:
        try:
            return right(self, *arguments)
        except topicdb.TopicError:
            return BatchScan([])

    return scan


@broken(
    "the current generation can be dropped",
    MemoryEngine,
    "drop_slab",
    "generations.the_current_one_stays",
)
def _(right: Any) -> Any:
    def drop(self: MemoryEngine, shard: int, retention_class: str, generation: int) -> None:
        if generation == self.shards[shard].generation:
            self.rotate(None)
        right(self, shard, retention_class, generation)

    return drop


@broken(
    "a durability that it does not know is fine",
    MemoryEngine,
    "reached",
    "appending.durability_is_reached_or_refused",
)
def _(right: Any) -> Any:
    return lambda self, durability: durability or "none"


@broken(
    "it does what it says that it lacks",
    MemoryEngine,
    "lacks",
    "basics.says_that_it_lacks_a_method",
)
def _(right: Any) -> Any:
    return property(lambda self: right.fget(self) | {"deletes"})


# Layouts.


def _any_layout(right: Any) -> Any:
    return lambda self, name, resets_clock=False, layout=None: right(self, name, resets_clock)


broken("any layout is fine", MemoryEngine, "rotate", "generations.each_has_its_layout")(_any_layout)
broken("what has no log is passed by", MemoryEngine, "rotate", "log.nothing_is_passed_by_silently")(
    _any_layout
)


# Reads.


@broken("a scan sees what comes later", MemoryEngine, "scan_of", "scanning.a_scan_sees_one_moment")
def _(right: Any) -> Any:
    def scan_of(self: MemoryEngine, messages: Any) -> BatchScan:
        known = list(messages)

        def live() -> Iterator[Any]:
            yield from known
            seen = {message[3] for message in known}
            for shard in self.shards:
                for stored in shard.messages.values():
                    if stored.serial not in seen:
                        yield stored.numbered

        return right(self, live())  # type: ignore[no-any-return]

    return scan_of


@broken("readers see half an append", MemoryEngine, "commit", "scanning.readers_see_whole_commits")
def _(right: Any) -> Any:
    def commit(self: MemoryEngine, shard: Shard, rows: Any, *more: Any) -> Any:
        half = len(rows) // 2
        right(self, shard, rows[:half], *more)
        self.changed.wait(0.02)  # others come in between
        return right(self, shard, rows[half:], *more)

    return commit


@broken(
    "a batch may be larger than was asked for",
    BatchScan,
    "next_batch",
    "scanning.batches_keep_the_limits",
)
def _(right: Any) -> Any:
    return lambda self, rows_max, *more: right(self, rows_max + 1, *more)


@broken("the end of a range is in it", Shard, "find", "scanning.ranges_include_the_start_alone")
def _(right: Any) -> Any:
    return lambda self, filters, start, end: right(
        self, filters, start, None if end is None else end + 1
    )


@broken(
    "an iterator stays where it is",
    MemoryEngine,
    "next",
    "streams.pages_continue_where_the_last_ended",
)
def _(right: Any) -> Any:
    def next(self: MemoryEngine, iterator: topicdb.Iterator, *limits: int) -> topicdb.Page:
        page = right(self, iterator, *limits)
        return topicdb.Page(iterator, page.batch, page.end_of_stream)

    return next


@broken(
    "an old stream never ends", MemoryEngine, "next", "streams.a_generation_that_ended_has_an_end"
)
def _(right: Any) -> Any:
    def next(self: MemoryEngine, *arguments: Any) -> topicdb.Page:
        page = right(self, *arguments)
        return topicdb.Page(page.iterator, page.batch, False)

    return next


@broken(
    "streams of another database are taken",
    MemoryEngine,
    "_counts",
    "streams.another_database_is_not_found",
)
def _(right: Any) -> Any:
    return lambda self, database, *place: right(self, self.database, *place)


@broken("slices have later commits", MemoryEngine, "slices", "slices.they_are_of_one_moment")
def _(right: Any) -> Any:
    def slices(self: MemoryEngine, *arguments: Any) -> Any:
        return [one._replace(until=1 << 40) for one in right(self, *arguments)]

    return slices


# Closing.


@broken(
    "a closed engine answers",
    MemoryEngine,
    "check_open",
    "closing.a_closed_engine_refuses_every_call",
)
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "a closed engine says something else",
    MemoryEngine,
    "check_open",
    "closing.cursors_end_with_the_engine",
)
def _(right: Any) -> Any:
    def check(self: MemoryEngine) -> None:
        if self.closed:
            raise topicdb.StorageError("no such file")

    return check


@broken("closing wakes nobody", MemoryEngine, "close", "closing.closing_ends_calls_that_wait")
def _(right: Any) -> Any:
    def close(self: MemoryEngine) -> None:
        self._closed = True

    return close


@broken(
    "an append beside close() is acknowledged and lost",
    JournalEngine,
    "_write",
    "closing.closing_waits_for_appends",
)
def _(right: Any) -> Any:
    def write(self: JournalEngine, record: Any, durability: str) -> None:
        if isinstance(record, dict) and record.get("serial", 0) < 12:
            right(self, record, durability)

    return write


@pytest.mark.parametrize("what", list(broken))
def test_it_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.check(what, tmp_path, monkeypatch)


def test_a_loss_by_a_kill_is_caught(tmp_path: Path) -> None:
    name = "keeping.nothing_acknowledged_is_lost_by_a_kill"
    (promise,) = [one for one in promises() if one.name == name]
    with pytest.raises(BrokenPromiseError, match="messages of append"):
        promise.check(Subject("lossy", open_lossy), tmp_path)

"""Compares every operation of the database with the reference model, in random order.

``HYPOTHESIS_PROFILE=nightly`` tries many more examples, and other ones each time.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from strategies import filters, fleets, key, payload, schemas, some_keys, timestamp, topic

import topicdb
from model.model import (
    Cursor,
    Key,
    Model,
    ResolvedRow,
    Row,
    ScanCursor,
    Schema,
    SlabId,
    StreamRef,
    check_scan,
)
from model.structures import StreamKey
from model.topics import is_filter
from topicdb import jobs
from topicdb.engines.groups import MessageGroups

try:
    import pyarrow as pa
except ImportError:
    pa = None

# The tests make hundreds of databases, which takes far less time where fsync costs nothing.
MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

rows_strategy = st.lists(st.tuples(topic, st.none() | timestamp, payload), max_size=20)
bad_keys = st.sampled_from(["", b"", "\ud800", 5, 1.5, ["a", ""], ["a", 5], [None] * 21, []])
bad_rows = st.sampled_from(
    [
        ("", 1, b""),
        ("a/+", 1, b""),
        ("a/\0", 1, b""),
        ("\ud800", 1, b""),
        ("x" * 65_536, 1, b""),
        ("a", -1, b""),
        ("a", 2**63, b""),
        ("a", 1.5, b""),
        ("a", 1, "text"),
        ("a", 1),
        None,
    ]
)


class DatabaseMachine(RuleBasedStateMachine):
    """A database, a reader of it, and saved iterators."""

    saved: Bundle[tuple[bytes, Cursor]] = Bundle("saved")
    scans: Bundle[tuple[bytes, ScanCursor, int]] = Bundle("scans")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="topicdb-test-", dir=MEMORY_DISK))
        self.path = self.directory / "test.db"
        self.values_made = 0
        self.jobs_made = 0
        self.databases = 1  # how many there were at the path, one after the other
        self.named: dict[str, tuple[list[Row], list[Key], topicdb.Receipt]] = {}
        self.reader: topicdb.Database | None = None
        self.has_iterators = False

    @initialize(schema=schemas, seal_bytes=st.sampled_from([1, 100, 1_000, 16 << 20]))
    def create(self, schema: Schema, seal_bytes: int) -> None:
        self.seal_bytes = seal_bytes
        self.model = Model(schema)
        self.reader_model = self.model
        self.schema_options: dict[str, Any] = {
            "shards": schema.shards,
            "shard_by": schema.shard_by,
            "thresholds": schema.thresholds,
            "structures": schema.structures,
            "retention": dict.fromkeys(schema.retention),
            "timestamp_bytes": schema.timestamp_bytes,
            "layout": schema.layout,
        }
        self.db = self._open(**self.schema_options)

    # Writing

    @rule(rows=rows_strategy, keys=some_keys)
    def append(self, rows: list[Row], keys: Key | list[Key]) -> None:
        self._append(rows, self.db.append, keys)

    @rule(rows=fleets(), keys=some_keys)
    def append_fleet(self, rows: list[Row], keys: Key | list[Key]) -> None:
        self._append(rows, self.db.append, keys)

    @precondition(lambda self: self.model.count() > 0)
    @rule(data=st.data(), rotates=st.booleans(), keys=some_keys)
    def append_what_is_there(
        self, data: st.DataObject, rotates: bool, keys: Key | list[Key]
    ) -> None:
        """Appends messages with topics and times of stored ones, perhaps in another generation."""
        stored = sorted(
            {(e.topic, e.timestamp) for s in self.model.slabs.values() for e in s.entries.values()}
        )
        chosen = data.draw(st.lists(st.sampled_from(stored), min_size=1, max_size=4))
        if rotates:
            self._rotate(None, data.draw(self._layouts()))
        rows: list[Row] = [(topic, timestamp, b"again") for topic, timestamp in chosen]
        self._append(rows, self.db.append, keys)

    @rule(rows=rows_strategy, is_async=st.booleans(), keys=some_keys)
    def append_with_an_id(self, rows: list[Row], is_async: bool, keys: Key | list[Key]) -> None:
        name = f"id {len(self.named)}"

        def store(prepared: list[Row], *, key: Any) -> topicdb.Receipt:
            if is_async:
                receipt = self.db.append_async(prepared, key=key, id=name).result()
            else:
                receipt = self.db.append(prepared, key=key, id=name)
            assert not receipt.repeated
            self.named[name] = prepared, self._keys_of(prepared, keys), receipt
            return receipt

        self._append(rows, store, keys)

    @precondition(lambda self: self.named)
    @rule(data=st.data(), other=rows_strategy)
    def repeat_an_append(self, data: st.DataObject, other: list[Row]) -> None:
        """Repeats an append with its id, which stores nothing, whatever became of its messages."""
        name = data.draw(st.sampled_from(sorted(self.named)))
        rows, keys, first = self.named[name]
        given = keys if any(keys) else None
        again = self.db.append(rows, key=given, id=name)
        assert (again.serials, again.count) == (first.serials, first.count)
        assert again.repeated == bool(rows)
        others = [self._prepare(row) for row in other]
        if rows and others != rows:
            with pytest.raises(ValueError, match=name):
                self.db.append(others, id=name)
        if any(keys):
            with pytest.raises(ValueError, match=name):
                self.db.append(rows, id=name)

    @precondition(lambda self: pa is not None)
    @rule(
        rows=rows_strategy,
        large=st.booleans(),
        ints=st.booleans(),
        cut=st.integers(0, 20),
        keys=some_keys,
    )
    def append_arrow(
        self, rows: list[Row], large: bool, ints: bool, cut: int, keys: Key | list[Key]
    ) -> None:
        def store(prepared: list[Row], *, key: Any) -> topicdb.Receipt:
            column = key if isinstance(key, list) else None
            table = _arrow_table(prepared, column, large=large, ints=ints)
            cut_up = pa.concat_tables([table[:cut], table[cut:]])
            return self.db.append(cut_up, key=key if column is None else None)

        self._append(rows, store, keys)

    @rule(rows=rows_strategy, bad=bad_rows, place=st.integers(0, 20))
    def append_with_a_bad_row(self, rows: list[Any], bad: Any, place: int) -> None:
        with pytest.raises((ValueError, TypeError)):
            self.db.append([*rows[:place], bad, *rows[place:]])

    @precondition(lambda self: self.model.schema.shard_by == "topic")
    @rule(rows=rows_strategy, keys=key | st.lists(key, min_size=1))
    def append_with_keys_to_topics(self, rows: list[Row], keys: Any) -> None:
        prepared = [self._prepare(row) for row in rows]
        with pytest.raises(topicdb.SchemaError, match="sharded by topic"):
            self.db.append(prepared, key=keys)

    @precondition(lambda self: self.model.schema.shard_by == "key")
    @rule(
        rows=st.lists(st.tuples(topic, timestamp, payload), min_size=1, max_size=20), bad=bad_keys
    )
    def append_with_bad_keys(self, rows: list[Row], bad: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            self.db.append([self._prepare(row) for row in rows], key=bad)

    @rule(
        tasks=st.lists(rows_strategy | fleets(), max_size=2),
        aborted=rows_strategy,
        has_owner=st.sampled_from([True, True, True, False]),
        key=st.none() | key,
    )
    def commit_job(
        self, tasks: list[list[Row]], aborted: list[Row], has_owner: bool, key: Key
    ) -> None:
        """Commits a job while this process has the database open, or while no process has.

        Its messages have this key and none in turns.
        """
        self.jobs_made += 1
        job = f"job-{self.jobs_made}"
        keys: Key | list[Key] = None if key is None else [key, None]
        learnable = self._learnable(tasks, keys) if has_owner else self._known(tasks, keys)
        prepared = [[self._prepare(row) for row in rows] for rows in learnable]
        staged = [self._stage(job, rows, keys) for rows in prepared]
        # This attempt is not committed.
        self._stage(job, [self._prepare(row) for row in aborted], keys)
        if not has_owner:
            self.db.close()
        before = time.time_ns() // 1_000
        committed = self._commit(job, staged)
        after = time.time_ns() // 1_000
        if not has_owner:
            self.db = self._open()
        rows = [row for task in prepared for row in task]
        of_rows = [one for task in prepared for one in self._keys_of(task, keys)]
        assert (committed.messages, committed.pending) == (len(rows), [])
        resolved = self._resolve_job(rows, of_rows, before, after)
        self.model.append(resolved, committed.serials, of_rows)
        if rows:
            again = f"{job}-again"
            assert self._commit(again, [self._stage(again, rows, keys)]).repeated

    @rule(data=st.data())
    def rotate(self, data: st.DataObject) -> None:
        name = data.draw(st.none() | st.sampled_from(self.model.schema.classes))
        self._rotate(name, data.draw(self._layouts()))

    @rule(data=st.data())
    def set_layouts(self, data: st.DataObject) -> None:
        layouts = {name: data.draw(self._layouts()) for name in self.model.schema.classes}
        retention = {name: topicdb.Retention(layout=layouts[name]) for name in layouts}
        self.db.set_retention(retention)
        self.schema_options["retention"] = retention
        self.model.set_layouts(layouts)

    @precondition(lambda self: any(slab.read_only for slab in self.model.slabs.values()))
    @rule(data=st.data())
    def drop_slab(self, data: st.DataObject) -> None:
        slab = data.draw(st.sampled_from([s for s in self.db.slabs() if s.read_only]))
        self.db.drop_slab(slab)
        self.model.drop(_slab_id(slab))
        with pytest.raises(topicdb.NotFoundError):
            self.db.drop_slab(slab)

    @rule(how=st.sampled_from(["flush", "reopen", "reopen with schema"]))
    def flush_or_reopen(self, how: str) -> None:
        if how == "flush":
            self.db.flush()
            return
        self.db.close()
        self.db = self._open(**(self.schema_options if how == "reopen with schema" else {}))

    @rule()
    def drop_while_it_is_open(self) -> None:
        with pytest.raises(topicdb.LockedError):
            topicdb.drop(self.path)
        assert topicdb.databases(self.directory) == [str(self.path)]

    @precondition(lambda self: self.model.count() > 0 and not self.has_iterators)
    @rule(is_meant=st.sampled_from([False, False, True]))
    def drop_and_make_anew(self, is_meant: bool) -> None:
        """Iterators that were saved would be those of the database that is dropped."""
        self.db.close()
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        dropped = topicdb.drop(self.path, dry_run=not is_meant)
        assert dropped.bytes > 0
        assert topicdb.exists(self.path) != is_meant
        if is_meant:
            self.model = self.reader_model = Model(self.model.schema, self.model.layouts)
            self.named.clear()
            self.databases += 1
        self.db = self._open(**self.schema_options)

    @precondition(lambda self: self.model.schema.shards > 1)
    @rule(data=st.data(), rows=rows_strategy)
    def open_without_some_shards(self, data: st.DataObject, rows: list[Row]) -> None:
        """Opens the database without some shards, uses the others, and brings them back."""
        self.db.close()
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        shards = range(self.model.schema.shards)
        missing = data.draw(st.sets(st.sampled_from(shards), min_size=1, max_size=len(shards) - 1))
        names = [f"{shard:04}" for shard in missing]
        for name in names:
            (self.path / "shards" / name).rename(self.directory / name)
        self.db = self._open(on_damage="skip")
        self._check_without(missing, self._draw_filter(data, self.model))
        if any(self.model.shard_of(topic) in missing for topic, _, _ in rows):
            with pytest.raises(topicdb.MissingShardError, match="nothing was stored"):
                self.db.append([self._prepare(row) for row in rows])
        else:
            self._append(rows, self.db.append)
        self.db.close()
        for name in names:
            (self.directory / name).rename(self.path / "shards" / name)
        self.db = self._open()

    def _check_without(self, missing: set[int], filter: str) -> None:
        assert set(self.db.missing_shards) == missing
        rest = self.model.without(missing)
        scan = self.db.scan(filter, partial=True)
        check_scan(rest, scan.to_list(), filter, 0, None, "stream")
        assert set(scan.missing_shards) == missing
        last = self.db.last(filter, partial=True)
        assert [tuple(message) for message in last] == rest.last(filter)
        for read in (self.db.scan(filter), self.db.last(filter)):
            with pytest.raises(topicdb.MissingShardError):
                read.to_list()

    # Reading

    @rule(data=st.data(), start=st.none() | timestamp, end=st.none() | timestamp)
    def scan(self, data: st.DataObject, start: int | None, end: int | None) -> None:
        filter = self._draw_filter(data, self.model)
        order: Any = data.draw(st.sampled_from(["stream", "time", "none"]))
        rows = data.draw(st.integers(1, 10))
        batches = list(self.db.scan(filter, start=start, end=end, order=order).batches(rows=rows))
        assert all(0 < len(batch) <= rows for batch in batches)
        got = [message for batch in batches for message in batch]
        check_scan(self.model, got, filter, start or 0, end, order)
        assert self.db.scan(filter, start=start, end=end, order=order).count() == len(got)

    @rule(
        data=st.data(),
        start=st.none() | timestamp,
        end=st.none() | timestamp,
        levels=st.none() | st.integers(0, 3),
        span=st.none() | st.integers(1, 1 << 60),
        origin=timestamp,
    )
    def summarize(
        self,
        data: st.DataObject,
        start: int | None,
        end: int | None,
        levels: int | None,
        span: int | None,
        origin: int,
    ) -> None:
        filter = self._draw_filter(data, self.model)
        groups = MessageGroups(levels, span, origin)
        for message in self.db.scan(filter, start=start, end=end, order="none"):
            groups.add(message.topic, message.timestamp)
        bounds = start, end
        assert self.db._core.summarize(filter, *bounds, levels, span, origin) == groups.sorted()

    @rule(data=st.data(), start=st.none() | timestamp, time=st.none() | timestamp)
    def last(self, data: st.DataObject, start: int | None, time: int | None) -> None:
        filter = self._draw_filter(data, self.model)
        if time is None:
            found = self.db.last(filter, start=start)
            expected = self.model.last(filter, start or 0)
        else:
            found = self.db.state_at(time, filter, start=start)
            expected = self.model.state_at(time, filter, start or 0)
        assert [tuple(message) for message in found] == expected

    @rule(
        data=st.data(),
        start=st.none() | timestamp,
        end=st.none() | timestamp,
        first=st.none() | st.integers(0, 4),
    )
    def streams(
        self, data: st.DataObject, start: int | None, end: int | None, first: int | None
    ) -> None:
        filter = self._draw_filter(data, self.model)
        found = self.db.streams(filter, start=start, end=end, generation_min=first)
        refs = [self._ref(stream) for stream in found]
        assert refs == sorted(set(refs), key=self.model.reading_order)
        structures = self.model.expected_structures(filter)
        assert all(ref.slab in structures[ref.key.structure] for ref in refs)
        held = {
            StreamRef(slab_id, self.model.slabs[slab_id].stream_of[entry.topic])
            for slab_id, entries in self.model.scan(filter, start or 0, end).items()
            for entry in entries
            if slab_id[2] >= (first or 0)
        }
        assert held <= set(refs)
        assert all(ref.slab[2] >= (first or 0) for ref in refs)

    @rule(data=st.data())
    def structures(self, data: st.DataObject) -> None:
        self._check_structures(self._draw_filter(data, self.model))

    @rule(target=saved, data=st.data(), start=st.none() | timestamp, end=st.none() | timestamp)
    def iterator(self, data: st.DataObject, start: int | None, end: int | None) -> Any:
        filter = self._draw_filter(data, self.model)
        found = self.db.streams(filter)
        if not found:
            return multiple()
        self.has_iterators = True
        stream = data.draw(st.sampled_from(found))
        assert topicdb.Stream.from_bytes(bytes(stream)) == stream
        iterator = self.db.iterator(stream, filter, start=start, end=end)
        cursor = Cursor(self._ref(stream), filter, start or 0, end)
        return bytes(iterator), self.model.looked(cursor)

    @rule(target=saved, item=consumes(saved), rows=st.integers(1, 5))
    def next(self, item: tuple[bytes, Cursor], rows: int) -> Any:
        if item[1].stream.slab not in self.model.slabs:
            with pytest.raises(topicdb.NotFoundError):
                self.db.next(topicdb.Iterator.from_bytes(item[0]), rows)
            return multiple()
        return self.next_page(item, rows)

    def next_page(self, item: tuple[bytes, Cursor], rows: int) -> tuple[bytes, Cursor]:
        """Checks one page of a stream whose slab exists."""
        data, cursor = item
        iterator = topicdb.Iterator.from_bytes(data)
        assert bytes(iterator) == data
        slab = self.model.slabs[cursor.stream.slab]
        page = self.db.next(iterator, rows)
        expected = self.model.remaining(cursor)
        assert list(page.batch) == [entry.message for entry in expected[:rows]]
        if page.end_of_stream:
            assert slab.read_only and len(expected) <= rows
        elif not expected:
            assert not slab.read_only
        if expected:
            cursor = self.model.advance(cursor, expected[:rows][-1])
        return bytes(page.iterator), self.model.looked(cursor)

    @rule(data=st.data(), rows=st.integers(1, 3))
    def page_through(self, data: st.DataObject, rows: int) -> None:
        """Reads streams to their end, page by page, restoring the iterator each time."""
        filter = self._draw_filter(data, self.model)
        for stream in self.db.streams(filter)[:5]:
            item = (
                bytes(self.db.iterator(stream, filter)),
                Cursor(self._ref(stream), filter, 0, None),
            )
            while self.model.remaining(item[1]):
                item = self.next_page(item, rows)

    @rule(data=st.data(), items=st.lists(saved, max_size=4))
    def go_on_in_the_log(self, data: st.DataObject, items: list[tuple[bytes, Cursor]]) -> None:
        """Reads the log without what saved iterators have given.

        Where a generation keeps no log, the read may end there with an error, but never without.
        """
        there = [item for item in items if item[1].stream.slab in self.model.slabs]
        given = [topicdb.Iterator.from_bytes(item[0]) for item in there]
        cursors = [item[1] for item in there]
        filter = self._draw_filter(data, self.model)
        wanted = Counter(self.model.behind(cursors, filter))
        found: Counter[ResolvedRow] = Counter()
        try:
            for message in self.db.tail(filter, given=given, timeout=0):
                found[message.topic, message.timestamp, message.value] += 1
        except topicdb.SchemaError:
            assert not all(slab.keeps_all for slab in self.model.slabs.values())
            assert not found - wanted
        else:
            assert found == wanted

    @rule(target=scans, data=st.data(), start=st.none() | timestamp, end=st.none() | timestamp)
    def scan_iterator(
        self, data: st.DataObject, start: int | None, end: int | None
    ) -> tuple[bytes, ScanCursor, int]:
        filter = self._draw_filter(data, self.model)
        iterator = self.db.scan_iterator(filter, start=start, end=end)
        assert iterator.filters == [filter]
        cursor = self.model.begin_scan(filter, start or 0, end, iterator.serials)
        return bytes(iterator), cursor, self.databases

    @rule(target=scans, item=consumes(scans), rows=st.integers(1, 5), steps=st.integers(1, 5))
    def scan_on(self, item: tuple[bytes, ScanCursor, int], rows: int, steps: int) -> Any:
        """Takes some steps of a scan, whatever was written and dropped since the last one."""
        data, cursor, database = item
        if database != self.databases:
            with pytest.raises(topicdb.NotFoundError, match="belongs to another database"):
                self.db.next(topicdb.ScanIterator.from_bytes(data), rows)
            return multiple()
        for _ in range(steps):
            losses: list[topicdb.Loss] = []
            iterator = topicdb.ScanIterator.from_bytes(data)
            assert bytes(iterator) == data
            page = self.db.next(iterator, rows, on_loss=losses.append)
            assert len(page.batch) <= rows
            assert bool(losses) + page.end_of_scan + bool(len(page.batch)) >= 1
            for message in page.batch:
                cursor = self.model.take(cursor, message[:3])
            for loss in losses:
                slab_id = loss.shard, loss.retention_class, loss.generation
                cursor = self.model.lose(cursor, slab_id, loss.messages)
            if page.end_of_scan:
                self.model.check_end(cursor)
                return multiple()
            data = bytes(page.iterator)
        return data, cursor, database

    # A second, read-only handle

    @rule(again=st.booleans())
    def refresh_reader(self, again: bool) -> None:
        if self.reader is not None and again:
            self.reader.close()
            self.reader = None
        if self.reader is None:
            self.reader = self._open(mode="r")
        else:
            self.reader.refresh()
        self.reader_model = copy.deepcopy(self.model)

    @precondition(lambda self: self.reader is not None)
    @rule(data=st.data())
    def scan_reader(self, data: st.DataObject) -> None:
        assert self.reader is not None
        filter = self._draw_filter(data, self.reader_model)
        check_scan(self.reader_model, self.reader.scan(filter).to_list(), filter, 0, None, "stream")
        last = [tuple(message) for message in self.reader.last(filter)]
        assert last == self.reader_model.last(filter)
        _check_slabs(self.reader, self.reader_model)

    @invariant()
    def slabs_agree(self) -> None:
        _check_slabs(self.db, self.model)

    def teardown(self) -> None:
        try:
            if hasattr(self, "db"):
                self._check_everything()
        finally:
            for handle in (self.reader, getattr(self, "db", None)):
                if handle is not None:
                    handle.close()
            shutil.rmtree(self.directory)

    def _check_everything(self) -> None:
        for filter in ["#", *self._dollar_filters()]:
            check_scan(self.model, self.db.scan(filter).to_list(), filter, 0, None, "stream")
            assert [tuple(message) for message in self.db.last(filter)] == self.model.last(filter)
            self._check_structures(filter)

    def _dollar_filters(self) -> list[str]:
        """Returns filters for topics that '#' does not find, except levels of maximum size."""
        words = {t.split("/")[0] for t in self.model.topics() if t.startswith("$")}
        return [filter for word in sorted(words) if is_filter(filter := f"{word}/#")]

    def _open(self, **options: Any) -> topicdb.Database:
        return topicdb.open(
            self.path,
            learning="base",  # the algorithm that the model knows
            cache_bytes=1 << 20,
            seal_bytes=self.seal_bytes,
            **options,
        )

    def _layouts(self) -> st.SearchStrategy[Any]:
        return st.none() | st.sampled_from(self.model.schema.layouts)

    def _rotate(self, name: str | None, layout: Any) -> None:
        self.db.rotate(name, layout=layout)
        self.model.rotate(name, layout)

    def _append(
        self,
        rows: list[Row],
        store: Callable[..., topicdb.Receipt],
        keys: Key | list[Key] = None,
    ) -> None:
        """Stores rows by ``store(rows, key=…)``, with ``keys`` if the database shards by key."""
        prepared = [self._prepare(row) for row in rows]
        before = time.time_ns() // 1_000
        receipt = store(prepared, key=self._argument_of(prepared, keys))
        after = time.time_ns() // 1_000
        assert (receipt.count, receipt.durability) == (len(rows), "os")
        of_rows = self._keys_of(prepared, keys)
        resolved = [
            (t, self._assigned(t, one, when, v, before, after), v)
            for (t, when, v), one in zip(prepared, of_rows, strict=True)
        ]
        self.model.append(resolved, receipt.serials, of_rows)

    def _keys_of(self, rows: list[Row], keys: Key | list[Key]) -> list[Key]:
        """Returns the key of each row."""
        if self.model.schema.shard_by == "topic":
            return [None] * len(rows)
        in_turns = keys if isinstance(keys, list) else [keys]
        return [in_turns[row % len(in_turns)] for row in range(len(rows))]

    def _argument_of(self, rows: list[Row], keys: Key | list[Key]) -> Key | list[Key]:
        """Returns the argument ``key`` by which the rows get these keys."""
        if self.model.schema.shard_by == "topic":
            return None
        return self._keys_of(rows, keys) if isinstance(keys, list) else keys

    def _places_of(self, tasks: list[list[Row]], keys: Key | list[Key]) -> list[list[int]]:
        """Returns the shard of each row of each task."""
        return [
            [
                self.model.shard_of(row[0], one)
                for row, one in zip(rows, self._keys_of(rows, keys), strict=True)
            ]
            for rows in tasks
        ]

    def _learnable(self, tasks: list[list[Row]], keys: Key | list[Key]) -> list[list[Row]]:
        """Returns the tasks, without rows of new topics if their order matters to learning.

        A job may learn new topics of all its tasks in another order than the model.
        """
        topics = [
            (shard, row[0])
            for rows, shards in zip(tasks, self._places_of(tasks, keys), strict=True)
            for row, shard in zip(rows, shards, strict=True)
        ]
        return tasks if self.model.learns_alike(topics) else self._known(tasks, keys)

    def _known(self, tasks: list[list[Row]], keys: Key | list[Key]) -> list[list[Row]]:
        """Returns the tasks without new topics, which a job with no owner learns by default.

        The rows that are left have their keys in turns, too; so a topic is left only if each of
        its shards knows it.
        """
        known = self.model.current_topics()
        in_turns = keys if isinstance(keys, list) else [keys]
        if self.model.schema.shard_by == "topic":
            in_turns = [None]

        def is_known(topic: str) -> bool:
            return all((self.model.shard_of(topic, one), topic) in known for one in in_turns)

        return [[row for row in rows if is_known(row[0])] for rows in tasks]

    def _stage(self, job: str, rows: list[Row], keys: Key | list[Key] = None) -> jobs.Staged:
        with jobs.StagedWriter(self.path, job) as writer:
            writer.append(rows, key=self._argument_of(rows, keys))
        return writer.staged

    def _commit(self, job: str, staged: list[jobs.Staged]) -> jobs.Committed:
        return jobs.commit(self.path, job, staged, sequence="jobs", number=self.jobs_made)

    def _resolve_job(
        self, rows: list[Row], keys: list[Key], before: int, after: int
    ) -> list[ResolvedRow]:
        """Returns rows with their stored times; assigned ones need not be in the order of rows."""
        resolved = [(t, self._stored_time(t, when, v), v) for t, when, v in rows]
        if self.model.schema.timestamp_bytes > 0:
            assigned = [
                (new[1], self.model.shard_of(new[0], one))
                for (_, when, _), one, new in zip(rows, keys, resolved, strict=True)
                if when is None
            ]
            for stored, shard in sorted(assigned):
                self.model.assign(shard, stored, before, after)
        return resolved

    def _prepare(self, row: Row) -> Row:
        """Returns a row that this database takes, with a unique value if its time is assigned."""
        topic, when, value = row
        if self.model.schema.timestamp_bytes == 0:
            return topic, None if when is None else 0, value
        if when is None:
            self.values_made += 1
            value = b"assigned %d" % self.values_made
        return topic, when, value

    def _assigned(
        self, topic: str, key: Key, when: int | None, value: bytes, before: int, after: int
    ) -> int:
        """Returns the timestamp of a row, and checks it if the database has assigned it."""
        stored = self._stored_time(topic, when, value)
        if when is None and self.model.schema.timestamp_bytes > 0:
            self.model.assign(self.model.shard_of(topic, key), stored, before, after)
        return stored

    def _stored_time(self, topic: str, when: int | None, value: bytes) -> int:
        """Returns the timestamp of a row, read back if the database has assigned it."""
        if when is not None or self.model.schema.timestamp_bytes == 0:
            return when or 0
        partial = bool(self.db.missing_shards)
        found = self.db.scan(topic, partial=partial)
        [stored] = [m.timestamp for m in found if m.value == value]
        return stored

    def _draw_filter(self, data: st.DataObject, model: Model) -> str:
        return data.draw(filters(sorted(model.topics())), label="filter")

    def _check_structures(self, filter: str) -> None:
        got = {
            structure: {(s.shard, s.retention_class, s.generation) for s in streams}
            for structure, streams in self.db.structures(filter).items()
        }
        assert got == self.model.expected_structures(filter)

    def _ref(self, stream: topicdb.Stream) -> StreamRef:
        """Returns the model's reference to a stream, which the model must have as well."""
        slab_id = (stream.shard, stream.retention_class, stream.generation)
        key = StreamKey(tuple(stream.structure.split("/")))
        assert key in self.model.slabs[slab_id].structures.streams()
        return StreamRef(slab_id, key)


def _check_slabs(db: topicdb.Database, model: Model) -> None:
    """Compares ids, state and counts of all slabs."""
    got = {
        _slab_id(s): (
            (s.read_only, s.layout),
            s.messages,
            s.bytes,
            s.streams,
            s.first_timestamp,
            s.last_timestamp,
        )
        for s in db.slabs()
    }
    assert got == {
        slab_id: (
            (slab.read_only, slab.layout),
            slab.written,
            slab.written_bytes,
            len(slab.structures.streams()),
            slab.first_timestamp,
            slab.last_timestamp,
        )
        for slab_id, slab in model.slabs.items()
    }


def _slab_id(slab: topicdb.Slab) -> SlabId:
    return slab.shard, slab.retention_class, slab.generation


def _arrow_table(rows: list[Row], keys: list[Key] | None, *, large: bool, ints: bool) -> Any:
    topics, timestamps, values = zip(*rows, strict=True) if rows else ((), (), ())
    schema = pa.schema(
        [
            ("topic", pa.large_string() if large else pa.string()),
            ("timestamp", pa.int64() if ints else pa.timestamp("us", tz="UTC")),
            ("value", pa.large_binary() if large else pa.binary()),
        ]
    )
    columns = [
        pa.array(c, f.type) for c, f in zip((topics, timestamps, values), schema, strict=True)
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    if keys is None:
        return table
    encoded = [key.encode() if isinstance(key, str) else key for key in keys]
    return table.append_column("key", pa.array(encoded, schema.field("value").type))


TestDatabase = DatabaseMachine.TestCase

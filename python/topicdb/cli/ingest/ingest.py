"""``topicdb ingest``: turns records into batches of messages, and stores them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import topicdb
from topicdb.cli.errors import UserError, message_of
from topicdb.cli.ingest.batches import BATCH_BYTES_MAX, SENT_BYTES_MAX, Batches, Row
from topicdb.cli.ingest.lines import LineError, Lines
from topicdb.cli.ingest.mapping import Mapping
from topicdb.cli.ingest.records import Format, Records, open_records
from topicdb.cli.places import Place
from topicdb.cli.progress import Meter
from topicdb.types import Durability

_NOTES_MAX = 10
_OWN = "$topicdb/"


@dataclass(frozen=True)
class Source:
    """The input of ``topicdb ingest``. ``name`` is a path, or ``-`` for stdin."""

    name: str
    format: Format
    mapping: Mapping


@dataclass(frozen=True)
class Target:
    """The database in which ``topicdb ingest`` stores.

    ``schema``: options of ``topicdb.open``, which matter when the database is created. ``raw`` is
    that of ``Database.append``. ``repeat``: messages of a file are stored although they are there
    already. ``has_keys``: messages may have keys.
    """

    place: Place
    durability: Durability
    schema: dict[str, Any] = field(default_factory=dict)
    raw: bool = False
    repeat: bool = False
    has_keys: bool = False


@dataclass
class Counts:
    """What ``topicdb ingest`` has done so far.

    ``stored``: messages that were stored. ``repeated``: messages that were there already.
    ``assigned``: stored messages with the time of their commit. ``skipped``: lines that made no
    message. ``last_line``: the number of the last line whose message is stored.
    """

    stored: int = 0
    repeated: int = 0
    assigned: int = 0
    skipped: int = 0
    last_line: int = 0

    def so_far(self) -> str:
        """Returns how much of the input is stored, for an error message."""
        if self.repeated:
            return (
                f"{self.stored:,} messages stored before it, {self.repeated:,} were there already, "
                f"up to line {self.last_line:,}"
            )
        if not self.stored:
            return "nothing stored"
        return f"{self.stored:,} messages stored before it, up to line {self.last_line:,}"

    def after_failure(self, durability: Durability) -> str:
        """Returns what ``so_far`` does, for a failure of the database."""
        if durability == "none" and self.stored:
            return f"{self.so_far()}, of which the last ones may be gone (durability 'none')"
        return self.so_far()


def ingest(source: Source, target: Target, batch_rows: int, *, skip_bad: bool) -> Counts:
    """Stores every record of ``source``, each batch whole or not at all, and returns the counts.

    A record that makes no message is counted and passed over with ``skip_bad``. Without, it ends
    the call with UserError, and nothing of its batch is stored.
    """
    with _input(source.name) as file:
        lines = Lines(file)
        records = open_records(lines, source.format)
        if records.columns is not None:
            source.mapping.check_columns(records.columns)
        with target.place.make(target.durability, target.schema) as database:
            if target.has_keys and database.schema["shard_by"] != "key":
                raise UserError(
                    f"{target.place.where} shards by topic, so --key has no meaning there: leave "
                    "it out"
                )
            # A pipe may well send the same messages again. In the layout skipstream a message
            # replaces one of the same topic and timestamp: storing a file again brings its own
            # messages back. Where other messages would be stored twice, nothing is.
            knows = _is_file(file) and _keeps_all(database)
            repeat = target.repeat or not knows
            batches = Batches(
                database,
                batch_rows,
                target.durability,
                bytes_max=SENT_BYTES_MAX if target.place.is_url else BATCH_BYTES_MAX,
                repeat=repeat,
                raw=target.raw,
            )
            with Meter(lines.total_bytes) as meter:
                has_times = database.schema["timestamp_bytes"] > 0
                work = _Ingest(batches, lines, meter, target.durability, has_times=has_times)
                work.run(records, source.mapping, skip_bad)
            _close(database, work.counts, target.durability)
    return work.counts


def _close(database: topicdb.Database, counts: Counts, durability: Durability) -> None:
    try:
        database.close()
    except topicdb.Error as error:
        raise UserError(f"{message_of(error)}; {counts.after_failure(durability)}") from error


@contextmanager
def _input(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
    else:
        with open(name, "rb", buffering=0) as file:
            yield cast(BinaryIO, file)


def _keeps_all(database: topicdb.Database) -> bool:
    """Returns whether some messages go to generations that keep one that is stored again."""
    try:
        return any(slab.layout == "columnar" for slab in database.slabs() if not slab.read_only)
    except topicdb.AccessError:  # the token may write some topics, but not look at everything
        return bool(database.schema["layout"] == "columnar")


def _is_file(file: BinaryIO) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file is not sys.stdin.buffer


class _Ingest:
    """Fills a batch, stores it when it is full, and counts. Not thread-safe.

    ``has_times``: whether the database keeps timestamps.
    """

    def __init__(
        self,
        batches: Batches,
        lines: Lines,
        meter: Meter,
        durability: Durability,
        *,
        has_times: bool,
    ) -> None:
        self._batches = batches
        self._lines = lines
        self._meter = meter
        self._durability = durability
        self._has_times = has_times
        self._batch_last_line = 0
        self.counts = Counts()

    def run(self, records: Records, mapping: Mapping, skip_bad: bool) -> None:
        self._lines.on_idle = self._store
        try:
            while self._take(records, mapping, skip_bad):
                pass
            self._store()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {self.counts.so_far()}") from None
        except LineError as error:
            raise UserError(f"{error}; {self.counts.so_far()}") from error
        except (topicdb.Error, OSError) as error:
            so_far = self.counts.after_failure(self._durability)
            raise UserError(f"{message_of(error)}; {so_far}") from error

    def _take(self, records: Records, mapping: Mapping, skip_bad: bool) -> bool:
        """Adds one record to the batch; returns False at the end of the input."""
        try:
            line, fields = next(records)
            try:
                row, key = mapping.row(fields), mapping.key(fields)
                self._check(row)
            except ValueError as error:
                raise LineError(line, message_of(error)) from error
        except StopIteration:
            return False
        except LineError as error:
            if not skip_bad:
                raise
            self._skip(error)
            return True
        self._add(line, row, key)
        return True

    def _check(self, row: Row) -> None:
        """Raises ValueError for a message that the database would refuse, and its batch with it."""
        topic, timestamp, _ = row
        if topic.startswith(_OWN):
            raise ValueError(f"topic {topic!r}: topics under {_OWN} are TopicDB's own")
        if timestamp and not self._has_times:
            raise ValueError(
                f"timestamp {timestamp}: a database with timestamp_bytes=0 knows no time but 0"
            )

    def _add(self, line: int, row: Row, key: str | None) -> None:
        self._batch_last_line = line
        if self._batches.add(row, key):
            self._store()

    def _store(self) -> None:
        rows = len(self._batches)
        if rows:
            assigned = sum(row[1] is None for row in self._batches.rows)
            before = self._batches.repeated
            self._batches.store()
            repeated = self._batches.repeated - before
            self.counts.repeated += repeated
            self.counts.stored += rows - repeated
            self.counts.assigned += 0 if repeated else assigned
            self.counts.last_line = self._batch_last_line
        self._meter.update(self.counts.stored + self.counts.repeated, self._lines.bytes_read)

    def _skip(self, error: LineError) -> None:
        self.counts.skipped += 1
        if self.counts.skipped <= _NOTES_MAX:
            self._meter.note(f"topicdb: skipped {error}")
        if self.counts.skipped == _NOTES_MAX + 1:
            self._meter.note("topicdb: further bad lines are only counted")

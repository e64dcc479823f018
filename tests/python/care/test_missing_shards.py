"""A shard that is damaged or gone does not close the others, and is left out only if asked."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Child, Layout, topic_in_shard, wait_until

import topicdb
from topicdb import CorruptionError, LockedError, MissingShardError, jobs

SHARDS = 3
GONE = 1
TOPICS = [topic_in_shard(shard, SHARDS) for shard in range(SHARDS)]
HERE, THERE = TOPICS[0], TOPICS[GONE]
ROWS = [(topic, i, b"%d" % i) for topic in TOPICS for i in range(10)]
LEFT = [row for row in ROWS if row[0] != THERE]
OLD = "2000-01-01T00:00:00Z"
NAMED = rf"was opened without shard {GONE} \("


@pytest.fixture
def path(db_path: Path, layout: Layout) -> Path:
    """A closed database of three shards with ten messages in each, in files and in logs."""
    with topicdb.open(db_path, shards=SHARDS, layout=layout) as db:
        db.append(ROWS[::2])
        db.flush()
        db.append(ROWS[1::2])
    return db_path


@pytest.fixture
def part(path: Path) -> Path:
    """The same without the directory of one shard, which ``bring_back`` puts back."""
    shard_path(path).rename(away(path))
    return path


def shard_path(path: Path, shard: int = GONE) -> Path:
    return path / "shards" / f"{shard:04}"


def away(path: Path) -> Path:
    return path.parent / "away"


def bring_back(path: Path) -> None:
    away(path).rename(shard_path(path))


def skipping(path: Path, **options: Any) -> topicdb.Database:
    return topicdb.open(path, on_damage="skip", **options)


def rows_of(found: Any) -> list[tuple[str, int, bytes]]:
    return sorted(tuple(message) for message in found)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def manifest(shard: Path) -> Path:
    return shard / (shard / "CURRENT").read_text().strip()


def flip_current(shard: Path) -> None:
    flip(shard / "CURRENT", 3)


def flip_manifest(shard: Path) -> None:
    flip(manifest(shard), manifest(shard).stat().st_size // 2)


def flip_tables(shard: Path) -> None:
    """Flips a byte in the footer of each table file, which is read when the file is opened."""
    tables = list(shard.glob("*.sst"))
    assert tables
    for table in tables:
        flip(table, -4)


def remove_a_table(shard: Path) -> None:
    max(shard.glob("*.sst"), key=lambda table: table.stat().st_size).unlink()


DAMAGES: list[Callable[[Path], None]] = [
    shutil.rmtree,
    flip_current,
    flip_manifest,
    flip_tables,
    remove_a_table,
]


# Opening


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_the_other_shards_open(path: Path, damage: Callable[[Path], None], mode: Any) -> None:
    damage(shard_path(path))
    with pytest.raises(CorruptionError) as refused:
        topicdb.open(path, mode=mode)
    with skipping(path, mode=mode) as db:
        assert db.missing_shards == {GONE: str(refused.value)}
        assert rows_of(db.scan(partial=True)) == rows_of(LEFT)
        with pytest.raises(MissingShardError, match=NAMED):
            db.scan().to_list()


def test_a_shard_that_another_process_writes_is_not_damaged(path: Path) -> None:
    code = (
        f"import sys, topicdb; db = topicdb.open(sys.argv[1], only_shards=[{GONE}]); print('open');"
        "input()"
    )
    with Child(code, path) as child:
        child.expect("open")
        with pytest.raises(LockedError, match=str(child.pid)):
            skipping(path)
        with skipping(path, mode="r") as db:
            assert db.missing_shards == {}
            assert rows_of(db.scan()) == rows_of(ROWS)


def test_if_all_are_gone_there_is_nothing_to_open(path: Path) -> None:
    for shard in range(SHARDS):
        shutil.rmtree(shard_path(path, shard))
    with pytest.raises(CorruptionError, match="shard 0"):
        skipping(path)


def test_without_damage_it_makes_no_difference(path: Path) -> None:
    with skipping(path) as db:
        assert db.missing_shards == {}
        db.append([("new", 1, b"")])
        scan = db.scan(partial=True)
        assert len(scan.to_list()) == len(ROWS) + 1
        assert (scan.is_partial, scan.missing_shards) == (False, {})
        db.rotate()
    with skipping(path.parent / "new.db", shards=2) as db:
        assert db.missing_shards == {}


def test_other_words_are_refused(db_path: Path) -> None:
    with pytest.raises(ValueError, match="on_damage: 'raise' or 'skip', not 'ignore'"):
        topicdb.open(db_path, on_damage="ignore")  # type: ignore[arg-type]
    assert not topicdb.exists(db_path)


def test_what_is_not_asked_for_is_not_missing(part: Path) -> None:
    with skipping(part, only_shards=[0]) as db:
        assert db.missing_shards == {}
        assert {message.topic for message in db.scan()} == {HERE}


# Reading

READS: dict[str, Callable[[topicdb.Database, str, bool], Any]] = {
    "scan": lambda db, wanted, partial: db.scan(wanted, partial=partial).to_list(),
    "count": lambda db, wanted, partial: db.scan(wanted, partial=partial).count(),
    "last": lambda db, wanted, partial: db.last(wanted, partial=partial).to_list(),
    "state_at": lambda db, wanted, partial: db.state_at(5, wanted, partial=partial).to_list(),
    "streams": lambda db, wanted, partial: db.streams(wanted, partial=partial),
    "structures": lambda db, wanted, partial: db.structures(wanted, partial=partial),
    "explain": lambda db, wanted, partial: db.explain(wanted, partial=partial),
    "slices": lambda db, wanted, partial: db.slices(wanted, partial=partial),
    "watch": lambda db, wanted, partial: list(
        db.watch_streams(wanted, existing=True, timeout=0, partial=partial)
    ),
}
LOG_READS: dict[str, Callable[[topicdb.Database, str, bool], Any]] = {
    "tail": lambda db, wanted, partial: list(db.tail(wanted, timeout=0, partial=partial)),
    "subscribe": lambda db, wanted, partial: list(
        db.subscribe(wanted, start="earliest", timeout=0, partial=partial)
    ),
}


def check_read(db: topicdb.Database, read: Callable[[topicdb.Database, str, bool], Any]) -> None:
    for filter in ("#", "topic/+", THERE, HERE):
        with pytest.raises(MissingShardError, match=NAMED):
            read(db, filter, False)
        read(db, filter, True)
    assert read(db, HERE, True)


@pytest.mark.parametrize("name", READS)
def test_reads_are_refused_whatever_their_filter(part: Path, name: str) -> None:
    with skipping(part) as db:
        check_read(db, READS[name])


@pytest.mark.parametrize("name", LOG_READS)
@pytest.mark.parametrize("layout", ["columnar"])
def test_readers_of_the_log_are_refused(part: Path, name: str) -> None:
    with skipping(part) as db:
        for filter in ("#", THERE, HERE):
            with pytest.raises(MissingShardError, match=NAMED):
                LOG_READS[name](db, filter, False)
        assert rows_of(LOG_READS["tail"](db, "#", True)) == rows_of(LEFT)
        assert len(LOG_READS["tail"](db, HERE, True)) == 10


def test_what_a_transaction_wrote_to_it_is_not_lacked_unasked(path: Path) -> None:
    """A transaction writes any topic to its shard, so a read of one topic needs all shards, too."""
    elsewhere = (HERE, 1_000, b"elsewhere")
    with topicdb.open(path) as db:
        with db.transaction(shard=GONE) as transaction:
            transaction.write(*elsewhere)
        assert [tuple(message) for message in db.last(HERE)] == [elsewhere]
    shard_path(path).rename(away(path))
    with skipping(path) as db:
        for read in READS.values():
            with pytest.raises(MissingShardError, match=NAMED):
                read(db, HERE, False)
        with pytest.raises(MissingShardError, match=NAMED):
            db.delete(HERE)
        last = db.last(HERE, partial=True)
        assert [tuple(message) for message in last] == [(HERE, 9, b"9")]
        assert list(last.missing_shards) == [GONE]
    assert contents(path) == rows_of([*ROWS, elsewhere])


def test_a_partial_read_says_so(part: Path) -> None:
    with skipping(part) as db:
        scan = db.scan(partial=True)
        assert scan.is_partial
        assert list(scan.missing_shards) == [GONE]
        assert "is missing" in scan.missing_shards[GONE]
        assert db.stats()["missing_shards"] == scan.missing_shards == db.missing_shards
        of_one = db.scan(HERE, partial=True)
        assert of_one.is_partial, "a transaction may have written the topic to it"
        assert of_one.missing_shards == scan.missing_shards
        with pytest.raises(MissingShardError):
            db.scan().to_list()
        assert not db.scan().is_partial, "it is refused instead"


def test_the_log_warns_once(part: Path, caplog: pytest.LogCaptureFixture) -> None:
    with skipping(part) as db, caplog.at_level(logging.WARNING, "topicdb"):
        for _ in range(3):
            db.scan(partial=True).count()
            db.last(partial=True).to_list()
            db.streams(partial=True)
        db.scan(HERE, partial=True).count()
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"{part}: a partial read leaves out shard {GONE} (")


def test_arrow_data_says_so(part: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    named = {b"topicdb.missing_shards": b"%d" % GONE}
    with skipping(part) as db:
        for properties in (False, True):
            scan = db.scan(partial=True, properties=properties)
            table = scan.to_arrow()
            assert (table.num_rows, table.schema.metadata) == (len(LEFT), named)
            with pa.RecordBatchReader.from_stream(scan) as reader:
                assert reader.schema.metadata == named
                assert reader.read_all().num_rows == len(LEFT)
        table = db.scan(HERE, partial=True).to_arrow()
        assert (table.num_rows, table.schema.metadata) == (10, named)
        table = db.scan(streams=db.streams(partial=True)).to_arrow()
        assert (table.num_rows, table.schema.metadata or None) == (len(LEFT), None)
        table = db.last(partial=True).to_arrow()
        assert (table.num_rows, table.schema.metadata) == (2, named)
        db.append(db.scan(HERE, partial=True))  # such data can be stored


def test_an_export_says_so(part: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    with skipping(part) as db:
        with pytest.raises(MissingShardError):
            db.export_parquet(tmp_path / "whole.parquet")
        assert not (tmp_path / "whole.parquet").exists()
        for filter in ("#", ["#", "x"], None):
            file = tmp_path / f"{filter}.parquet"
            done = db.export_parquet(file, filter, partial=True)
            assert (done.messages, list(done.missing_shards)) == (len(LEFT), [GONE])
            metadata = pq.read_schema(file).metadata
            assert metadata[b"topicdb.missing_shards"] == b"%d" % GONE
        one = db.export_parquet(tmp_path / "one.parquet", HERE, partial=True)
        assert (one.messages, list(one.missing_shards)) == (10, [GONE])
    with topicdb.open(tmp_path / "imported.db") as db:
        assert db.import_parquet(tmp_path / "#.parquet").messages == len(LEFT)


def test_what_names_the_shard_is_always_refused(path: Path) -> None:
    with topicdb.open(path) as db:
        stream, slices = db.streams(THERE)[0], db.slices(THERE)
        iterator = db.iterator(stream, THERE)
    shutil.rmtree(shard_path(path))
    with skipping(path) as db:
        for read in (
            lambda: db.scan(streams=[stream], partial=True).to_list(),
            lambda: db.scan_slices(slices).to_list(),
            lambda: db.iterator(stream, THERE),
            lambda: db.next(iterator),
        ):
            with pytest.raises(MissingShardError, match=NAMED):
                read()


def test_what_names_other_shards_goes_on(part: Path) -> None:
    with skipping(part) as db:
        streams, slices = db.streams(partial=True), db.slices(partial=True)
        assert rows_of(db.scan(streams=streams)) == rows_of(LEFT)
        assert rows_of(db.scan_slices(slices)) == rows_of(LEFT)
        found: list[topicdb.Message] = []
        for stream in streams:
            page = db.next(db.iterator(stream))
            while len(page.batch) > 0:
                found += page.batch
                page = db.next(page.iterator)
        assert rows_of(found) == rows_of(LEFT)
        at, found = db.scan_iterator(partial=True), []
        while not at.at_end:
            step = db.next(at)
            found += step.batch
            at = step.iterator
        assert rows_of(found) == rows_of(LEFT)


@pytest.mark.parametrize("layout", ["columnar"])
def test_damage_within_a_shard_that_opens_is_still_an_error(path: Path) -> None:
    """``partial`` leaves out shards, not messages."""
    with topicdb.open(path, seal_bytes=1) as db:
        db.append([(THERE, i, b"%d" % i * 100) for i in range(100, 2_000)])
        db.flush()
    table = max(shard_path(path).glob("*.sst"), key=lambda file: file.stat().st_size)
    flip(table, 200)
    with skipping(path) as db:
        assert db.missing_shards == {}
        with pytest.raises(CorruptionError):
            db.scan(partial=True).to_list()
        assert len(db.scan(HERE).to_list()) == 10


# Writing


def contents(path: Path) -> list[tuple[str, int, bytes]]:
    bring_back(path)
    with topicdb.open(path) as db:
        return rows_of(db.scan())


def test_a_batch_for_it_is_refused_as_a_whole(part: Path) -> None:
    rows = [(HERE, 100, b""), (THERE, 100, b""), (TOPICS[2], 100, b"")]
    with skipping(part) as db:
        appends: list[Callable[[], object]] = [
            lambda: db.append(rows),
            lambda: db.append(rows, id="once"),
            lambda: db.append(rows, durability="disk"),
            lambda: db.append_async(rows).result(),
            lambda: db.append([(THERE, 100, b"")]),
        ]
        for append in appends:
            with pytest.raises(MissingShardError, match=rf"{THERE}.*nothing was stored"):
                append()
        assert db.find_append("once") is None
        receipt = db.append([(HERE, 101, b"stored")], id="once")
        assert (list(receipt.serials), receipt.repeated) == ([0], False)
        db.append_async([(HERE, 102, b"stored, too")]).result()
    assert contents(part) == rows_of([*ROWS, (HERE, 101, b"stored"), (HERE, 102, b"stored, too")])


def test_other_changes_of_it_are_refused_and_change_nothing(part: Path, tmp_path: Path) -> None:
    with skipping(part) as db:
        slabs, retention = db.slabs(), db.retention
        for change in (
            lambda: db.delete("#"),
            lambda: db.delete(THERE),
            lambda: db.delete(HERE),
            lambda: db.trim(OLD, dry_run=True),
            lambda: db.trim(OLD, dry_run=False),
            lambda: db.trim(OLD, THERE, dry_run=False),
            lambda: db.trim(OLD, HERE, dry_run=False),
            lambda: db.rotate(),
            lambda: db.set_retention({"a/#": "1d"}),
            lambda: db.set_retention({"a/#": "1d"}, dry_run=True),
            lambda: db.snapshot(tmp_path / "snapshot"),
            lambda: db.transaction(shard=GONE).__enter__(),
            lambda: db.consumer("etl"),
            lambda: db.consumer("etl", HERE),
            lambda: db.group("workers"),
            lambda: db.session("client"),
            lambda: db.consumers(),
            lambda: db.standings(),
        ):
            with pytest.raises(MissingShardError, match=NAMED):
                change()
        assert db.slabs() == slabs
        assert db.retention == retention
    assert not (tmp_path / "snapshot").exists()
    assert contents(part) == rows_of(ROWS)


def test_other_changes_go_on(part: Path) -> None:
    with skipping(part) as db:
        with db.transaction(shard=0) as transaction:
            assert transaction.get(HERE, 7) == b"7"
            transaction.delete(HERE, end=5)
            transaction.write(HERE, 200, b"written")
        db.maintain()
        db.expire()
        db.flush()
        assert {slab.shard for slab in db.slabs()} == {0, 2}
    expected = [row for row in ROWS if row[0] != HERE or row[1] >= 5]
    assert contents(part) == rows_of([*expected, (HERE, 200, b"written")])


def test_maps_of_other_shards_go_on(part: Path) -> None:
    with skipping(part) as db:
        refused = kept = 0
        for i in range(20):
            try:
                with db.map(f"map {i}") as values:
                    values["key"] = b"value"
                kept += 1
                assert values.shard != GONE
            except MissingShardError:
                refused += 1
        assert refused > 0
        assert kept > 0


def test_retention_drops_what_is_there(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, shards=SHARDS, layout=layout, retention={"#": "1d"}) as db:
        db.append(ROWS)
        db.rotate()
    shard_path(db_path).rename(away(db_path))
    later = "2100-01-01T00:00:00Z"
    with skipping(db_path) as db:
        assert {slab.shard for slab in db.expire(later)} == {0, 2}
        assert db.scan(partial=True).to_list() == []
    assert contents(db_path) == rows_of(row for row in ROWS if row[0] == THERE)
    with topicdb.open(db_path) as db:
        assert {slab.shard for slab in db.expire(later)} == {GONE}


# Jobs


def stage(path: Path, name: str, rows: list[tuple[str, int, bytes]]) -> jobs.Staged:
    with jobs.StagedWriter(path, name) as writer:
        writer.append(rows)
    return writer.staged


def test_a_job_waits_for_the_shard(part: Path) -> None:
    """It is applied to the shards that are there, and to the missing one when that is back."""
    rows = [(topic, 300, b"of the job") for topic in TOPICS]
    with skipping(part) as db:
        staged = stage(part, "load", rows)
        with pytest.raises(CorruptionError, match="'load' is committed, but not yet applied"):
            jobs.commit(part, "load", [staged])
        wait_until(lambda: db.scan(partial=True).count() == len(LEFT) + 2)
        assert db.scan(HERE, partial=True).count() == 11
    with skipping(part) as db:
        assert db.scan(partial=True).count() == len(LEFT) + 2, "once"
    assert contents(part) == rows_of([*ROWS, *rows])


def test_a_job_for_other_shards_is_done_at_once(part: Path) -> None:
    rows = [(HERE, 300, b"of the job")]
    with skipping(part) as db:
        committed = jobs.commit(part, "load", [stage(part, "load", rows)])
        assert (committed.messages, committed.pending) == (1, [])
        assert db.scan(HERE, partial=True).count() == 11
    assert contents(part) == rows_of([*ROWS, *rows])


# Followers


@pytest.mark.parametrize("layout", ["columnar"])
def test_a_partial_tail_and_the_next_one(part: Path) -> None:
    with skipping(part, mode="r") as db:
        with db.tail(timeout=0, partial=True) as tail:
            assert rows_of(tail) == rows_of(LEFT)
            assert list(tail.missing_shards) == [GONE]
            assert sorted(tail.serials) == [0, 2]
            after = tail.serials
            bring_back(part)
            db.refresh()
            assert db.missing_shards == {}
            assert list(tail) == [], "it stays without the shard"
            assert list(tail.missing_shards) == [GONE]
        with db.tail(after=after, timeout=0) as tail:
            assert rows_of(tail) == rows_of(row for row in ROWS if row[0] == THERE)


@pytest.mark.parametrize("layout", ["columnar"])
def test_a_tail_with_an_end_ends(part: Path) -> None:
    until = dict.fromkeys(range(SHARDS), 1_000_000)
    with skipping(part) as db:
        serials = {shard["shard"]: shard["serial"] for shard in db.stats()["shards"]}
        with db.tail(until={**until, **serials}, partial=True) as tail:
            assert rows_of(tail) == rows_of(LEFT)


@pytest.mark.parametrize("layout", ["columnar"])
def test_a_partial_subscription_follows_the_rest(part: Path) -> None:
    with (
        skipping(part) as db,
        db.subscribe(start="earliest", partial=True) as messages,
    ):
        assert list(messages.missing_shards) == [GONE]
        got: list[topicdb.Message] = []
        taker = threading.Thread(target=lambda: got.extend(messages))
        taker.start()
        wait_until(lambda: len(got) == len(LEFT))
        db.append([(HERE, 400, b"live")])
        wait_until(lambda: len(got) == len(LEFT) + 1)
        assert rows_of(got) == rows_of([*LEFT, (HERE, 400, b"live")])
        wait_until(lambda: messages.lag() == 0)
        assert sorted(messages.info()["places"]) == [0, 2]
        messages.close()
        taker.join()
        with db.subscribe(HERE, start="earliest", timeout=0, partial=True) as one:
            assert list(one.missing_shards) == [GONE]
            assert one.lag() > 0


# Coming back


@pytest.mark.parametrize("layout", ["columnar"])
def test_repair_brings_a_damaged_shard_back(path: Path) -> None:
    flip_manifest(shard_path(path))
    with skipping(path) as db:
        assert list(db.missing_shards) == [GONE]
        assert not topicdb.verify(path).ok
        with pytest.raises(LockedError):
            topicdb.repair(path)
        db.append([(HERE, 500, b"meanwhile")])
    report = topicdb.repair(path)
    assert (report.ok, report.shards) == (True, [GONE])
    with topicdb.open(path) as db:
        found = rows_of(db.scan())
        assert set(found) >= set(LEFT) | {(HERE, 500, b"meanwhile")}
        db.append([(THERE, 600, b"again")])


@pytest.mark.parametrize("layout", ["columnar"])
def test_a_reader_takes_it_up_while_it_reads(part: Path) -> None:
    with skipping(part, mode="r") as db:
        assert list(db.missing_shards) == [GONE]
        db.refresh()
        assert list(db.missing_shards) == [GONE]
        bring_back(part)
        db.refresh()
        assert db.missing_shards == {}
        assert rows_of(db.scan()) == rows_of(ROWS)
        with db.subscribe(start="earliest", timeout=0) as messages:
            wait_until(lambda: messages.info()["waiting"] == len(ROWS))


def test_a_shard_that_goes_later_is_never_left_out(path: Path) -> None:
    with skipping(path, mode="r") as db:
        shard_path(path).rename(away(path))
        with pytest.raises(CorruptionError):
            db.refresh()
        assert db.missing_shards == {}
        bring_back(path)
        db.refresh()
        assert rows_of(db.scan()) == rows_of(ROWS)


# By a server


@pytest.fixture
def served(part: Path) -> Iterator[topicdb.Database]:
    pytest.importorskip("pyarrow.flight")
    from served import serving

    with (
        skipping(part) as database,
        serving(database) as server,
        topicdb.connect(server.url) as db,
    ):
        yield db


def test_a_server_says_so_too(served: topicdb.Database) -> None:
    assert list(served.missing_shards) == [GONE]
    assert served.stats()["missing_shards"] == served.missing_shards
    for read in READS.values():
        check_read(served, read)
    scan = served.scan(partial=True)
    assert rows_of(scan) == rows_of(LEFT)
    assert (scan.is_partial, list(scan.missing_shards)) == (True, [GONE])
    named = {b"topicdb.missing_shards": b"%d" % GONE}
    assert scan.to_arrow().schema.metadata == named
    import pyarrow as pa

    with pa.RecordBatchReader.from_stream(scan) as reader:
        assert reader.schema.metadata == named
    with pytest.raises(MissingShardError, match="nothing was stored"):
        served.append([(HERE, 100, b""), (THERE, 100, b"")])
    with pytest.raises(MissingShardError):
        served.append_async([(THERE, 100, b"")]).result()
    for change in (
        served.rotate,
        lambda: served.delete("#"),
        lambda: served.delete(HERE),
        lambda: served.consumer("etl"),
    ):
        with pytest.raises(MissingShardError, match=NAMED):
            change()
    served.append([(HERE, 100, b"")])
    assert served.scan(partial=True).count() == len(LEFT) + 1


@pytest.mark.parametrize("layout", ["columnar"])
def test_followers_of_a_server(served: topicdb.Database) -> None:
    for follow in LOG_READS.values():
        for filter in ("#", HERE):
            with pytest.raises(MissingShardError, match=NAMED):
                follow(served, filter, False)
    with served.tail(timeout=0, partial=True) as tail:
        assert rows_of(tail) == rows_of(LEFT)
        assert list(tail.missing_shards) == [GONE]
    until = {shard["shard"]: shard["serial"] for shard in served.stats()["shards"]} | {GONE: 9}
    with served.tail(until=until, partial=True) as tail:
        assert rows_of(tail) == rows_of(LEFT)
    with served.tail(HERE, until=until, partial=True) as tail:
        assert len(list(tail)) == 10
        assert list(tail.missing_shards) == [GONE]
    with served.subscribe(start="earliest", partial=True) as messages:
        assert list(messages.missing_shards) == [GONE]
        got = []
        for message in messages:
            got.append(message)
            if len(got) == len(LEFT):
                break
        assert rows_of(got) == rows_of(LEFT)


def test_metrics_count_them(part: Path) -> None:
    pytest.importorskip("prometheus_client")
    from topicdb.metrics import Collector

    with skipping(part) as db:
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in Collector(db).collect()
            for sample in metric.samples
        }
    assert samples["topicdb_up",] == 1
    assert samples["topicdb_missing_shards",] == 1
    assert samples["topicdb_shard_messages", "0"] == 10
    assert ("topicdb_shard_messages", str(GONE)) not in samples
    assert ("topicdb_sessions",) not in samples


# By the command line


def test_a_server_of_the_command_line(part: Path) -> None:
    pytest.importorskip("typer", reason="needs topicdb[cli]")
    pytest.importorskip("pyarrow.flight")
    from cli_runs import error_of
    from served import Process

    assert "or its file CURRENT is missing" in error_of("serve", part, "--listen", "127.0.0.1:0")
    with Process(part, "--on-damage", "skip") as process:
        assert process.process.stdout is not None
        assert process.process.stdout.readline().startswith(f"missing: shard {GONE} (")
        with topicdb.connect(process.url) as db:
            assert rows_of(db.scan(partial=True)) == rows_of(LEFT)
        code, errors = process.stop()
        assert code == 0
        assert re.fullmatch(f"the replay logs stay closed: .*{NAMED}.*\n", errors)


def test_commands_name_it(part: Path, tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="needs topicdb[cli]")
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    from cli_runs import error_of, output_of, run

    assert f"missing: shard {GONE}" in output_of("info", part)
    assert f"missing: shard {GONE}" in output_of("stats", part)
    for command in ("scan", "last", "streams", "structures"):
        assert "or its file CURRENT is missing" in error_of(command, part)
        found = run(command, part, "--partial")
        assert found.returncode == 0
        assert f"a partial read leaves out shard {GONE} (" in found.stderr
        assert found.stdout
    found = run("scan", part, HERE, "--partial")
    assert (found.returncode, found.stdout.count("\n")) == (0, 10)
    assert f"a partial read leaves out shard {GONE} (" in found.stderr
    file = tmp_path / "part.parquet"
    assert run("export", part, file, "--partial").returncode == 0
    assert run("scan", part, "--to", tmp_path / "scan.parquet", "--partial").returncode == 0
    for written in (file, tmp_path / "scan.parquet"):
        assert pq.read_schema(written).metadata[b"topicdb.missing_shards"] == b"%d" % GONE
    refused = error_of("drop", part)
    assert "20 messages and 1 shards that cannot be read" in refused

"""Parquet both ways: nothing lost, nothing twice, nothing in part; and every kind of bad file."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TIMESTAMP_MAX, layouts, payload, timestamp, topic
from support import Child, Layout, run_child

import topicdb
from topicdb import parquet
from topicdb.times import time_us

pa = pytest.importorskip("pyarrow", reason="needs topicdb[arrow]")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"42"),
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"43"),
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"42"),
    ("metrics/h2/cpu", TIMESTAMP_MAX, b""),
    ("$SYS/uptime", 0, bytes(range(256))),
    ("ü/\x01/", 5, b"\xff"),
]
NOT_SYSTEM = [row for row in ROWS if not row[0].startswith("$")]

Row = tuple[str, int, bytes]
Series = dict[str, list[tuple[int, bytes]]]


def series(rows: Iterable[Row]) -> Series:
    """Of each topic what it has by time; equal times in the order given."""
    found: Series = defaultdict(list)
    for name, time, value in rows:
        found[name].append((time, value))
    return {name: sorted(items, key=lambda item: item[0]) for name, items in found.items()}


def stored(db: topicdb.Database, topics: Iterable[str]) -> Series:
    """The same of a database, topic by topic; all of it, or the test fails."""
    found = {name: [(m.timestamp, m.value) for m in db.scan(name)] for name in set(topics)}
    assert db.scan_slices(db.slices(None), None).count() == sum(map(len, found.values()))
    return {name: items for name, items in found.items() if items}


def in_file(path: Path) -> list[Row]:
    table = pq.read_table(path)
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return list(zip(table["topic"].to_pylist(), times, table["value"].to_pylist(), strict=True))


def write(path: Path, rows: Sequence[Row], **columns: Any) -> Path:
    """A foreign file; ``columns`` in place of those of ``rows``, or None for none."""
    topics, times, values = zip(*rows, strict=True)
    data = {
        "topic": pa.array(topics),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "value": pa.array(values, pa.binary()),
        **columns,
    }
    pq.write_table(pa.table({k: v for k, v in data.items() if v is not None}), path)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A file with ROWS."""
    path = tmp_path / "rows.parquet"
    with topicdb.open(tmp_path / "source.db") as db:
        db.append(ROWS)
        db.export_parquet(path, None)
    return path


class TestRoundTrip:
    @given(data=st.data())
    def test_any_messages(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        layout, timestamp_bytes = data.draw(layouts)
        times = timestamp if timestamp_bytes else st.just(0)
        commit = st.lists(st.tuples(topic, times, payload), min_size=1, max_size=8)
        commits = data.draw(st.lists(commit, max_size=4))
        directory = tmp_path_factory.mktemp("round")
        options: dict[str, Any] = {"layout": layout, "timestamp_bytes": timestamp_bytes}
        with (
            topicdb.open(
                directory / "a.db", shards=2, retention={"a/#": None}, **options
            ) as source,
            topicdb.open(directory / "b.db", shards=3, **options) as copy,
        ):
            for rows in commits:
                source.append(rows)
                if data.draw(st.integers(0, 3)) == 0:
                    source.rotate()
            target = directory / data.draw(st.sampled_from(["out.parquet", "out"]))
            done = source.export_parquet(target, None)
            topics = {name for rows in commits for name, _, _ in rows}
            if layout == "columnar":
                assert done.messages == sum(map(len, commits))
                expected = series(row for rows in commits for row in rows)
            else:  # what is in several generations is one message in a new one
                newest = {(row[0], row[1]): row for rows in commits for row in rows}
                expected = series(newest.values())
            assert copy.import_parquet(target).messages == done.messages
            assert stored(copy, topics) == expected

    @pytest.mark.parametrize("filter", ["#", None, ["t/1", "t/#"]], ids=str)
    def test_equal_times_keep_their_order(self, tmp_path: Path, filter: Any) -> None:
        """In commits of several blocks, some of them sealed and some not, over generations."""
        chance = random.Random(3)
        path = tmp_path / "out.parquet"
        rows: list[Row] = []
        with (
            topicdb.open(tmp_path / "a.db", seal_bytes=1 << 16, structures=["t/+"]) as source,
            topicdb.open(tmp_path / "b.db", shards=2) as copy,
        ):
            for commit in range(12):
                count = 40_000 if commit in (3, 9) else 300
                batch = [
                    (f"t/{chance.randrange(3)}", 7 + commit // 4, b"%06d" % (len(rows) + i) * 30)
                    for i in range(count)
                ]
                source.append(batch)
                rows += batch
                if commit in (2, 6):
                    source.flush()
                if commit == 7:
                    source.rotate()
            source.export_parquet(path, filter)
            copy.import_parquet(path)
            assert stored(copy, ["t/0", "t/1", "t/2"]) == series(rows)

    def test_filters(self, tmp_path: Path, layout: Layout) -> None:
        rows = [("a/1", 1, b"x"), ("a/2", 2, b"y"), ("b/1", 3, b"z"), ("$SYS/1", 4, b"s")]
        wanted: dict[str, tuple[str | list[str] | None, list[Row]]] = {
            "all but $": ("#", rows[:3]),
            "all": (None, rows),
            "one": ("a/#", rows[:2]),
            "system": ("$SYS/#", rows[3:]),
            "overlapping": (["a/#", "+/1", "$SYS/1"], rows),
            "none": ("c/#", []),
            "no filter": ([], []),
        }
        with topicdb.open(tmp_path / "db", shards=2, layout=layout) as db:
            db.append(rows)
            for name, (filter, expected) in wanted.items():
                path = tmp_path / f"{name}.parquet"
                done = db.export_parquet(path, filter)
                assert done == parquet.Exported([str(path)], len(expected), path.stat().st_size)
                assert sorted(in_file(path)) == sorted(expected), name

    @pytest.mark.parametrize("filter", ["#", None], ids=str)
    def test_times(self, tmp_path: Path, layout: Layout, filter: str | None) -> None:
        rows = [("a", time, b"%d" % time) for time in (0, 1, 2, 3, TIMESTAMP_MAX)]
        ranges = [(None, None), (1, 3), (None, 2), (3, None), ("2000-01-01T00:00:00Z", None)]
        with topicdb.open(tmp_path / "db", layout=layout) as db:
            for row in rows:
                db.append([row])
            for number, (start, end) in enumerate(ranges):
                path = tmp_path / f"{number}.parquet"
                db.export_parquet(path, filter, start=start, end=end)
                first = time_us(start) if start is not None else 0
                expected = [r for r in rows if first <= r[1] and (end is None or r[1] < end)]
                assert in_file(path) == expected

    def test_of_a_part_of_the_commits(self, tmp_path: Path) -> None:
        """What is appended, or deleted, meanwhile is not in it; a reader exports, too."""
        with topicdb.open(tmp_path / "db", shards=2) as db:
            db.append([(f"a/{i}", i, b"") for i in range(100)])
            db.delete("a/7")
            with topicdb.open(tmp_path / "db", mode="r") as reader:
                db.append([("a/1", 1000, b"late")])
                for filter in ("#", None):
                    path = tmp_path / f"{filter}.parquet"
                    assert reader.export_parquet(path, filter).messages == 99
                    assert max(time for _, time, _ in in_file(path)) == 99

    def test_directory(self, tmp_path: Path, layout: Layout) -> None:
        rows = [(f"a/{i % 7}", i, b"%d" % i) for i in range(1000)]
        with (
            topicdb.open(tmp_path / "db", layout=layout) as db,
            topicdb.open(tmp_path / "copy", layout=layout) as copy,
        ):
            db.append(rows)
            done = db.export_parquet(tmp_path / "out", rows_per_file=300)
            assert [Path(file).name for file in done.files] == names(tmp_path / "out")
            assert names(tmp_path / "out") == [f"part-0000{i}-of-00004.parquet" for i in range(4)]
            sizes = [pq.read_metadata(file).num_rows for file in done.files]
            assert sizes == [300, 300, 300, 100]
            assert copy.import_parquet(tmp_path / "out").files == done.files
            assert stored(copy, {row[0] for row in rows}) == series(rows)
            assert db.export_parquet(tmp_path / "even", rows_per_file=500).messages == 1000
            assert len(names(tmp_path / "even")) == 2

    def test_nothing(self, tmp_path: Path, db: topicdb.Database) -> None:
        for name in ("empty.parquet", "empty"):
            assert db.export_parquet(tmp_path / name).messages == 0
            done = db.import_parquet(tmp_path / name)
            assert (done.messages, len(done.files), done.repeated) == (0, 1, False)
        assert db.scan().count() == 0

    def test_large_values(self, tmp_path: Path) -> None:
        """Row groups and batches stay small, also where a dictionary stands for much."""
        from topicdb import parquet_read, parquet_write

        value = random.Random(1).randbytes(1 << 20)
        rows = [("big", i, value) for i in range(100)] + [("big", 100, value * 70)]
        with topicdb.open(tmp_path / "db") as db, topicdb.open(tmp_path / "copy") as copy:
            db.append(rows)
            db.export_parquet(tmp_path / "own.parquet")
            copy.import_parquet(tmp_path / "own.parquet")
            assert stored(copy, ["big"]) == series(rows)
        groups = pq.read_metadata(tmp_path / "own.parquet")
        sizes = [groups.row_group(i).total_byte_size for i in range(groups.num_row_groups)]
        assert max(sizes[:-1]) <= parquet_write.ROW_GROUP_BYTES + 2 * len(value)
        foreign = write(tmp_path / "foreign.parquet", rows[:100])
        assert foreign.stat().st_size < 4 * len(value), "a dictionary"
        for path in (foreign, tmp_path / "own.parquet"):
            [source] = parquet_read.open_sources([path])
            pieces = [piece.batch for piece in parquet_read.read(source)]
            assert all(
                piece.num_rows == 1 or piece.nbytes <= parquet_read.BATCH_BYTES + (1 << 16)
                for piece in pieces
            )

    def test_progress(self, tmp_path: Path, db: topicdb.Database) -> None:
        rows = [(f"a/{i % 10}", i, b"") for i in range(200_000)]
        db.append(rows)
        seen: list[tuple[int, int | None]] = []

        def note(rows: int, total: int | None) -> None:
            seen.append((rows, total))

        db.export_parquet(tmp_path / "out.parquet", progress=note)
        assert [done for done, _ in seen] == [131_072, 200_000]
        assert all(total is not None and 180_000 < total < 220_000 for _, total in seen)
        seen.clear()
        with topicdb.open(tmp_path / "copy") as copy:
            copy.import_parquet(tmp_path / "out.parquet", progress=note)
        assert seen[-1] == (200_000, 200_000)
        assert seen == sorted(seen) and len(seen) > 1

    def test_maps_stay_where_they_are(self, tmp_path: Path, db: topicdb.Database) -> None:
        with db.map("own") as own:
            own["k"] = b"v"
        assert db.export_parquet(tmp_path / "out.parquet", None).messages == 0


class TestOtherTools:
    def test_far_times_and_types(self, tmp_path: Path, exported: Path) -> None:
        duckdb = pytest.importorskip("duckdb")
        pandas = pytest.importorskip("pandas")
        found = duckdb.sql(
            f"select topic, epoch_us(timestamp), value from '{exported}' "
            "where isfinite(timestamp)"  # the last of all times stands for infinity there
        ).fetchall()
        finite = [row for row in ROWS if row[1] != TIMESTAMP_MAX]
        assert sorted(found) == sorted(finite)
        frame = pandas.read_parquet(exported)
        assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
        assert sorted(frame["timestamp"].astype("int64")) == sorted(row[1] for row in ROWS)
        schema = pq.read_schema(exported)
        assert [str(field.type) for field in schema] == [
            "string",
            "timestamp[us, tz=UTC]",
            "binary",
        ]
        about = json.loads(schema.metadata[b"topicdb"])
        assert about == {
            "version": 1,
            "filter": None,
            "start": None,
            "end": None,
            "layout": "columnar",
            "timestamp_bytes": 8,
        }

    @pytest.mark.parametrize(
        "columns",
        [
            {"timestamp": pa.array([0, 1_000, TIMESTAMP_MAX])},
            {"timestamp": pa.array([0, 1_000_000, 5_000], pa.timestamp("ns", "Europe/Berlin"))},
            {"timestamp": pa.array([0, 1, 2], pa.timestamp("s", "UTC"))},
            {"topic": pa.array(["a", "b", "a"], pa.large_string())},
            {"topic": pa.array(["a", "b", "a"]).dictionary_encode()},
            {"topic": pa.array(["a", "b", "a"], pa.string_view())},
            {"value": pa.array(["a", "", "ü"])},
            {"value": pa.array([b"a", b"", b"\xff"], pa.large_binary())},
            {"value": pa.array([b"a", b"", b"\xff"], pa.binary_view())},
            {"value": pa.array([b"a", b"", b"a"]).dictionary_encode()},
            {"serial": pa.array([7, 8, 9])},
        ],
        ids=lambda columns: ",".join(f"{k} {v.type}" for k, v in columns.items()),
    )
    def test_foreign_columns(self, tmp_path: Path, columns: dict[str, Any]) -> None:
        rows: list[Row] = [("a", 1, b"x"), ("b", 2, b"y"), ("a", 3, b"z")]
        path = write(tmp_path / "foreign.parquet", rows, **columns)
        topics = columns["topic"].to_pylist() if "topic" in columns else ["a", "b", "a"]
        times = [1, 2, 3]
        if "timestamp" in columns:
            utc = columns["timestamp"].cast(pa.timestamp("us", "UTC"))
            times = utc.cast(pa.int64()).to_pylist()
        values = columns["value"].to_pylist() if "value" in columns else [b"x", b"y", b"z"]
        values = [v.encode() if isinstance(v, str) else v for v in values]
        with topicdb.open(tmp_path / "db") as db:
            assert db.import_parquet(path).messages == 3
            assert stored(db, "ab") == series(zip(topics, times, values, strict=True))

    def test_times_of_hive_and_older_sparks(self, tmp_path: Path) -> None:
        table = pa.table(
            {"topic": ["a"], "timestamp": pa.array([17], pa.timestamp("us")), "value": [b"x"]}
        )
        path = tmp_path / "int96.parquet"
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
        with topicdb.open(tmp_path / "db") as db:
            db.import_parquet(path)
            assert db.scan().to_list() == [("a", 17, b"x")]


class TestExportFails:
    def test_what_is_there_is_left_alone(self, tmp_path: Path, db: topicdb.Database) -> None:
        db.append([("a", 1, b"")])
        for name in ("file.parquet", "directory"):
            path = tmp_path / name
            path.mkdir() if name == "directory" else path.write_text("mine")
            with pytest.raises(FileExistsError, match=f"choose another path.*{name}"):
                db.export_parquet(path)
        assert (tmp_path / "file.parquet").read_text() == "mine"
        assert names(tmp_path / "directory") == []
        assert names(tmp_path) == ["directory", "file.parquet", "test.db"]

    @pytest.mark.parametrize("name", ["out.parquet", "out"])
    def test_a_name_that_is_taken_meanwhile(
        self, tmp_path: Path, db: topicdb.Database, name: str
    ) -> None:
        db.append([("a", 1, b"")])

        def take(rows: int, total: int | None) -> None:
            (tmp_path / name).write_text("mine")

        with pytest.raises(FileExistsError, match=name):
            db.export_parquet(tmp_path / name, progress=take)
        assert (tmp_path / name).read_text() == "mine"
        assert names(tmp_path) == sorted([name, "test.db"])

    @pytest.mark.parametrize("name", ["out.parquet", "out"])
    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_nothing_is_left(
        self, tmp_path: Path, db: topicdb.Database, name: str, error: type[BaseException]
    ) -> None:
        db.append([("a", i, b"") for i in range(10)])

        def fail(rows: int, total: int | None) -> None:
            raise error

        with pytest.raises(error):
            db.export_parquet(tmp_path / name, progress=fail)
        assert names(tmp_path) == ["test.db"]

    @pytest.mark.parametrize("name", ["out.parquet", "out"])
    def test_a_file_system_that_takes_no_more(self, tmp_path: Path, name: str) -> None:
        code = """
            import pathlib, random, resource, sys, topicdb
            import pyarrow
            with topicdb.open(sys.argv[1] + "/db") as db:
                noise = random.Random(1)
                db.append([("a", i, noise.randbytes(1000)) for i in range(1000)])
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
                try:
                    db.export_parquet(sys.argv[1] + "/" + sys.argv[2])
                except OSError as error:
                    print(error.strerror)
                print(*(p.name for p in pathlib.Path(sys.argv[1]).iterdir()))
                import os
                os._exit(0)
        """
        assert run_child(code, tmp_path, name) == "File too large\ndb\n"

    def test_ctrl_c(self, tmp_path: Path) -> None:
        code = """
            import pathlib, sys, topicdb
            import pyarrow.parquet, topicdb.parquet_write
            db = topicdb.open(sys.argv[1] + "/db")
            db.append([("a", i, b"x" * 50) for i in range(300_000)])
            number = 0
            try:
                print("working")
                while True:
                    number += 1
                    db.export_parquet(f"{sys.argv[1]}/{number}.parquet")
            except KeyboardInterrupt:
                left = {p.name for p in pathlib.Path(sys.argv[1]).iterdir()}
                left -= {"db"} | {f"{i}.parquet" for i in range(1, number + 1)}
                print("left", left)
                print(db.scan().count())
        """
        with Child(code, tmp_path) as child:
            child.expect("working")
            child.interrupt()
            assert child.finish()[1] == "left set()\n300000\n"

    def test_arguments(self, tmp_path: Path, db: topicdb.Database) -> None:
        path = tmp_path / "out.parquet"
        with pytest.raises(topicdb.TopicError, match="a#"):
            db.export_parquet(path, "a#")
        with pytest.raises(topicdb.TopicError, match="a#"):
            db.export_parquet(path, ["b", "a#"])
        with pytest.raises(ValueError, match=r"start: .*zone"):
            db.export_parquet(path, start="2020-01-01")
        with pytest.raises(ValueError, match=r"rows_per_file: .*one file"):
            db.export_parquet(path, rows_per_file=7)
        with pytest.raises(ValueError, match="rows_per_file: expected at least 1, got 0"):
            db.export_parquet(tmp_path / "out", rows_per_file=0)
        with pytest.raises(FileNotFoundError, match="none"):
            db.export_parquet(tmp_path / "none" / "out.parquet")
        db.close()
        with pytest.raises(topicdb.ClosedError):
            db.export_parquet(path)
        assert names(tmp_path) == ["test.db"]


class TestRepeated:
    def test_the_same_files_are_stored_once(
        self, tmp_path: Path, exported: Path, db: topicdb.Database
    ) -> None:
        done = db.import_parquet(exported)
        assert done == parquet.Imported(
            [str(exported)], len(ROWS), exported.stat().st_size, False, []
        )
        renamed = exported.rename(tmp_path / "renamed.parquet")
        again = db.import_parquet([renamed])
        assert (again.repeated, again.messages) == (True, len(ROWS))
        expected = stored(db, {row[0] for row in ROWS})
        assert db.import_parquet(renamed, repeat=True).repeated is False
        if db.schema["layout"] == "columnar":
            assert expected == series(ROWS)
            doubled = db.scan_slices(db.slices(None), None).count()
            assert doubled == 2 * len(ROWS)

    def test_killed_while_it_reads(self, tmp_path: Path, layout: Layout) -> None:
        rows = [(f"a/{i % 10}", i, b"%d" % i) for i in range(200_000)]
        path = write(tmp_path / "in.parquet", rows)
        db_path = tmp_path / "db"
        topicdb.open(db_path, layout=layout).close()
        code = """
            import sys, topicdb
            def wait(rows, total):
                if rows > 100_000:
                    print("reading")
                    input()
            with topicdb.open(sys.argv[1]) as db:
                db.import_parquet(sys.argv[2], progress=wait)
        """
        with Child(code, db_path, path) as child:
            child.expect("reading")
            child.kill()
        with topicdb.open(db_path) as db:
            assert db.scan().count() == 0
            assert not db.import_parquet(path).repeated
            assert db.scan().count() == len(rows)

    def test_killed_at_any_moment(self, tmp_path: Path, layout: Layout) -> None:
        """All of it or nothing; and who repeats it has it once."""
        chance = random.Random(11)
        rows = [(f"a/{i % 10}", i, b"%d" % i) for i in range(100_000)]
        path = write(tmp_path / "in.parquet", rows)
        code = """
            import sys, topicdb
            import pyarrow, topicdb.parquet_read
            with topicdb.open(sys.argv[1], shards=2, layout=sys.argv[3]) as db:
                print("open")
                db.import_parquet(sys.argv[2])
                print("done")
                input()
        """
        for number in range(6):
            db_path = tmp_path / f"{number}.db"
            with Child(code, db_path, path, layout) as child:
                child.expect("open")
                for _ in range(chance.randint(0, 3_000_000)):
                    pass
                child.kill()
            with topicdb.open(db_path) as db:
                before = db.scan().count()
                assert before in (0, len(rows))
                assert db.import_parquet(path).repeated == (before > 0)
                assert db.scan().count() == len(rows)

    def test_state_in_several_steps(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stored in the order of the rows; killed between the steps it is completed."""
        monkeypatch.setattr(parquet, "_STATE_BYTES_MAX", 100_000)
        rows = [("key", i // 70_000, b"%d" % i) for i in range(140_000)]
        path = write(tmp_path / "in.parquet", rows)
        with topicdb.open(tmp_path / "db", layout="skipstream") as db:
            assert not db.import_parquet(path).repeated
            assert db.scan().to_list() == [("key", 0, b"69999"), ("key", 1, b"139999")]
            assert len(topicdb.jobs.applied(db)) > 1
            assert db.import_parquet(path).repeated
        assert names(tmp_path / "db" / "jobs") == []


class TestImportFails:
    GOOD: Sequence[Row] = [("a", 1, b"x"), ("b", 2, b"y"), ("c", 3, b"z")]
    COLUMNS: ClassVar[dict[str, tuple[dict[str, Any], str]]] = {
        "no topic": ({"topic": None}, "column 'topic' is missing; there are: timestamp, value"),
        "no timestamp": ({"timestamp": None}, "column 'timestamp' is missing"),
        "no value": ({"value": None}, "column 'value' is missing"),
        "topic bytes": ({"topic": [b"a"] * 3}, "column 'topic': expected string, got binary"),
        "topic int": ({"topic": [1, 2, 3]}, "column 'topic': expected string, got int64"),
        "value int": ({"value": [1, 2, 3]}, "column 'value': expected binary or string, got int64"),
        "no zone": (
            {"timestamp": pa.array([1, 2, 3], pa.timestamp("us"))},
            "column 'timestamp': expected a timestamp with a time zone",
        ),
        "time text": ({"timestamp": ["1", "2", "3"]}, "column 'timestamp': expected a timestamp"),
    }
    CELLS: ClassVar[dict[str, tuple[dict[str, Any], str]]] = {
        "null topic": ({"topic": ["a", None, "c"]}, "row 1: column 'topic' is null"),
        "null time": (
            {"timestamp": pa.array([1, 2, None], pa.timestamp("us", "UTC"))},
            "row 2: column 'timestamp' is null",
        ),
        "null value": ({"value": [b"x", b"", None]}, "row 2: column 'value' is null"),
        "wildcard": ({"topic": ["a", "b/#", "c"]}, "row 1: column 'topic': topic 'b/#'"),
        "no level": ({"topic": ["a", "b", ""]}, "row 2: column 'topic': "),
        "own topic": ({"topic": ["$topicdb/x", "b", "c"]}, "row 0: column 'topic': "),
        "negative": (
            {"timestamp": pa.array([1, 2, -3])},
            "row 2: column 'timestamp': timestamp -3",
        ),
        "fraction": (
            {"timestamp": pa.array([1000, 1001, 0], pa.timestamp("ns", "UTC"))},
            r"row 1: column 'timestamp': 1001 of timestamp\[ns, tz=UTC\] is no whole",
        ),
        "too late": (
            {"timestamp": pa.array([1, 2**62, 0], pa.timestamp("ms", "UTC"))},
            "row 1: column 'timestamp': ",
        ),
    }

    @pytest.mark.parametrize("case", [*COLUMNS, *CELLS])
    def test_bad_files(self, tmp_path: Path, db: topicdb.Database, case: str) -> None:
        columns, message = {**self.COLUMNS, **self.CELLS}[case]
        good = write(tmp_path / "good.parquet", self.GOOD)
        bad = write(tmp_path / "bad.parquet", self.GOOD, **columns)
        kind = topicdb.TopicError if "'topic': " in message and "row" in message else ValueError
        with pytest.raises(kind, match=f"bad.parquet: {message}"):
            db.import_parquet([good, bad])
        assert db.scan().count() == 0
        assert names(tmp_path / "test.db" / "jobs") == []
        db.import_parquet(good)
        assert sorted(db.scan()) == self.GOOD

    def test_rows_are_counted_through_the_file(self, tmp_path: Path, db: topicdb.Database) -> None:
        rows = [(f"a/{i}", i, b"") for i in range(150_000)]
        rows[140_000] = ("a/+", 1, b"")
        path = tmp_path / "in.parquet"
        pq.write_table(pq.read_table(write(path, rows)), path, row_group_size=100_000)
        with pytest.raises(topicdb.TopicError, match=r"in\.parquet: row 140000: column 'topic'"):
            db.import_parquet(path)
        assert db.scan().count() == 0

    def test_topics_that_are_not_utf_8(self, tmp_path: Path, db: topicdb.Database) -> None:
        buffers = pa.array([b"a", b"\xff\xfe", b"c"]).buffers()
        topics = pa.Array.from_buffers(pa.string(), 3, buffers)
        path = write(tmp_path / "in.parquet", self.GOOD, topic=topics)
        with pytest.raises(topicdb.TopicError, match=r"row 1: column 'topic': .*UTF-8"):
            db.import_parquet(path)

    def test_damage(self, tmp_path: Path, db: topicdb.Database) -> None:
        chance = random.Random(5)
        rows = sorted((f"a/{i}", i, chance.randbytes(40)) for i in range(2_000))
        path = tmp_path / "in.parquet"
        with topicdb.open(tmp_path / "source") as source:
            source.append(rows)
            source.export_parquet(path)
        whole = path.read_bytes()
        found = 0
        for _ in range(40):
            place = chance.randrange(len(whole))
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            error = raised_by(lambda: db.import_parquet(path, repeat=True))
            if error is None:  # the place was of no matter
                assert sorted(db.scan()) == rows
                db.delete("#")
                continue
            assert isinstance(error, (topicdb.Error, ValueError)) and "in.parquet" in str(error)
            assert db.scan().count() == 0
            found += isinstance(error, topicdb.CorruptionError)
        assert found > 30
        for size in (0, 3, 100, len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(topicdb.CorruptionError, match=r"in\.parquet: no Parquet file"):
                db.import_parquet(path)

    @pytest.mark.parametrize(
        ("change", "kind", "message"),
        [
            ({"version": 2}, topicdb.SchemaError, "a newer TopicDB wrote it; upgrade"),
            ({"filter": "a#"}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"start": -1}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"layout": "rows"}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"more": 1}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"end": 1}, ValueError, "row 0: column 'timestamp': .* outside the range"),
        ],
        ids=str,
    )
    def test_what_a_file_says_of_itself(
        self,
        tmp_path: Path,
        db: topicdb.Database,
        exported: Path,
        change: dict[str, Any],
        kind: type[Exception],
        message: str,
    ) -> None:
        table = pq.read_table(exported)
        about = {**json.loads(table.schema.metadata[b"topicdb"]), **change}
        path = tmp_path / "in.parquet"
        pq.write_table(table.replace_schema_metadata({"topicdb": json.dumps(about)}), path)
        with pytest.raises(kind, match=f"in.parquet: .*{message}"):
            db.import_parquet(path)
        pq.write_table(table.replace_schema_metadata({"topicdb": "{"}), path)
        with pytest.raises(topicdb.CorruptionError, match="damaged"):
            db.import_parquet(path)

    def test_a_database_without_times(self, tmp_path: Path, exported: Path) -> None:
        options: dict[str, Any] = {"layout": "skipstream", "timestamp_bytes": 0}
        with topicdb.open(tmp_path / "state", **options) as state:
            with pytest.raises(topicdb.SchemaError, match=r"rows\.parquet: .*timestamp_bytes=0"):
                state.import_parquet(exported)
            path = write(tmp_path / "in.parquet", [("a", 0, b"x"), ("a", 1, b"")])
            with pytest.raises(ValueError, match=r"row 1: column 'timestamp': .*no time but 0"):
                state.import_parquet(path)
            state.append([("a", 0, b"1"), ("a", 0, b"2")])
            state.export_parquet(tmp_path / "state.parquet")
        with topicdb.open(tmp_path / "copy") as copy:
            copy.import_parquet(tmp_path / "state.parquet")
            assert copy.scan().to_list() == [("a", 0, b"2")]

    def test_files_that_are_not_there(self, tmp_path: Path, db: topicdb.Database) -> None:
        with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
            db.import_parquet(tmp_path / "none.parquet")
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match=r"has no \.parquet files.*empty"):
            db.import_parquet(tmp_path / "empty")
        with pytest.raises(ValueError, match="no file is given"):
            db.import_parquet([])
        db.append([(f"a/{i}", i, b"") for i in range(10)])
        done = db.export_parquet(tmp_path / "out", rows_per_file=3)
        Path(done.files[-1]).unlink()
        with pytest.raises(FileNotFoundError, match="part-00003-of-00004"):
            db.import_parquet(tmp_path / "out")
        (tmp_path / "out" / "_SUCCESS").touch()
        (tmp_path / "out" / ".hidden.parquet").touch()
        assert db.import_parquet(done.files[:3]).messages == 9

    def test_handles_that_do_not_write(self, tmp_path: Path, exported: Path) -> None:
        with topicdb.open(tmp_path / "db", quota_bytes=1) as db:
            db.flush()
            with pytest.raises(topicdb.QuotaError, match="quota is 1: delete or drop"):
                db.import_parquet(exported)
            with (
                topicdb.open(tmp_path / "db", mode="r") as reader,
                pytest.raises(topicdb.ReadOnlyError),
            ):
                reader.import_parquet(exported)
        with pytest.raises(topicdb.ClosedError):
            db.import_parquet(exported)
        assert names(tmp_path / "db" / "jobs") == []

    def test_beside_a_writer(self, tmp_path: Path, exported: Path) -> None:
        code = """
            import sys, topicdb
            with topicdb.open(sys.argv[1]) as db:
                print("open")
                input()
                print(db.scan("#").count())
                input()
        """
        with Child(code, tmp_path / "db") as writer:
            writer.expect("open")
            with pytest.raises(topicdb.LockedError):
                topicdb.open(tmp_path / "db")
            done = parquet.import_into(tmp_path / "db", exported)
            assert (done.repeated, done.pending) == (False, [])
            assert parquet.import_into(tmp_path / "db", exported).repeated
            writer.send()
            writer.expect(str(len(NOT_SYSTEM)))
        with pytest.raises(topicdb.NotFoundError):
            parquet.import_into(tmp_path / "none", exported)

    def test_without_pyarrow(self, tmp_path: Path) -> None:
        code = """
            import sys
            sys.modules["pyarrow"] = None
            import topicdb
            with topicdb.open(sys.argv[1]) as db:
                for call in db.export_parquet, db.import_parquet:
                    try:
                        call("x.parquet")
                    except ModuleNotFoundError as error:
                        print(error)
        """
        assert run_child(code, tmp_path / "db").splitlines() == [
            'export_parquet needs pyarrow; run: pip install "topicdb[arrow]"',
            'import_parquet needs pyarrow; run: pip install "topicdb[arrow]"',
        ]


def raised_by(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None

"""Export and import of Parquet lose nothing, store nothing twice, and leave nothing in part."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_rows import ROWS, Row, in_file, names, pq, series, stored, write
from strategies import TIMESTAMP_MAX, layouts, payload, timestamp, topic
from support import LAYOUTS, Child, Layout, run_child, topic_in_shard, wait_until

import topicdb
from model.serial import Generation, State
from topicdb import parquet
from topicdb.arguments.times import time_us
from topicdb.parquet import files as parquet_files

LOCK_OF_SHARD_1 = """
    import fcntl, sys
    lock = open(sys.argv[1] + "/shards/0001.lock", "r+b")
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("locked")
    input()
"""


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
        model = State([Generation(layout == "columnar")])
        others = LAYOUTS if timestamp_bytes else ("skipstream",)
        options: dict[str, Any] = {"shards": 2, "timestamp_bytes": timestamp_bytes}
        with (
            topicdb.open(
                directory / "a.db", layout=layout, retention={"a/#": None}, **options
            ) as source,
            topicdb.open(directory / "b.db", **options) as copy,
        ):
            for rows in commits:
                source.append(rows)
                for name, time, value in rows:
                    model.write((name, time), value)
                if data.draw(st.integers(0, 3)) == 0:
                    layout = data.draw(st.sampled_from(others))
                    source.rotate(layout=layout)
                    model.generations.append(Generation(layout == "columnar"))
            target = directory / data.draw(st.sampled_from(["out.parquet", "out"]))
            done = source.export_parquet(target, None)
            expected = model.messages()
            topics = {name for rows in commits for name, _, _ in rows}
            assert copy.import_parquet(target).messages == done.messages == len(expected)
            assert stored(copy, topics) == series(expected)

    @pytest.mark.parametrize("filter", ["#", None, ["t/1", "t/#"]], ids=str)
    def test_equal_times_keep_their_order(self, tmp_path: Path, filter: Any) -> None:
        """Commits have several blocks, some sealed and some not, in two generations."""
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
        """A reader's export has no deleted messages, nor messages that were appended meanwhile."""
        with topicdb.open(tmp_path / "db", shards=2) as db:
            db.append([(f"a/{i}", i, b"") for i in range(100)])
            db.delete("a/7")
            with topicdb.open(tmp_path / "db", mode="r") as reader:
                db.append([("a/1", 1000, b"late")])
                for filter in ("#", None):
                    path = tmp_path / f"{filter}.parquet"
                    assert reader.export_parquet(path, filter).messages == 99
                    assert max(time for _, time, _ in in_file(path)) == 99

    def test_of_some_shards(self, tmp_path: Path) -> None:
        rows = [(f"a/{i}", i, b"") for i in range(100)]
        with topicdb.open(tmp_path / "db", shards=3) as db:
            db.append(rows)
        here = [row for row in rows if topicdb.shard_of(row[0], 3) == 1]
        with topicdb.open(tmp_path / "db", only_shards=[1]) as db:
            for filter in ("#", None):
                path = tmp_path / f"{filter}.parquet"
                db.export_parquet(path, filter)
                assert sorted(in_file(path)) == sorted(here)
            # The import opens shards that nobody has open.
            assert db.import_parquet(write(tmp_path / "in.parquet", rows)).pending == []
        with topicdb.open(tmp_path / "db") as db:
            assert db.scan().count() == 200

    @pytest.mark.parametrize("filter", ["#", None], ids=str)
    def test_a_job_that_a_shard_has_yet_to_apply_is_left_out(
        self, tmp_path: Path, filter: str | None
    ) -> None:
        path = tmp_path / "db"
        before = [(f"a/{i}", i, b"before") for i in range(50)]
        after = [(topic_in_shard(0, 2), 99, b"after")]
        with topicdb.open(path, shards=2) as db:
            db.append(before)
        code = """
            import sys, time, topicdb
            from topicdb import jobs
            path = sys.argv[1]
            with jobs.StagedWriter(path, "j") as writer:
                writer.append([(f"a/{i}", i, b"of the job") for i in range(50)])
            with topicdb.open(path, only_shards=[0]) as db:
                pending = jobs.commit(path, "j", [writer.staged], timeout=0.05).pending
                while not jobs.applied(db):
                    time.sleep(0.01)
                print(1 in pending)
        """
        with Child(LOCK_OF_SHARD_1, path) as owner:
            owner.expect("locked")
            assert run_child(code, path) == "True\n"
            with topicdb.open(path, only_shards=[0]) as db:
                db.append(after)
            with topicdb.open(path, mode="r") as reader:
                reader.export_parquet(tmp_path / "out.parquet", filter)
        assert sorted(in_file(tmp_path / "out.parquet")) == sorted(before + after)

    @pytest.mark.parametrize("filter", ["#", None], ids=str)
    def test_a_reader_keeps_what_is_dropped(self, tmp_path: Path, filter: str | None) -> None:
        path = tmp_path / "out.parquet"
        with topicdb.open(tmp_path / "db") as db:
            db.append([(f"a/{i % 9}", i, b"x" * 100) for i in range(200_000)])
            db.rotate()
            with topicdb.open(tmp_path / "db", mode="r") as reader:

                def drop(rows: int, total: int | None) -> None:
                    for slab in db.slabs():
                        if slab.read_only:
                            db.drop_slab(slab)

                assert reader.export_parquet(path, filter, progress=drop).messages == 200_000
            assert db.scan().count() == 0

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
            assert len(db.export_parquet(tmp_path / "one", rows_per_file=1 << 70).files) == 1
            assert len(names(tmp_path / "even")) == 2

    def test_nothing(self, tmp_path: Path, db: topicdb.Database) -> None:
        for name in ("empty.parquet", "empty"):
            assert db.export_parquet(tmp_path / name).messages == 0
            done = db.import_parquet(tmp_path / name)
            assert (done.messages, len(done.files), done.repeated) == (0, 1, False)
        assert db.scan().count() == 0

    def test_large_values(self, tmp_path: Path) -> None:
        """Row groups and batches stay small, even where a dictionary stands for large values."""
        from topicdb.parquet import reading as parquet_read
        from topicdb.parquet import writing as parquet_write

        value = random.Random(1).randbytes(1 << 20)
        rows = [("big", i, value) for i in range(100)] + [("big", 100, value * 70)]
        with topicdb.open(tmp_path / "db") as db, topicdb.open(tmp_path / "copy") as copy:
            db.append(rows)  # one commit, which the log gives as a whole
            db.export_parquet(tmp_path / "own.parquet", None)
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

    @pytest.mark.parametrize("filter", ["#", None], ids=str)
    def test_of_a_state_in_two_generations_the_newer_stays(
        self, tmp_path: Path, filter: str | None
    ) -> None:
        with (
            topicdb.open(tmp_path / "db", layout="skipstream") as db,
            topicdb.open(tmp_path / "copy", layout="skipstream") as copy,
        ):
            for value in (b"old", b"new"):
                db.append([("a", 7, value)])
                db.rotate()
            assert db.export_parquet(tmp_path / "out.parquet", filter).messages == 1
            copy.import_parquet(tmp_path / "out.parquet")
            assert copy.scan().to_list() == [("a", 7, b"new")]

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


class TestExportFails:
    def test_what_is_there_is_left_alone(self, tmp_path: Path, db: topicdb.Database) -> None:
        db.append([("a", 1, b"")])
        for name in ("file.parquet", "directory"):
            path = tmp_path / name
            path.mkdir() if name == "directory" else path.write_text("mine")
            with pytest.raises(FileExistsError, match=f"{name} exists: choose another path"):
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
            import pyarrow.parquet, topicdb.parquet.writing
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
        """A killed import stores all or nothing, and a repetition stores the rows once."""
        chance = random.Random(11)
        rows = [(f"a/{i % 10}", i, b"%d" % i) for i in range(100_000)]
        path = write(tmp_path / "in.parquet", rows)
        code = """
            import sys, topicdb
            import pyarrow, topicdb.parquet.reading
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
        """Rows are stored in order, in steps; an import that failed between them is completed."""
        monkeypatch.setattr(parquet_files, "_STATE_BYTES_MAX", 100_000)
        rows = [("key", i // 70_000, b"%d" % i) for i in range(140_000)]
        path = write(tmp_path / "in.parquet", rows)

        def fail(rows: int, total: int | None) -> None:
            if rows == total:
                raise ZeroDivisionError

        with topicdb.open(tmp_path / "db", layout="skipstream") as db:
            with pytest.raises(ZeroDivisionError):
                db.import_parquet(path, progress=fail)
            assert names(tmp_path / "db" / "jobs") == []
            assert not db.import_parquet(path).repeated
            assert db.scan().to_list() == [("key", 0, b"69999"), ("key", 1, b"139999")]
            assert len(topicdb.jobs.applied(db)) > 1
            assert db.import_parquet(path).repeated
            # The database removes what it has stored by itself.
            wait_until(lambda: not names(tmp_path / "db" / "jobs"))

"""Each generation has its layout: ``rotate(layout=...)``, and ``layout`` of a retention class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from retained import HOUR, now, opened
from support import LAYOUTS, Layout, newest

import topicdb
from topicdb import Retention, jobs

Row = tuple[str, int, bytes]


def rows(db: topicdb.Database, filter: str = "#", **options: Any) -> list[Row]:
    return [(m.topic, m.timestamp, m.value) for m in db.scan(filter, **options)]


def layouts(db: topicdb.Database, retention_class: str = "#") -> list[str]:
    """Returns the layouts of the generations of a class, the oldest first."""
    return [slab.layout for slab in db.slabs() if slab.retention_class == retention_class]


def state(db: topicdb.Database) -> Any:
    """Returns what a change that is refused must leave alone."""
    serials = [shard["serial"] for shard in db.stats()["shards"]]
    return db.slabs(), dict(db.retention), serials


class TestRotate:
    @pytest.mark.parametrize("first", LAYOUTS)
    def test_older_generations_stay_readable(self, db_path: Path, first: Layout) -> None:
        expected: list[Row] = []
        with opened(db_path, layout=first, shards=2, thresholds=[3, 2]) as db:
            for turn in range(6):
                if turn > 0:
                    db.rotate(layout=LAYOUTS[turn % 2])
                new = [(f"m/{i}/cpu", 100 * turn + i, b"%d.%d" % (turn, i)) for i in range(20)]
                db.append(new)
                expected += new
            wanted = [first, *(LAYOUTS[turn % 2] for turn in range(1, 6))]
        for mode in ("rw", "r"):
            with topicdb.open(db_path, mode=mode) as db:
                assert layouts(db) == [*wanted, *wanted]
                assert sorted(rows(db)) == sorted(expected)
                assert rows(db, order="time") == sorted(expected, key=lambda row: row[1])
                assert rows(db, "m/7/cpu") == [row for row in expected if row[0] == "m/7/cpu"]
                assert {m.value for m in db.last("m/#")} == {b"5.%d" % i for i in range(20)}
                assert rows(db, start=150, end=320) == [
                    row for row in rows(db) if 150 <= row[1] < 320
                ]
                assert {m.value for m in db.state_at(319, "m/+/cpu")} == {
                    b"3.%d" % i for i in range(20)
                }
                assert db.schema["layout"] == first

    def test_a_generation_without_messages_changes_its_layout_too(self, db_path: Path) -> None:
        with opened(db_path) as db:
            db.rotate(layout="skipstream")
            db.rotate(layout="columnar")
            assert layouts(db) == ["columnar", "skipstream", "columnar"]
            db.append([("a", 1, b"1"), ("a", 1, b"2")])
            assert len(rows(db)) == 2

    def test_the_next_one_goes_on_with_it(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": Retention(rotate="1h")}) as db:
            db.rotate("a/#", layout="skipstream")
            db.append([("a/b", 1, b"")])
            db.maintain(now() + 2 * HOUR)
            assert layouts(db, "a/#") == ["columnar", "skipstream", "skipstream"]
            assert layouts(db) == ["columnar"]
            db.rotate()
            assert layouts(db, "a/#")[-1] == "skipstream"
            assert layouts(db) == ["columnar"] * 2

    def test_what_cannot_be_changes_nothing(self, db_path: Path) -> None:
        with opened(db_path) as db:
            before = state(db)
            wrong: Any
            for wrong in ("rows", "", "COLUMNAR"):
                with pytest.raises(topicdb.SchemaError, match="'columnar' or 'skipstream'"):
                    db.rotate(layout=wrong)
            for wrong in (5, b"columnar"):
                with pytest.raises(TypeError):
                    db.rotate(layout=wrong)
            with pytest.raises(topicdb.NotFoundError, match="b/#"):
                db.rotate("b/#", layout="skipstream")
            with pytest.raises(ValueError, match="one clock"):
                db.rotate("#", layout="skipstream", reset_clock=True)
            assert state(db) == before
        with topicdb.open(db_path, mode="r") as db, pytest.raises(topicdb.ReadOnlyError):
            db.rotate(layout="skipstream")

    def test_a_map_of_topics_has_one_layout(self, db_path: Path) -> None:
        with opened(db_path, timestamp_bytes=0) as db:
            before = state(db)
            with pytest.raises(topicdb.SchemaError, match="timestamp_bytes: 0 needs layout"):
                db.rotate(layout="columnar")
            with pytest.raises(topicdb.SchemaError, match=r"'a/#'.*timestamp_bytes"):
                db.set_retention({"a/#": Retention(layout="columnar")})
            assert state(db) == before
            db.rotate(layout="skipstream")
        other = db_path.with_name("other.db")
        with pytest.raises(topicdb.SchemaError, match="timestamp_bytes"):
            opened(other, {"a/#": "layout:columnar"}, timestamp_bytes=0)
        assert not other.exists()

    def test_an_opening_asks_for_the_first_one(self, db_path: Path) -> None:
        with opened(db_path) as db:
            db.rotate(layout="skipstream")
        opened(db_path, layout="columnar").close()
        with pytest.raises(topicdb.SchemaError, match="rotate and set_retention"):
            opened(db_path, layout="skipstream")

    def test_maps_are_no_class_of_users(self, db_path: Path) -> None:
        with opened(db_path) as db:
            with db.map("state") as stored:
                stored["key"] = b"1"
            db.rotate(layout="columnar")
            db.rotate(layout="skipstream")
            with db.map("state") as stored:
                stored["key"] = b"2"
        with opened(db_path) as db, db.map("state") as stored:
            assert dict(stored) == {"key": b"2"}


class TestRetention:
    def test_a_class_begins_with_its_layout(self, db_path: Path) -> None:
        retention: dict[str, Any] = {
            "s/#": Retention("30d", layout="skipstream"),
            "#": "7d",
        }
        with opened(db_path, retention) as db:
            assert (layouts(db, "s/#"), layouts(db)) == (["skipstream"], ["columnar"])
            db.append([("s/a", 1, b"1"), ("s/a", 1, b"2"), ("a", 1, b"1"), ("a", 1, b"2")])
            assert rows(db, "s/a") == [("s/a", 1, b"2")]
            assert rows(db, "a") == [("a", 1, b"1"), ("a", 1, b"2")]
        with opened(db_path, retention) as db:  # it is the same again
            assert db.retention["s/#"].layout == "skipstream"
            assert db.retention["#"].layout is None
        with pytest.raises(topicdb.SchemaError, match="layout skipstream"):
            opened(db_path, {"s/#": "30d", "#": "7d"})

    def test_it_begins_at_once(self, db_path: Path, layout: Layout) -> None:
        other = next(one for one in LAYOUTS if one != layout)
        with opened(db_path, {"a/#": None, "b/#": None}, layout=layout) as db:
            db.append([("a/x", 1, b""), ("b/x", 1, b"")])
            db.set_retention({"a/#": Retention(layout=other), "b/#": None}, dry_run=True)
            assert layouts(db, "a/#") == [layout]
            db.set_retention({"a/#": Retention(layout=other), "b/#": Retention(layout=layout)})
            assert layouts(db, "a/#") == [layout, other]
            assert layouts(db, "b/#") == [layout], "it has that one"
            db.set_retention({"a/#": Retention(layout=layout), "b/#": None})
            assert layouts(db, "a/#") == [layout, other, layout], "an empty one has a layout, too"

    def test_who_decides(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": Retention(layout="skipstream")}) as db:
            db.rotate("a/#", layout="columnar")
            assert layouts(db, "a/#") == ["skipstream", "columnar"], "the call"
            db.rotate("a/#")
            assert layouts(db, "a/#")[2:] == ["skipstream"], "then the class"
            db.set_retention({"a/#": "7d"})
            db.rotate("a/#")
            assert layouts(db, "a/#")[3:] == ["skipstream"], "then the generation before"
            db.set_retention({"a/#": "7d", "b/#": None})
            assert layouts(db, "b/#") == ["columnar"], "then the schema"

    def test_a_class_that_is_gone_keeps_its_generations(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": Retention(layout="skipstream")}) as db:
            db.append([("a/x", 1, b"1")])
            db.set_retention({"#": None})
            db.append([("a/x", 1, b"2"), ("a/x", 1, b"3")])
            assert [value for _, _, value in rows(db, "a/x")] == [b"1", b"2", b"3"]
            assert newest(db, "a/x", 1) == b"3"
            db.set_retention({"a/#": None})
            assert layouts(db, "a/#") == ["skipstream"] * 2

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            (Retention(layout="rows"), "layout: expected"),  # type: ignore[arg-type]
            (Retention(layout=5), "layout"),  # type: ignore[arg-type]
            ("layout:rows", "layout"),
            ("layout:", "layout"),
            ("layout:columnar,layout:skipstream", "layout is given twice"),
            ("keep,keep", "keep"),
        ],
        ids=str,
    )
    def test_what_is_no_layout_changes_nothing(
        self, db_path: Path, limits: Any, message: str
    ) -> None:
        with opened(db_path) as db:
            before = state(db)
            with pytest.raises((ValueError, TypeError), match=message):
                db.set_retention({"a/#": limits})
            assert state(db) == before

    def test_as_text(self, db_path: Path) -> None:
        texts = {
            "a/#": "1h,layout:skipstream",
            "b/#": "keep,layout:columnar",
            "c": "layout:columnar",
        }
        with opened(db_path, texts) as db:
            assert db.retention["a/#"].layout == "skipstream"
            assert db.retention["b/#"] == Retention(layout="columnar") == db.retention["c"]

    def test_generations_by_age_have_it(self, db_path: Path) -> None:
        start = now()
        with opened(db_path, {"a/#": Retention("8h", layout="skipstream")}) as db:
            for hour in range(12):
                db.append([("a/x", hour, b"%d" % hour)])
                db.maintain(start + (hour + 1) * HOUR)
            assert set(layouts(db, "a/#")) == {"skipstream"}
            assert len(layouts(db, "a/#")) > 6
            db.set_retention({"a/#": Retention("8h", layout="columnar")})
            for hour in range(12, 24):
                db.append([("a/x", hour, b"%d" % hour)])
                db.maintain(start + (hour + 1) * HOUR)
            assert set(layouts(db, "a/#")) == {"columnar"}, "the others were too old"
            assert rows(db)[-1] == ("a/x", 23, b"23")


class TestEqualKeys:
    """What is in a generation that keeps all messages stays; see lifecycle.md."""

    def test_a_state_replaces_what_states_have(self, db_path: Path) -> None:
        with opened(db_path, layout="skipstream") as db:
            db.append([("a", 5, b"state 1")])
            db.rotate(layout="columnar")
            db.append([("a", 5, b"log 1"), ("a", 5, b"log 2")])
            assert rows(db) == [("a", 5, b"state 1"), ("a", 5, b"log 1"), ("a", 5, b"log 2")]
            db.rotate(layout="skipstream")
            db.append([("a", 5, b"state 2")])
            assert rows(db) == [("a", 5, b"log 1"), ("a", 5, b"log 2"), ("a", 5, b"state 2")]
            db.append([("a", 5, b"state 3")])
            assert [value for _, _, value in rows(db, order="time")] == [
                b"log 1",
                b"log 2",
                b"state 3",
            ]
            assert newest(db, "a", 5) == b"state 3"
            assert [m.value for m in db.last("a")] == [b"state 3"]
            assert [m.value for m in db.state_at(5, "a")] == [b"state 3"]

    def test_the_last_one_is_that_of_the_last_commit(self, db_path: Path) -> None:
        with opened(db_path) as db:
            for turn in range(5):
                db.append([("a", 5, b"%d" % turn)])
                assert newest(db, "a", 5) == b"%d" % turn
                assert [m.value for m in db.last("a")] == [b"%d" % turn]
                db.rotate(layout=LAYOUTS[turn % 2])

    def test_a_delete_takes_them_all(self, db_path: Path) -> None:
        with opened(db_path) as db:
            for turn in range(4):
                db.append([("a", 5, b"%d" % turn), ("a", 6, b"")])
                db.rotate(layout=LAYOUTS[turn % 2])
            db.delete("a", start=5, end=6)
            assert {timestamp for _, timestamp, _ in rows(db)} == {6}
            assert newest(db, "a", 5) is None

    def test_in_a_transaction(self, db_path: Path) -> None:
        with opened(db_path, layout="skipstream") as db:
            db.append([("a", 5, b"state")])
            db.rotate(layout="columnar")
            db.append([("a", 5, b"log")])
            with db.transaction() as tx:
                tx.write("a", 5, b"own")
                seen = [m.value for m in tx.scan("a")]
                assert tx.get("a", 5) == b"own"
            assert seen == [b"state", b"log", b"own"]
            assert [value for _, _, value in rows(db)] == seen
            db.rotate(layout="skipstream")
            with db.transaction() as tx:
                tx.write("a", 5, b"new")
                seen = [m.value for m in tx.scan("a")]
            assert seen == [b"log", b"own", b"new"]
            assert [value for _, _, value in rows(db)] == seen


class TestTransactions:
    def test_one_that_is_open_conflicts_with_another_layout(self, db_path: Path) -> None:
        with opened(db_path) as db:
            tx = db.transaction()
            tx.write("a", 1, b"")
            db.rotate(layout="skipstream")
            with pytest.raises(topicdb.ConflictError, match="began with another layout"):
                tx.commit()
            assert rows(db) == []
            with db.transaction() as again:
                again.write("a", 1, b"x")
                db.rotate()  # with the same one
            assert rows(db) == [("a", 1, b"x")]

    def test_one_that_only_reads_does_not(self, db_path: Path) -> None:
        with opened(db_path) as db:
            db.append([("a", 1, b"x")])
            with db.transaction() as tx:
                db.rotate(layout="skipstream")
                db.append([("a", 1, b"y")])
                assert [m.value for m in tx.scan("a")] == [b"x"]


class TestReading:
    def test_iterators_go_on(self, db_path: Path) -> None:
        with opened(db_path, thresholds=[2, 1]) as db:
            db.append([(f"m/{i % 5}", i, b"%d" % i) for i in range(50)])
            before = {
                bytes(db.next(db.iterator(stream), 7).iterator) for stream in db.streams("m/+")
            }
            db.rotate(layout="skipstream")
            db.append([(f"m/{i % 5}", i, b"%d" % i) for i in range(50, 100)])
            left = 0
            for saved in before:
                page = db.next(topicdb.Iterator.from_bytes(saved), 1_000)
                assert page.end_of_stream
                left += len(page.batch)
            assert left == 50 - 7 * len(before)
            assert {stream.generation for stream in db.streams("m/+")} == {1, 2}

    def test_slices_know_the_layout(self, db_path: Path) -> None:
        with opened(db_path) as db:
            db.append([("a", 1, b"1"), ("a", 1, b"2")])
            db.rotate(layout="skipstream")
            serials = db.append([("a", 2, b"3")]).serials
            db.append([("a", 2, b"4"), ("a", 3, b"5")])
            found = db.slices("#")
            assert [(one.generation, one.layout) for one in found] == [
                (1, "columnar"),
                (2, "skipstream"),
            ]
            assert sorted(m.value for m in db.scan_slices(found)) == [b"1", b"2", b"4", b"5"]
            later = db.slices("#", after=serials)
            assert [one.generation for one in later] == [2]
            assert sorted(m.value for m in db.scan_slices(later)) == [b"4", b"5"]
            early = db.slices("#", until=serials)
            assert sorted(m.value for m in db.scan_slices(early)) == [b"1", b"2"], "it was replaced"

    def test_explain_and_structures(self, db_path: Path) -> None:
        with opened(db_path, thresholds=[2, 1]) as db:
            db.append([(f"m/{i}/cpu", i, b"") for i in range(20)])
            db.rotate(layout="skipstream")
            db.append([(f"m/{i}/cpu", i, b"") for i in range(20)])
            streams = db.structures("m/#")["m/+/cpu"]
            assert [stream.generation for stream in streams] == [1, 2]
            assert db.explain("m/#")["rows_matched"] == 40
            assert sum(one.messages for one in db.usage(by="structure")) == 40


class TestJobs:
    def test_each_class_takes_its_part(self, db_path: Path) -> None:
        with opened(db_path, {"s/#": Retention(layout="skipstream")}) as db:
            new: list[Any] = [("s/a", 1, b"1"), ("a", 1, b"1"), ("s/a", 1, b"2"), ("a", 1, b"2")]
            with jobs.StagedWriter(db_path, "j") as writer:
                writer.append(new)
            assert jobs.commit(db_path, "j", [writer.staged]).messages == 4
            assert rows(db, "s/a") == [("s/a", 1, b"2")]
            assert rows(db, "a") == [("a", 1, b"1"), ("a", 1, b"2")]

    def test_what_was_staged_before_a_rotation(self, db_path: Path) -> None:
        with opened(db_path, layout="skipstream") as db:
            for turn, layout in enumerate((*LAYOUTS, *LAYOUTS)):
                job = f"j{turn}"
                with jobs.StagedWriter(db_path, job) as writer:
                    writer.append([("a", 1, b"%d" % turn), ("b", 10 + turn, b"")])
                db.rotate(layout=layout)
                jobs.commit(db_path, job, [writer.staged])
            assert [value for _, _, value in rows(db, "a")] == [b"0", b"2", b"3"]
            assert [timestamp for _, timestamp, _ in rows(db, "b")] == [10, 11, 12, 13]
        with opened(db_path) as db:
            assert len(rows(db)) == 7


class TestCare:
    @pytest.fixture
    def mixed(self, db_path: Path) -> Path:
        retention = {"s/#": Retention(layout="skipstream"), "#": None}
        with opened(db_path, retention, shards=2, seal_bytes=2_000, thresholds=[4, 2]) as db:
            for turn in range(4):
                db.append([(f"m/{i % 9}/x", i, b"%d.%d" % (turn, i)) for i in range(200)])
                db.append([(f"s/{i % 9}", i, b"%d.%d" % (turn, i)) for i in range(50)])
                if turn < 3:
                    db.rotate("#", layout=LAYOUTS[(turn + 1) % 2])
            db.delete("m/3/x", end=100)
        return db_path

    def stored(self, path: Path) -> list[Row]:
        with topicdb.open(path, mode="r") as db:
            return sorted(rows(db))

    def test_verify_finds_nothing_wrong(self, mixed: Path) -> None:
        report = topicdb.verify(mixed, deep=True)
        assert report.ok and report.problems == []

    def test_damage_is_found_in_each(self, mixed: Path) -> None:
        with opened(mixed) as db:
            db.flush()
        found = 0
        for file in sorted(mixed.glob("shards/*/*.sst")):
            content = file.read_bytes()
            file.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
            found += not topicdb.verify(mixed, deep=True).ok
            file.write_bytes(content)
        assert found > 5
        assert topicdb.verify(mixed, deep=True).ok

    def test_repair_rebuilds_each_in_its_layout(self, mixed: Path) -> None:
        with opened(mixed) as db:
            db.flush()
            before = layouts(db), layouts(db, "s/#")
        expected = self.stored(mixed)
        for manifest in mixed.glob("shards/*/CURRENT"):
            manifest.unlink()
        report = topicdb.repair(mixed)
        assert (len(report.shards), report.lost, report.remaining) == (2, 0, [])
        assert self.stored(mixed) == expected
        with opened(mixed) as db:
            assert (layouts(db), layouts(db, "s/#")) == before
            db.append([("m/1/x", 1, b"new"), ("s/1", 1, b"new")])
            assert rows(db, "s/1", start=1, end=2) == [("s/1", 1, b"new")]
        assert topicdb.verify(mixed, deep=True).ok

    def test_snapshots(self, mixed: Path, tmp_path: Path) -> None:
        with opened(mixed) as db:
            db.snapshot(tmp_path / "first")
            before = sorted(rows(db))
            db.rotate("#", layout="columnar")
            db.append([("m/1/x", 1, b"late")])
            db.snapshot(tmp_path / "second", base=tmp_path / "first")
            wanted = layouts(db)
            after = sorted(rows(db))
        assert self.stored(tmp_path / "first") == before
        topicdb.restore(tmp_path / "second", tmp_path / "restored")
        assert self.stored(tmp_path / "restored") == after
        with opened(tmp_path / "restored") as db:
            assert layouts(db) == wanted
            assert db.retention["s/#"].layout == "skipstream"


class TestKeepLast:
    def test_merged_with_a_log_it_is_a_log(self, db_path: Path) -> None:
        with opened(db_path, {"#": Retention(keep_last=2, rotate="1h")}) as db:
            db.append([("a", 1, b"log 1"), ("a", 1, b"log 2"), ("b", 1, b"b")])
            db.rotate(layout="skipstream")
            db.append([("a", 1, b"state 1")])
            db.maintain(now() + 2 * HOUR)
            assert layouts(db) == ["columnar", "skipstream"]
            assert sorted(v for _, _, v in rows(db)) == [b"b", b"log 2", b"state 1"]
            db.append([("a", 1, b"state 2")])
            assert sorted(v for _, _, v in rows(db, "a")) == [b"log 2", b"state 1", b"state 2"]
            assert newest(db, "a", 1) == b"state 2"
            db.maintain(now() + 9 * HOUR)
            assert [v for _, _, v in rows(db, "a")] == [b"state 1", b"state 2"]
        assert topicdb.verify(db_path, deep=True).ok

    def test_of_states_it_is_a_state(self, db_path: Path) -> None:
        retention = {"#": Retention(keep_last=1, rotate="1h", layout="skipstream")}
        with opened(db_path, retention) as db:
            db.append([("a", 1, b"1"), ("a", 2, b"2")])
            db.maintain(now() + 2 * HOUR)
            assert layouts(db) == ["skipstream"] * 2
            db.append([("a", 2, b"3")])
            assert rows(db) == [("a", 2, b"3")]

"""Tests of retention: classes, their limits and changes; tests give times instead of waiting."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from retained import DAY, HOUR, now, opened, reasons, values
from support import Child, Layout, topic_in_shard, wait_until

import topicdb
from topicdb import Retention, jobs


class TestAge:
    def test_a_message_is_gone_after_its_age_and_one_rotation(
        self, db_path: Path, layout: Layout
    ) -> None:
        """Messages are stored each hour; each is gone 9 hours later, and none is gone before 8."""
        with opened(db_path, {"debug/#": "8h", "kept/#": None}, layout=layout) as db:
            start = now()
            for hour in range(24):
                db.append([("debug/a", hour, b"%d" % hour), ("kept/a", hour, b"kept")])
                db.maintain(start + hour * HOUR + HOUR // 2)
                stored = {int(value) for value in values(db, "debug/#")}
                assert stored >= {h for h in range(hour + 1) if hour - h <= 7}
                assert not stored & {h for h in range(hour + 1) if hour - h >= 9}
            assert db.scan("kept/#").count() == 24

    def test_a_generation_without_messages_goes_on(self, db_path: Path) -> None:
        with opened(db_path, {"#": "8h"}) as db:
            assert db.maintain(now() + 100 * DAY).rotated == 0
            assert len(db.slabs()) == 1

    def test_rotate_says_how_often(self, db_path: Path) -> None:
        with opened(db_path, {"#": Retention("8h", rotate="1s")}) as db:
            db.append([("a", 1, b"")])
            assert db.maintain(now() + 2_000_000).rotated == 1

    def test_a_clock_that_goes_back_drops_nothing(self, db_path: Path) -> None:
        with opened(db_path, {"#": "8h"}) as db:
            db.append([("a", 1, b"1")])
            db.rotate()
            assert db.maintain(now() - 100 * DAY).dropped == []
            assert values(db) == [b"1"]

    def test_one_that_ended_in_the_future_goes_when_those_after_it_do(self, db_path: Path) -> None:
        """Maintenance is given a time ten years ahead, as by a wrong clock."""
        with opened(db_path, {"#": "8d"}) as db:
            db.append([("a", 1, b"1")])
            assert db.maintain(now() + 3_650 * DAY).rotated == 1
            db.append([("a", 2, b"2")])
            assert db.maintain().rotated == 1
            assert db.maintain().rotated == 0
            db.append([("a", 3, b"3")])
            assert db.maintain(now() + 7 * DAY).dropped == []
            assert [item.reason for item in db.maintain(now() + 9 * DAY).dropped] == ["age", "age"]
            assert values(db) == [b"3"]

    def test_expire_goes_by_age_alone(self, db_path: Path) -> None:
        with opened(db_path, {"a": "8h", "b": Retention(bytes=1)}) as db:
            db.append([("a", 1, b"a"), ("b", 1, b"b")])
            db.rotate()
            assert [slab.retention_class for slab in db.expire(now() + 9 * HOUR)] == ["a"]
            assert reasons(db.maintain(now() + 9 * HOUR).dropped) == [("b", "bytes")]


class TestBytes:
    def test_the_oldest_of_the_class_go(self, db_path: Path, layout: Layout) -> None:
        limit = 1 << 20
        noise = random.Random(1)
        with opened(db_path, {"big/#": Retention(bytes=limit)}, layout=layout, shards=2) as db:
            db.append([("other", 1, bytes(1 << 20))])
            for number in range(40):
                value = number.to_bytes(8, "big") + noise.randbytes(32_000)
                db.append([(f"big/{i}", number, value) for i in range(4)])
                db.flush()
                db.maintain()
            [big] = [usage for usage in db.usage() if usage.retention_class == "big/#"]
            assert big.disk_bytes <= limit + limit // 4
            left = {int.from_bytes(m.value[:8], "big") for m in db.scan("big/#")}
            assert 39 in left and 0 not in left
            assert db.scan("other").count() == 1


class TestQuota:
    def fill(self, db: topicdb.Database) -> None:
        noise = random.Random(1)
        for number in range(30):
            db.append([(f"{i}/t", number, noise.randbytes(65_536)) for i in range(4)])
            db.flush()
            db.maintain()

    def test_the_oldest_of_all_classes_go_before_it_is_reached(self, db_path: Path) -> None:
        quota = 4 << 20
        with opened(db_path, {"1/#": None}, quota_bytes=quota, quota_trim=0.5) as db:
            self.fill(db)  # 7.5 MiB
            assert sum(usage.disk_bytes for usage in db.usage()) <= quota * 0.6
            for filter in ("0/t", "1/t"):
                stored = {message.timestamp for message in db.scan(filter)}
                assert 29 in stored and 0 not in stored

    def test_or_none_go(self, db_path: Path) -> None:
        with opened(db_path, quota_bytes=1 << 40, quota_trim=None) as db:
            self.fill(db)
            assert len(db.slabs()) == 1

    @pytest.mark.parametrize("trim", [-0.1, 1.1])
    def test_parts_that_are_none(self, db_path: Path, trim: float) -> None:
        with pytest.raises(ValueError, match="quota_trim"):
            opened(db_path, quota_trim=trim)


class TestChanges:
    def test_new_ages_hold_for_what_is_stored(self, db_path: Path) -> None:
        with opened(db_path, {"a": "1h", "b": "10d"}) as db:
            db.append([("a", 1, b"a"), ("b", 1, b"b")])
            db.rotate()
            db.set_retention({"a": None, "b": "1h"})
            assert reasons(db.maintain(now() + 2 * HOUR).dropped) == [("b", "age")]
            assert values(db) == [b"a"]

    def test_a_topic_that_moves_to_another_class(self, db_path: Path, layout: Layout) -> None:
        """All messages are found before and after each change, also when a class comes back."""
        with opened(db_path, {"a/#": "1d"}, layout=layout, shards=2) as db:
            sent = []
            for number, classes in enumerate([None, {"a/x": "2d"}, {"+/x": "3d"}, {"a/#": "4d"}]):
                if classes is not None:
                    db.set_retention(classes)
                rows = [(f"a/{word}", number, b"%d" % number) for word in "xyz"]
                db.append(rows)
                sent += rows
                assert sorted(db.scan("#")) == sorted(sent)
                assert sorted(db.scan("a/x")) == sorted(row for row in sent if row[0] == "a/x")
            assert db.retention == {"a/#": Retention(timedelta(days=4))}
        with opened(db_path, mode="r") as db:
            assert sorted(db.scan("#")) == sorted(sent)
            assert db.retention == {"a/#": Retention(timedelta(days=4))}

    def test_a_retired_class_goes_when_all_that_may_have_its_topics_are_done(
        self, db_path: Path
    ) -> None:
        with opened(db_path, {"a/#": "1h", "#": "1d"}) as db:
            db.append([("a/1", 1, b"a")])
            db.rotate()
            db.set_retention({"a/1": "10h", "#": "2d"})
            assert db.maintain(now() + 47 * HOUR).dropped == []
            assert ("a/#", "age") in reasons(db.maintain(now() + 49 * HOUR).dropped)

    def test_the_generation_of_a_retired_class_ends(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": "1h", "#": "1h"}) as db:
            db.append([("a/1", 1, b"a")])
            db.set_retention({"#": "1h"})
            done = db.maintain(now() + HOUR // 2)
            assert (done.rotated, done.dropped) == (0, [])
            assert reasons(db.maintain(now() + 2 * HOUR).dropped) == [("a/#", "age")]

    def test_transactions_find_what_moved(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": None}, layout="skipstream") as db:
            db.append([("a/1", 0, b"old")])
            for classes, value in ([{"a/1": None}, b"new"], [{"a/#": None}, b"newer"]):
                db.set_retention(classes)
                with db.transaction(key="a/1") as tx:
                    assert tx.get("a/1", 0) is not None
                    tx.require("a/1", 0, tx.get("a/1", 0))
                    tx.write("a/1", 0, value)
            with db.transaction(key="a/1") as tx:
                assert tx.get("a/1", 0) == b"newer"

    def test_a_job_that_was_staged_before(self, db_path: Path, layout: Layout) -> None:
        with opened(db_path, {"a/#": None}, layout=layout) as db:
            with jobs.StagedWriter(db_path, "j") as writer:
                writer.append([("a/1", 1, b"staged"), ("b", 1, b"b")])
            db.set_retention({"b": None})
            assert jobs.commit(db_path, "j", [writer.staged]).messages == 2
            assert values(db) == [b"b", b"staged"]
            db.append([("a/1", 2, b"later"), ("b", 2, b"b2")])
            assert values(db) == [b"b", b"b2", b"later", b"staged"]
            assert {s.retention_class for s in db.streams("a/1")} == {"a/#", "#"}

    def test_shards_follow_when_they_are_next_opened(self, db_path: Path) -> None:
        """The process ended after the change was stored and before the first shard followed."""
        opened(db_path, {"a/#": None}, shards=2).close()
        with opened(db_path) as db:
            db.set_retention({"b/#": None})
        changed = (db_path / "retention").read_bytes()
        other = db_path.parent / "other.db"
        opened(other, {"a/#": None}, shards=2).close()
        (other / "retention").write_bytes(changed)
        with opened(other, mode="r") as db:
            assert list(db.retention) == ["b/#"]
        with opened(other) as db:
            db.append([("b/1", 1, b"1")])
            assert [s.retention_class for s in db.streams("b/1")] == ["b/#"]

    def test_readers_elsewhere(self, db_path: Path) -> None:
        with opened(db_path) as db, opened(db_path, mode="r") as reader:
            db.set_retention({"a/#": "1d"})
            db.append([("a/1", 1, b"1")])
            reader.refresh()
            assert values(reader, "a/+") == [b"1"]
            assert list(reader.retention) == ["a/#"]

    def test_it_survives_a_kill(self, db_path: Path) -> None:
        code = """
            import sys, topicdb
            db = topicdb.open(sys.argv[1], shards=2)
            db.set_retention({"a/#": "1d", "#": None})
            db.append([("a/1", 1, b"1")])
            print("done")
            input()
        """
        with Child(code, db_path) as child:
            child.expect("done")
            child.kill()
        with opened(db_path, {"a/#": "1d"}) as db:
            assert values(db) == [b"1"]

    def test_all_shards_have_to_be_open(self, db_path: Path) -> None:
        opened(db_path, shards=2).close()
        with opened(db_path, only_shards=[0]) as db:
            with pytest.raises(topicdb.ReadOnlyError, match="only_shards"):
                db.set_retention({"a": None})
            assert db.retention == {}
        with opened(db_path, mode="r") as db, pytest.raises(topicdb.ReadOnlyError):
            db.set_retention({"a": None})


class TestBadClasses:
    @pytest.mark.parametrize(
        ("retention", "says"),
        [
            ({"a/#": "7 days"}, "neither an age nor a size"),
            ({"a/#": "30"}, "'30' has no unit; write an age"),
            ({"a/#": Retention(bytes="30")}, "bytes: '30' has no unit"),
            ({"a/#": "1h,2h"}, "age is given twice"),
            ({"a/#": "0s"}, "more than zero"),
            ({"a/#": Retention(bytes=0)}, "bytes must be at least 1"),
            ({"a/#": Retention("1d", rotate="soon")}, "rotate: 'soon'"),
            ({"a/#": None, "a/b": "1d"}, "'a/#' takes every topic of 'a/b'"),
            ({"#": None, "a": "1d"}, "put '#' last"),
            ({"a#": None}, "wildcard must be a whole level"),
        ],
    )
    def test_are_refused(self, db_path: Path, retention: Any, says: str) -> None:
        with pytest.raises(topicdb.SchemaError, match="retention") as error:
            opened(db_path, retention)
        assert says in str(error.value)
        assert not db_path.exists()
        with opened(db_path, {"x": "1d"}) as db:
            with pytest.raises(topicdb.SchemaError) as error:
                db.set_retention(retention)
            assert says in str(error.value)
            assert list(db.retention) == ["x"]

    def test_as_text(self, db_path: Path) -> None:
        with opened(db_path, {"a": "1h, 10GiB ,rotate:10m,last:5", "b": "keep", "#": "1MB"}) as db:
            minutes = timedelta(minutes=10)
            assert db.retention == {
                "a": Retention(timedelta(hours=1), 10 << 30, minutes, 5),
                "b": Retention(),
                "#": Retention(bytes=1_000_000),
            }
            db.set_retention({"#": Retention(bytes="2MB")})
            assert db.retention == {"#": Retention(bytes=2_000_000)}

    def test_changing_them_says_what_goes(self, db_path: Path) -> None:
        with opened(db_path) as db:
            for generation in range(3):
                db.append([(f"a/{i}", i, b"x" * 100) for i in range(100 + generation)])
                db.rotate()
            db.append([("a", 1, b"current")])
            db.flush()
            before = db.retention
            foreseen = db.set_retention({"#": "1B"}, dry_run=True)
            assert (foreseen.rotated, foreseen.kept) == (1, 0)
            sizes = [(item.slab.messages, item.reason) for item in foreseen.dropped]
            assert sizes == [(100, "bytes"), (101, "bytes"), (102, "bytes"), (1, "bytes")]
            assert all(item.disk_bytes > 0 for item in foreseen.dropped)
            assert (db.retention, db.scan().count()) == (before, 304)
            assert db.set_retention({"#": "30d"}).dropped == []
            again = db.set_retention({"#": "1B"})
            assert [(item.slab.messages, item.reason) for item in again.dropped] == sizes
            assert db.scan().count() == 304, "maintenance has them go, nothing else"
            done = db.maintain()
            assert [item.slab.messages for item in done.dropped] == [100, 101, 102, 1]

    def test_opening_with_others(self, db_path: Path) -> None:
        opened(db_path, {"x": Retention("1d", bytes=5)}).close()
        opened(db_path, {"x": Retention("1d", bytes=5), "#": None}).close()
        with pytest.raises(topicdb.SchemaError, match="set_retention changes it"):
            opened(db_path, {"x": "1d"})

    def test_a_damaged_file(self, db_path: Path) -> None:
        opened(db_path, {"x": Retention(bytes=5)}).close()
        file = db_path / "retention"
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(topicdb.CorruptionError, match="retention"):
            opened(db_path)


class TestTrim:
    def test_whole_slabs_and_single_messages(self, db_path: Path, layout: Layout) -> None:
        with opened(db_path, layout=layout) as db:
            db.append([("a", t, b"%d" % t) for t in range(10)])
            db.rotate()
            db.append([("a", t, b"%d" % t) for t in range(5, 15)])
            would = db.trim(12)
            assert ([s.generation for s in would.slabs], would.messages) == ([1], 7)
            # Skipstream keeps one message per topic and time.
            assert db.scan().count() == (20 if layout == "columnar" else 15)
            assert db.trim(12, dry_run=False) == would
            assert [m.timestamp for m in db.scan()] == [12, 13, 14]

    def test_of_a_filter(self, db_path: Path, layout: Layout) -> None:
        with opened(db_path, layout=layout) as db:
            db.append([("a/1", 1, b""), ("a/2", 9, b""), ("b", 1, b""), ("$SYS/x", 1, b"")])
            db.rotate()
            assert db.trim(5, "a/#").messages == 1
            assert db.trim(5, "a/#", dry_run=False).slabs == []
            assert sorted(m.topic for m in db.scan("#")) == ["a/2", "b"]
            assert db.trim("1d", "$SYS/#", dry_run=False).messages == 1

    def test_ages(self, db_path: Path) -> None:
        with opened(db_path) as db:
            db.append([("a", now() - 2 * DAY, b""), ("a", now(), b"")])
            assert db.trim("1d").messages == db.trim(timedelta(days=1)).messages == 1
            assert db.trim("-1d").messages == 1
            assert db.trim("3d").messages == 0


class TestUsage:
    def test_by_class_and_by_generation(self, db_path: Path) -> None:
        with opened(db_path, {"a/#": "1d"}, shards=2) as db:
            topics = [topic_in_shard(shard, 2, "a") for shard in (0, 1)]
            db.append([(topic, 5, b"12345") for topic in topics])
            db.rotate()
            db.append([(topics[0], 7, b"1")])
            [a, rest] = db.usage()
            assert (a.retention_class, a.generation, a.messages) == ("a/#", 0, 3)
            assert a.bytes == sum(len(topic) + 5 for topic in topics) + len(topics[0]) + 1
            assert (a.first_timestamp, a.last_timestamp) == (5, 7)
            assert (rest.retention_class, rest.messages, rest.first_timestamp) == ("#", 0, None)
            generations = [
                (u.retention_class, u.generation, u.messages) for u in db.usage("generation")
            ]
            assert ("a/#", 1, 2) in generations and ("a/#", 2, 1) in generations
            with pytest.raises(ValueError, match="by"):
                db.usage("topic")

    def test_the_forecast(self, db_path: Path) -> None:
        with opened(db_path, quota_bytes=100 << 20) as db:
            db.append([("a", 1, bytes(1 << 20))])
            seen = db.forecast(now() + 10 * DAY)
            assert seen.disk_bytes >= 1 << 20
            assert seen.bytes_per_day == pytest.approx(seen.disk_bytes / 10, rel=0.01)
            left = ((100 << 20) - seen.disk_bytes) / seen.bytes_per_day
            assert seen.days_left == pytest.approx(left)
        with opened(db_path) as db:
            assert db.forecast().days_left is None


def test_the_thread_does_it(db_path: Path) -> None:
    retention = {"#": Retention("100ms", rotate="10ms")}
    with opened(db_path, retention, maintenance_interval="10ms") as db:
        db.append([("a", 1, b"")])
        wait_until(lambda: db.stats()["maintenance"]["dropped_messages"] >= 1)
        seen = db.stats()["maintenance"]
        assert seen["rotated"] >= 1 and seen["error"] == ""
        assert db.scan().count() == 0


def test_a_reader_has_no_thread_and_may_not(db_path: Path) -> None:
    opened(db_path).close()
    with opened(db_path, mode="r", maintenance_interval="10ms") as db:
        for use in (db.maintain, db.expire, lambda: db.trim(1)):
            with pytest.raises(topicdb.ReadOnlyError):
                use()
        assert db.stats()["maintenance"]["runs"] == 0

"""A watch gives each new stream once, when its first message can be read."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Layout

import topicdb
from topicdb import Retention

THREADS = 4
TOPICS = 300


def structures(watch: topicdb.StreamWatch) -> list[str]:
    return [stream.structure for stream in watch.next_streams()]


class TestNotice:
    def test_each_new_stream_once(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, layout=layout, structures=["m/+/cpu"]) as db:
            db.append([("m/h1/cpu", 1, b"")])
            watch = db.watch_streams("m/#", timeout=0)
            assert structures(watch) == []
            db.append([("m/h2/cpu", 1, b""), ("m/h2/mem", 1, b""), ("other", 1, b"")])
            (stream,) = watch.next_streams()
            assert stream in db.streams("m/#")
            assert stream.structure == "m/+/mem"
            db.append([("m/h2/cpu", 2, b""), ("m/h3/mem", 2, b"")])
            assert structures(watch) == []

    def test_existing_ones_first(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, layout=layout, shards=2) as db:
            db.append([(f"t/{i}", 1, b"") for i in range(20)])
            watch = db.watch_streams(existing=True, timeout=0)
            found = watch.next_streams()
            assert len(found) == len(set(found)) == 20
            assert set(found) == set(db.streams("#"))
            assert list(watch) == []

    def test_a_generation_has_its_own(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, layout=layout, retention={"a": None}) as db:
            db.append([("a", 1, b""), ("b", 1, b"")])
            watch = db.watch_streams(timeout=0)
            db.rotate()
            assert list(watch) == []
            db.append([("a", 2, b""), ("b", 2, b"")])
            found = list(watch)
            assert {(s.retention_class, s.generation) for s in found} == {("a", 2), ("#", 2)}

    def test_what_is_kept_of_generations(self, db_path: Path) -> None:
        retention = {"#": Retention(keep_last=1)}
        with topicdb.open(db_path, retention=retention, maintenance_interval=None) as db:
            db.append([("a", 1, b"")])
            watch = db.watch_streams(timeout=0)
            db.rotate()
            db.maintain()
            (stream,) = watch
            assert (stream.structure, stream.generation) == ("a", 2)
            for slab in db.slabs():
                if slab.read_only:
                    db.drop_slab(slab)
            assert list(watch) == []

    def test_system_topics_only_by_name(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db:
            everything, system = db.watch_streams("#", timeout=0), db.watch_streams("$SYS/#")
            db.append([("$SYS/up", 1, b"")])
            assert list(everything) == []
            assert structures(system) == ["$SYS/up"]

    def test_structures_that_only_seem_to_match(self, db_path: Path) -> None:
        with topicdb.open(db_path, structures=["m/+/cpu"]) as db:
            watch = db.watch_streams("m/h1/mem", timeout=0)
            db.append([("m/h1/cpu", 1, b"")])
            assert list(watch) == []

    def test_maps_are_no_streams_of_users(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db, db.watch_streams(timeout=0) as watch:
            with db.map("state") as stored:
                stored["key"] = b"value"
                stored.commit()
            assert list(watch) == []


class TestWaiting:
    def test_it_wakes_on_a_commit(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db:
            watch = db.watch_streams()
            timer = threading.Timer(0.1, lambda: db.append([("a", 1, b"x")]))
            timer.start()
            (stream,) = watch.next_streams()
            page = db.next(db.iterator(stream), 10)
            assert [message.value for message in page.batch] == [b"x"]
            timer.join()

    def test_a_timeout_ends_it(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db:
            assert list(db.watch_streams(timeout=0.05)) == []

    @pytest.mark.parametrize("what", ["watch", "database"])
    def test_closing_ends_it(self, db_path: Path, what: str) -> None:
        db = topicdb.open(db_path)
        watch = db.watch_streams()
        timer = threading.Timer(0.1, watch.close if what == "watch" else db.close)
        timer.start()
        with pytest.raises(topicdb.ClosedError, match="closed"):
            watch.next_streams()
        timer.join()
        watch.close()
        db.close()

    def test_a_bad_filter(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db, pytest.raises(topicdb.TopicError, match="a/#/b"):
            db.watch_streams("a/#/b")

    def test_a_reader_sees_those_of_a_writer(self, db_path: Path) -> None:
        topicdb.open(db_path).close()
        with topicdb.open(db_path, mode="r") as db:
            watch = db.watch_streams(timeout=PATIENCE_S)
            with topicdb.open(db_path) as writer:
                writer.append([("a", 1, b"")])
                assert structures(watch) == ["a"]


def test_with_many_writers_no_stream_is_missed_and_each_can_be_read(
    db_path: Path, layout: Layout
) -> None:
    """When a watch gives a stream, at least one message of the stream can be read."""
    options: dict[str, Any] = {"layout": layout, "shards": 2, "thresholds": (1_000, 1_000)}
    with topicdb.open(db_path, **options) as db:
        watch = db.watch_streams("t/#", timeout=0.2)

        def write(seed: int) -> None:
            rng = random.Random(seed)
            topics = [f"t/{seed}/{i}" for i in range(TOPICS // THREADS)]
            rng.shuffle(topics)
            for at, topic in enumerate(topics):
                db.append([(topic, at, b"first")])
                if at % 30 == 10:
                    db.rotate()

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        found: list[topicdb.Stream] = []

        def take() -> bool:
            streams = watch.next_streams()
            for stream in streams:
                assert len(db.next(db.iterator(stream), 10).batch) >= 1, "told of too early"
            found.extend(streams)
            return bool(streams)

        while any(thread.is_alive() for thread in threads):
            take()
        for thread in threads:
            thread.join()
        while len(found) < len(db.streams("t/#")) or take():
            take()
        assert len(set(found)) == len(found)
        assert set(found) == set(db.streams("t/#"))
        assert len({stream.generation for stream in found}) > 1

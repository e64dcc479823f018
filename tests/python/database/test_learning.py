"""Tests of adaptive learning of structures: budgets, rotation, hints; no message is lost by it."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Layout

import topicdb
from topicdb import SchemaError

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from workloads import trees

BUDGET = 4_096
LEARNING: tuple[Literal["base", "adaptive"], ...] = ("base", "adaptive")
WORDS = st.sampled_from(["a", "b", "x1", "x2", "x3", "kitchen", "hall", "$s", "", "é7"])
TOPICS = st.lists(WORDS, min_size=1, max_size=6).map("/".join).filter(bool)
FILTERS = st.one_of(
    TOPICS,
    st.lists(st.one_of(WORDS, st.just("+")), min_size=1, max_size=6).map("/".join).filter(bool),
    st.lists(st.one_of(WORDS, st.just("+")), max_size=4).map(lambda words: "/".join([*words, "#"])),
)


@settings(max_examples=60, deadline=None)
@given(
    generations=st.lists(st.lists(TOPICS, max_size=60), min_size=1, max_size=3),
    filters=st.lists(FILTERS, min_size=1, max_size=8),
    layout=st.sampled_from(["columnar", "skipstream"]),
    streams_max=st.sampled_from([16, 40, BUDGET]),
    thresholds=st.sampled_from([[100, 10], [2, 1], [0]]),
)
def test_every_filter_finds_what_matches(
    tmp_path_factory: pytest.TempPathFactory,
    generations: list[list[str]],
    filters: list[str],
    layout: Layout,
    streams_max: int,
    thresholds: list[int],
) -> None:
    path = tmp_path_factory.mktemp("structures") / "db"
    stored: list[tuple[int, str]] = []
    with topicdb.open(
        path, layout=layout, streams_max=streams_max, thresholds=thresholds, seal_bytes=1
    ) as db:
        for number, topics in enumerate(generations):
            if number:
                db.rotate()
            for topic in topics:
                stored.append((len(stored), topic))
                db.append([(topic, stored[-1][0], b"%d" % stored[-1][0])])
        if stored[1::2]:
            db.flush()
        assert all(slab.streams <= streams_max for slab in db.slabs())
    with topicdb.open(path, mode="r", streams_max=16) as db:
        for text in filters:
            expected = [(t, topic) for t, topic in stored if topicdb.topic_matches(text, topic)]
            assert [(m.timestamp, m.topic) for m in db.scan(text, order="time")] == expected
            in_streams = [
                (m.timestamp, m.topic)
                for stream in db.streams(text)
                for m in db.next(db.iterator(stream, text), rows=1_000).batch
            ]
            assert sorted(in_streams) == expected
        for _, topic in stored[:5]:
            streams = [s for s in db.streams(topic) if db.scan(topic, streams=[s]).count()]
            assert len({s.generation for s in streams}) == len(streams), "one in a generation"


@pytest.mark.parametrize("name", trees.MAKERS)
@pytest.mark.parametrize("order", ["device", "random"])
def test_one_rotation_finds_the_templates(tmp_path: Path, name: str, order: str) -> None:
    tree = trees.make(name)
    topics = tree.topics if order == "device" else tree.shuffled()
    with topicdb.open(tmp_path / "db", streams_max=BUDGET) as db:
        for _ in range(2):
            for begin in range(0, len(topics), 10_000):
                db.append([(topic, None, b"") for topic in topics[begin : begin + 10_000]])
            assert max(slab.streams for slab in db.slabs()) <= BUDGET
            db.rotate()
        after = [stream for stream in db.streams() if stream.generation == 2]
        assert len(after) <= 1.5 * len(tree.templates)
        for topic in random.Random(name).sample(topics, 20):
            assert db.scan(topic).count() == 2
            assert len(db.streams(topic)) >= 2


@pytest.mark.parametrize("name", ["sparkplug", "isa95", "factory"])
def test_with_the_templates_as_hints_there_is_nothing_to_learn(tmp_path: Path, name: str) -> None:
    tree = trees.make(name)
    with topicdb.open(tmp_path / "db", structures=tree.templates) as db:
        for _ in range(2):
            db.append([(topic, None, b"") for topic in tree.shuffled()])
            assert len(db.structures()) <= len(tree.templates)
            db.rotate()


def test_an_adversary_may_not_exceed_the_budget(tmp_path: Path, layout: Layout) -> None:
    chance = random.Random(1)
    with topicdb.open(tmp_path / "db", layout=layout, streams_max=64) as db:
        topics = [
            "/".join(chance.choice("abcdefgh") * chance.randint(1, 9) for _ in range(levels))
            for levels in range(1, 200)
            for _ in range(30)
        ]
        db.append([(topic, i, b"") for i, topic in enumerate(topics)])
        [slab] = db.slabs()
        assert slab.streams <= 64
        assert db.stats()["shards"][0]["structure_bytes"] < 1 << 20
        assert "#" in db.structures()
        for topic in chance.sample(topics, 50):
            assert topic in {message.topic for message in db.scan(topic)}
        deep = max(topics, key=len)
        assert [m.topic for m in db.scan(deep)] == [deep]
        db.rotate()
        db.append([("later/1", 1, b"")])
        assert [m.topic for m in db.scan("later/+")] == ["later/1"]


def test_the_base_algorithm_is_still_there(tmp_path: Path) -> None:
    topics = [f"a/x{i}/{j}" for i in range(5) for j in range(20)]
    found = {}
    for learning in LEARNING:
        with topicdb.open(tmp_path / learning, learning=learning) as db:
            db.append([(topic, 1, b"") for topic in topics])
            found[learning] = len(db.structures())
    assert found == {"base": 5 * 11, "adaptive": 2 * 11 + 3}


@pytest.mark.parametrize(
    "hints", [["a/+", "a/+"], ["a/#", "a/b"], ["a/+/c", "#"], ["a/+/#", "a/+/+/b/+"]]
)
def test_contradictory_hints_are_refused(tmp_path: Path, hints: list[str]) -> None:
    with pytest.raises(SchemaError, match=r"structures: '(a/|#)"):
        topicdb.open(tmp_path / "db", structures=hints)
    assert not (tmp_path / "db").exists()
    topicdb.open(tmp_path / "db", structures=["a/#", "a/+/+", "b/c"]).close()


@pytest.mark.parametrize(
    "options", [{"structures": ["a/+/#/b"]}, {"structures": ["a+"]}, {"structures": [""]}]
)
def test_malformed_hints_are_refused(tmp_path: Path, options: dict[str, list[str]]) -> None:
    with pytest.raises(SchemaError, match="structures"):
        topicdb.open(tmp_path / "db", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "db").exists()


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="streams_max"):
        topicdb.open(tmp_path / "db", streams_max=15)
    with pytest.raises(ValueError, match="learning"):
        topicdb.open(tmp_path / "db", learning="best")  # type: ignore[arg-type]

"""Reads that must see commits: what they take, and what each of them does."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from served import serving

import topicdb
import topicdb.duckdb
import topicdb.polars
from topicdb.types import AtLeastLike

Read = Callable[[topicdb.Database, "AtLeastLike | None"], object]


def stepped(db: topicdb.Database, at_least: AtLeastLike | None) -> object:
    page = db.next(db.scan_iterator("m/#"), at_least=at_least)
    return page.batch.values, page.end_of_scan


def next_of_stream(db: topicdb.Database, at_least: AtLeastLike | None) -> object:
    (stream, *_) = db.streams("m/#")
    page = db.next(db.iterator(stream, "m/#"), at_least=at_least)
    return page.batch.values, page.end_of_stream


def exported(db: topicdb.Database, at_least: AtLeastLike | None) -> object:
    with tempfile.TemporaryDirectory() as place:
        return db.export_parquet(f"{place}/m.parquet", "m/#", at_least=at_least).messages


def subscribed(db: topicdb.Database, at_least: AtLeastLike | None) -> None:
    db.subscribe("m/#", at_least=at_least).close()


READS: dict[str, Read] = {
    "scan": lambda db, it: db.scan("m/#", at_least=it).to_list(),
    "count": lambda db, it: db.scan("m/#", at_least=it).count(),
    "arrow": lambda db, it: db.scan("m/#", order="time", at_least=it).to_arrow(),
    "last": lambda db, it: db.last("m/#", at_least=it).to_list(),
    "state_at": lambda db, it: db.state_at(100, "m/#", at_least=it).to_list(),
    "slices": lambda db, it: db.slices("m/#", at_least=it),
    "scan_slices": lambda db, it: db.scan_slices(db.slices(), "m/#", at_least=it).to_list(),
    "summarize": lambda db, it: db.summarize("m/#", at_least=it),
    "explain": lambda db, it: db.explain("m/#", at_least=it),
    "streams": lambda db, it: db.streams("m/#", at_least=it),
    "structures": lambda db, it: db.structures("m/#", at_least=it),
    "scan_iterator": lambda db, it: db.scan_iterator("m/#", at_least=it),
    "iterator": lambda db, it: bytes(db.iterator(db.streams("m/#")[0], "m/#", at_least=it)),
    "next": next_of_stream,
    "next_of_scan": stepped,
    "export_parquet": exported,
    "polars": lambda db, it: topicdb.polars.scan(db, "m/#", at_least=it).collect(),
    "duckdb": lambda db, it: topicdb.duckdb.scan(db, "m/#", at_least=it).to_table(),
    "watch_streams": lambda db, it: db.watch_streams("m/#", at_least=it).close(),
    "tail": lambda db, it: db.tail("m/#", timeout=0, at_least=it).close(),
    "subscribe": subscribed,
}
"""Every read that takes ``at_least``."""


@pytest.fixture(params=["local", "served"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with topicdb.open(tmp_path / "db", shards=2) as local:
        local.append([(f"m/{n}", n, b"%d" % n) for n in range(20)])
        if request.param == "local":
            yield local
            return
        with serving(local) as server, topicdb.connect(server.url) as remote:
            yield remote


def beyond(db: topicdb.Database) -> dict[int, int]:
    """Returns a commit that nobody makes."""
    return {shard["shard"]: shard["serial"] + 1_000 for shard in db.stats()["shards"]}


@pytest.mark.parametrize("name", READS)
def test_a_read_sees_what_is_there_already(db: topicdb.Database, name: str) -> None:
    receipt = db.append([("m/x", 50, b"x"), ("m/y", 50, b"y")])
    everything = {shard["shard"]: shard["serial"] for shard in db.stats()["shards"]}
    wanted = READS[name](db, None)
    for seen in (receipt, receipt.serials, everything, {}, "acknowledged"):
        for timeout in (10.0, 0, timedelta(seconds=5)):
            found = READS[name](db, topicdb.AtLeast(seen, timeout))
            assert str(found) == str(wanted)
    assert str(READS[name](db, receipt)) == str(wanted)


@pytest.mark.parametrize("name", READS)
def test_a_commit_that_does_not_come_is_told(db: topicdb.Database, name: str) -> None:
    with pytest.raises(topicdb.StaleError, match="has not come to commit"):
        READS[name](db, topicdb.AtLeast(beyond(db), timeout=0.01))
    READS[name](db, None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({2: 1}, "at_least: there is no shard 2, only 0 to 1"),
        ({-1: 1}, "there is no shard -1"),
        ({"0": 1}, "there is no shard '0'"),
        ({0: -1}, "shard 0: expected a serial, got -1"),
        ({0: 1 << 64}, "expected a serial"),
        ({0: 1.5}, "expected a serial, got 1.5"),
        (topicdb.AtLeast({0: 1}, timeout=-1), "at_least: timeout: expected seconds"),
        (topicdb.AtLeast({0: 1}, timeout=None), "at_least: timeout: expected"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_is_refused_at_once(db: topicdb.Database, wrong: Any, message: str) -> None:
    for read in READS.values():
        with pytest.raises(ValueError, match=message):
            read(db, wrong)


@pytest.mark.parametrize("wrong", ["linearizable", 7, [0, 1], b"acknowledged"])
def test_what_is_no_commit_is_a_type_error(db: topicdb.Database, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"at_least: expected Receipt, .* or 'acknowledged'"):
        db.scan("m/#", at_least=wrong)


def test_a_read_waits_for_a_commit(db: topicdb.Database) -> None:
    topic = "m/0"
    shard, serial = next(iter(db.append([(topic, 50, b"")]).serials.items()))
    found: list[int] = []

    def read(n: int) -> None:
        later = topicdb.AtLeast({shard: serial + n}, timeout=200)
        found.append(db.scan(topic, at_least=later).count() - n)

    threads = [threading.Thread(target=read, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for n in range(3):
        db.append([(topic, 51 + n, b"")])
    for thread in threads:
        thread.join()
    assert len(found) == 3 and min(found) >= 2, found


def test_a_handle_that_only_reads_sees_what_another_has_written(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with topicdb.open(path) as writer:
        writer.append([("m", 1, b"1")])
        with topicdb.open(path, mode="r") as reader:
            receipt = writer.append([("m", 2, b"2")])
            assert reader.scan("m").count() == 1
            assert reader.scan("m", at_least=receipt).count() == 2
            writer.append([("m", 3, b"3")])
            assert reader.scan("m", at_least="acknowledged").count() == 3


def test_a_scan_says_what_it_must_see(db: topicdb.Database) -> None:
    assert "at_least='acknowledged'" in repr(db.scan("m/#", at_least="acknowledged"))
    assert "at_least" not in repr(db.scan("m/#"))


def test_a_closed_database_says_so(db: topicdb.Database) -> None:
    scan = db.scan("m/#", at_least="acknowledged")
    db.close()
    with pytest.raises(topicdb.ClosedError):
        scan.to_list()

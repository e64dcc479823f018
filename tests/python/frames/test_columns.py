"""Tests of reads of some columns, which leave values on the disk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from envelopes import ROWS
from support import LAYOUTS

import topicdb
from sealing import wait_for_sealing

KEYS = ["topic", "timestamp"]
VALUE = b"a value that takes much more room than its topic " * 4


def fill(db: topicdb.Database) -> None:
    """Fills two generations: sealed blocks, fresh ones, deleted messages, an empty value."""
    for generation in range(2):
        for commit in range(6):
            first = 1_000 * generation + 100 * commit
            rows = [(f"m/{i % 7}/x", first + i, b"%d" % i + VALUE) for i in range(60)]
            db.append([*rows, ("m/empty", first, b"")])
        wait_for_sealing(db)
        db.delete("m/3/x", end=450)
        if generation == 0:
            db.rotate()
    wait_for_sealing(db)
    db.append([("m/1/x", 9_000, b"fresh")])


@pytest.fixture(scope="module", params=LAYOUTS)
def db(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[topicdb.Database]:
    path = tmp_path_factory.mktemp("columns") / "db"
    with topicdb.open(path, layout=request.param, shards=2, seal_bytes=9_000) as db:
        fill(db)
        yield db


def scans(db: topicdb.Database, **options: Any) -> list[topicdb.Scan]:
    slices = db.slices("m/#")
    return [
        db.scan("m/#", **options),
        db.scan("m/#", order="time", **options),
        db.scan("m/#", order="none", **options),
        db.scan(["m/1/x", "m/+/x", "m/empty"], start=200, end=1_300, **options),
        db.scan("m/#", streams=db.streams("m/#"), **options),
        db.scan_slices(slices, "m/#", **options),
        db.scan_slices(slices, ["m/2/x", "m/+/x"], **options),
    ]


def in_order(table: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in table.column_names]
    return table.sort_by(order) if order else table


@pytest.mark.parametrize("columns", [KEYS, ["timestamp"], ["value"], ["value", "topic"], []])
def test_arrow_data_has_the_columns_that_were_chosen(
    db: topicdb.Database, columns: list[str]
) -> None:
    for some, whole in zip(scans(db, columns=columns), scans(db), strict=True):
        everything = whole.to_arrow()
        kept = [name for name in everything.column_names if name in columns]
        found = some.to_arrow()
        assert found.column_names == kept
        assert found.num_rows == everything.num_rows > 300
        assert pa.schema(some).names == kept
        assert in_order(found).equals(in_order(everything.select(kept)))
        streamed = pa.RecordBatchReader.from_stream(some).read_all()
        assert in_order(streamed).equals(in_order(found))


def test_messages_have_empty_values_without_their_column(db: topicdb.Database) -> None:
    for some, whole in zip(scans(db, columns=KEYS), scans(db), strict=True):
        wanted = sorted((m.topic, m.timestamp, b"") for m in whole)
        assert sorted(some) == wanted
        assert {value for batch in some.batches() for value in batch.values} == {b""}
        assert some.count() == len(wanted) == whole.count()
        assert len(some.head(7)) == 7
    with_serials = list(db.scan("m/#", columns=KEYS).batches(50, serials=True))
    assert all(batch.serials is not None and (batch.serials > 0).all() for batch in with_serials)


def test_frames_have_the_columns_that_were_chosen(db: topicdb.Database) -> None:
    scan = db.scan("m/#", columns=KEYS)
    assert list(scan.to_pandas().columns) == KEYS
    assert scan.to_polars().columns == KEYS
    assert all(list(row) == KEYS for row in scan.to_pylist())
    assert len(scan.to_pandas()) == len(scan.to_polars()) == scan.count()
    values = db.scan("m/1/x", columns=["value", "timestamp"])
    assert values.to_polars(values="text").columns == ["timestamp", "value"]
    assert list(values.to_pandas(values="text").columns) == ["timestamp", "value"]
    numbers = db.scan("m/#", columns=["value"], start=9_000)
    assert list(numbers.to_pandas(values="json").columns) == ["value"]
    for convert in (scan.to_pandas, scan.to_polars, scan.to_pylist):
        with pytest.raises(ValueError, match="values: 'json' needs the column 'value'"):
            convert(values="json")


def test_bad_columns(db: topicdb.Database) -> None:
    for read in (db.scan, lambda **options: db.scan_slices([], **options)):
        with pytest.raises(ValueError, match="columns: there is no column 'payload'; there are"):
            read(columns=["topic", "payload"])
        with pytest.raises(ValueError, match="columns: 'qos' needs properties=True"):
            read(columns=["topic", "qos"])
        with pytest.raises(TypeError, match="columns: expected a list of str, or None, got str"):
            read(columns="topic")
        with pytest.raises(TypeError, match="columns: expected a list of str"):
            read(columns=[b"topic"])  # type: ignore[list-item]
    assert "columns=['topic']" in repr(db.scan("m/#", columns=["topic"]))


def test_columns_of_properties(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append(ROWS, raw=True)
        whole = db.scan("#", properties=True).to_arrow()
        columns = ["topic", "qos", "user_properties"]
        found = db.scan("#", properties=True, columns=columns).to_arrow()
        assert found.equals(whole.select(columns))
        assert found["qos"].null_count < len(found), "some have properties"
        keys = db.scan("#", properties=True, columns=KEYS)
        assert keys.to_arrow().equals(whole.select(KEYS))
        assert {message.value for message in keys} == {b""}
        assert keys.to_polars().columns == KEYS
        assert list(keys.to_pandas().columns) == KEYS


def bytes_read(
    db: topicdb.Database, scan: topicdb.Scan, read: Callable[[topicdb.Scan], object]
) -> int:
    def total() -> int:
        return sum(int(shard["reads"]["bytes_read"]) for shard in db.stats()["shards"])

    before = total()
    read(scan)
    return total() - before


def test_values_that_nobody_wants_are_not_read(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", maintenance_interval=None) as db:
        noise = random.Random(5)
        rows = [(f"m/{i % 7}/x", i, noise.randbytes(200)) for i in range(3_000)]
        db.append(rows)
        db.flush()
        wait_for_sealing(db)
        slices = db.slices("m/#")
        for whole, keys in (
            (db.scan("m/#"), db.scan("m/#", columns=KEYS)),
            (db.scan("m/#", order="none"), db.scan("m/#", order="none", columns=KEYS)),
            (db.scan_slices(slices), db.scan_slices(slices, columns=KEYS)),
        ):
            everything = bytes_read(db, whole, topicdb.Scan.to_list)
            assert everything > 3_000 * 200
            assert bytes_read(db, keys, topicdb.Scan.to_list) < everything / 10
            assert bytes_read(db, whole, topicdb.Scan.count) < everything / 10


class Plain:
    """An engine that reads all columns."""

    reads_columns = ()

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


def test_an_engine_that_reads_all_columns(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [in_order(scan.to_arrow().select(KEYS)) for scan in scans(db)]
    monkeypatch.setattr(db, "_core", Plain(db._core))
    for scan, expected in zip(scans(db, columns=KEYS), wanted, strict=True):
        assert in_order(scan.to_arrow()).equals(expected)
        streamed = pa.RecordBatchReader.from_stream(scan).read_all()
        assert in_order(streamed).equals(expected)
        assert {message.value for message in scan} == {b""}
        assert scan.count() == len(expected)


def test_a_batch_of_some_columns(db: topicdb.Database) -> None:
    (batch,) = db.scan("m/1/x").batches(100_000)
    keys = batch.select(KEYS)
    assert pa.record_batch(keys).schema.names == KEYS
    assert keys.topics == batch.topics
    assert (keys.timestamps == batch.timestamps).all()
    assert keys.nbytes < batch.nbytes / 3
    assert batch.values[0].endswith(VALUE)
    assert batch.select(["value"]).values == batch.values
    with pytest.raises(ValueError, match="there is no column 'x'"):
        batch.select(["x"])

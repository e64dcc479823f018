"""Tests of Arrow in and out through the C data interface."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars
import pyarrow.compute as pc
import pytest
from support import Layout, run_child

import topicdb
from topicdb import ClosedError, Database

pa = pytest.importorskip("pyarrow")

ROWS = [("a/b", 5, b"one"), ("a/c", 1_700_000_000_000_000, b""), ("é/😀", 0, b"\x00\xff")]
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)


def table(topic: Any = None, timestamp: Any = None, value: Any = None, rows: Any = None) -> Any:
    """Returns ``rows``, by default ROWS, as a table with columns of the types given."""
    topics, timestamps, values = zip(*(rows or ROWS), strict=True)
    return pa.table(
        {
            "topic": pa.array(topics, topic or pa.string()),
            "timestamp": pa.array(timestamps, timestamp or pa.timestamp("us", tz="UTC")),
            "value": pa.array(values, value or pa.binary()),
        }
    )


def stored(db: Database) -> list[Any]:
    return sorted(db.scan("#"))


# In

SOURCES = {
    "table": table(),
    "record_batch": table().to_batches()[0],
    "int64": table(timestamp=pa.int64()),
    "large": table(topic=pa.large_string(), value=pa.large_binary()),
    "chunked": pa.concat_tables([table(rows=ROWS[:1]), table(rows=ROWS[1:])]),
    "empty_chunks": pa.concat_tables([table()[:0], table(), table()[:0]]),
    "other_zone": table(timestamp=pa.timestamp("us", tz="Europe/Berlin")),
    "reordered": table().select(["value", "topic", "timestamp"]),
    "sliced_table": pa.concat_tables([table(), table()])[2:5],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_arrow_is_appended_like_rows(db: Database, source: Any) -> None:
    receipt = db.append(source)
    assert receipt.count == 3
    assert stored(db) == sorted(ROWS)


def test_slices_with_offsets(db: Database) -> None:
    rows = [(f"t/{i}", i, b"%d" % i) for i in range(100)]
    for kinds in ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())):
        whole = table(rows=rows, topic=kinds[0], value=kinds[1]).to_batches()[0]
        for begin, length in ((0, 10), (7, 13), (50, 50), (99, 1), (100, 0)):
            part = whole.slice(begin, length)
            for source in (part, pa.Table.from_batches([part])):
                assert db.append(source).count == length
                assert stored(db) == sorted(rows[begin : begin + length])
                db.delete("#")


def test_a_reader_is_taken_batch_by_batch(db: Database) -> None:
    taken = []

    def batches() -> Iterator[Any]:
        for i in range(20):
            taken.append(i)
            yield table(rows=[(f"t/{i}", i, b"")]).to_batches()[0]

    reader = pa.RecordBatchReader.from_batches(table().schema, batches())
    assert db.append(reader).count == 20
    assert taken == list(range(20))
    assert db.scan("t/+").count() == 20


@pytest.mark.parametrize(("unit", "per_us"), [("s", 1e-6), ("ms", 1e-3), ("us", 1), ("ns", 1_000)])
def test_timestamp_units(db: Database, unit: str, per_us: float) -> None:
    moment_us = 1_700_000_000_000_000
    db.append(
        table(rows=[("a", round(moment_us * per_us), b"")], timestamp=pa.timestamp(unit, "UTC"))
    )
    assert [m.timestamp for m in db.scan()] == [moment_us]


def test_nanoseconds_are_cut_off(db: Database) -> None:
    db.append(table(rows=[("a", 1_999, b"")], timestamp=pa.timestamp("ns", "UTC")))
    assert [m.timestamp for m in db.scan()] == [1]


def test_a_null_timestamp_is_assigned(db: Database) -> None:
    db.append(table(rows=[("a", None, b"1"), ("b", 7, b"2"), ("c", None, b"3")]))
    by_topic = {m.topic: m.timestamp for m in db.scan()}
    assert by_topic["b"] == 7
    assert 1_700_000_000_000_000 < by_topic["a"] < by_topic["c"]


def test_a_missing_timestamp_column_is_assigned(db: Database) -> None:
    db.append(table().drop_columns(["timestamp"]))
    assert all(m.timestamp > 1_700_000_000_000_000 for m in db.scan())


def test_text_values_are_stored_as_utf8(db: Database) -> None:
    data = pa.table({"topic": ["a"], "timestamp": pa.array([1], pa.int64()), "value": ["é"]})
    db.append(data)
    assert [m.value for m in db.scan()] == ["é".encode()]


def test_an_empty_table_writes_nothing(db: Database) -> None:
    receipt = db.append(SCHEMA.empty_table())
    assert (receipt.count, receipt.serials) == (0, {})
    assert db.scan().to_list() == []


TEXTS: dict[str, Callable[[Any], Any]] = {
    "string": lambda column: column,
    "large_string": lambda column: column.cast(pa.large_string()),
    "string_view": lambda column: column.cast(pa.string_view()),
    "dictionary": lambda column: column.dictionary_encode(),
    "dictionary of large": lambda column: column.cast(pa.large_string()).dictionary_encode(),
    "int8 dictionary": lambda column: column.cast(pa.dictionary(pa.int8(), pa.string())),
    "run ends": pc.run_end_encode,
}
BYTES: dict[str, Callable[[Any], Any]] = {
    **TEXTS,
    "binary": lambda column: column.cast(pa.binary()),
    "large_binary": lambda column: column.cast(pa.large_binary()),
    "binary_view": lambda column: column.cast(pa.binary()).cast(pa.binary_view()),
    "fixed size": lambda column: column.cast(pa.binary()).cast(pa.binary(15)),
    "dictionary of binary": lambda column: column.cast(pa.binary()).dictionary_encode(),
    "run ends of binary": lambda column: pc.run_end_encode(column.cast(pa.binary())),
}


@pytest.mark.parametrize("value", BYTES)
@pytest.mark.parametrize("topic", TEXTS)
def test_every_encoding_of_strings_and_binary(db: Database, topic: str, value: str) -> None:
    rows = [(f"t/{i // 3 % 5}", i, f"value number {i // 2 % 7:02}") for i in range(50)]
    columns = {
        "topic": TEXTS[topic](pa.array([row[0] for row in rows])),
        "timestamp": pa.array([row[1] for row in rows], pa.int64()),
        "value": BYTES[value](pa.array([row[2] for row in rows])),
    }
    whole = pa.table(columns)
    for begin, length in ((0, 50), (7, 13), (49, 1), (50, 0)):
        part = whole.slice(begin, length)
        assert db.append(part).count == length
        wanted = [(t, i, v.encode()) for t, i, v in rows[begin : begin + length]]
        assert stored(db) == sorted(wanted)
        db.delete("#")


@pytest.mark.parametrize("encode", ["dictionary_encode", "run_end_encode"])
def test_nulls_of_encodings_are_named_by_row(db: Database, encode: str) -> None:
    column = getattr(pc, encode)(pa.array(["a", None, None, "b"]))
    with pytest.raises(ValueError, match="row 1: value is null"):
        db.append(pa.table({"topic": ["a"] * 4, "value": column}))
    assert db.scan().to_list() == []


def test_polars_data_frames_are_appended(db: Database) -> None:
    moment = datetime(2024, 5, 1, tzinfo=timezone.utc)
    frame = polars.DataFrame(
        {
            "topic": ["a/1", "a/longer than a view holds", "a/1"],
            "timestamp": [moment, moment + timedelta(seconds=1), None],
            "value": [b"1", b"as long as a view does not hold", b""],
        }
    )
    assert db.append(frame).count == 3
    assert [m.value for m in db.scan("a/1")] == [b"1", b""]
    (other,) = db.scan("a/longer than a view holds")
    assert other.value == b"as long as a view does not hold"
    assert other.timestamp == 1_714_521_601_000_000
    text = frame.with_columns(polars.col("topic").cast(polars.Categorical), value=polars.lit("x"))
    db.delete("#")
    assert db.append(text).count == 3
    assert {m.value for m in db.scan()} == {b"x"}


UNSUPPORTED = {
    "binary_topic": table(topic=pa.binary()),
    "int_value": pa.table({"topic": ["a"], "value": [1]}),
    "dictionary_of_ints": pa.table({"topic": ["a"], "value": pa.array([1]).dictionary_encode()}),
    "list_value": pa.table({"topic": ["a"], "value": [[b"x"]]}),
    "dictionary_timestamp": table(timestamp=pa.int64()).set_column(
        1, "timestamp", pa.array([1, 2, 1]).dictionary_encode()
    ),
}


@pytest.mark.parametrize("source", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_other_encodings_are_refused_by_name(db: Database, source: Any) -> None:
    with pytest.raises(ValueError, match=r"column '(topic|timestamp|value)': expected"):
        db.append(source)
    assert db.scan().to_list() == []


def test_a_stream_can_be_taken_once(db: Database) -> None:
    class Once:
        capsule = table().__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return self.capsule

    assert db.append(Once()).count == 3
    assert db.append(Once()).count == 0, "it has been read to its end"


def moved_stream_of(db: Database) -> object:
    """Returns a stream capsule of TopicDB that pyarrow has taken over already."""
    capsule = db.scan().__arrow_c_stream__()
    pa.RecordBatchReader._import_from_c_capsule(capsule).close()
    return capsule


def test_a_released_object_is_refused(db: Database) -> None:
    class Moved:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return moved_stream_of(db)

    with pytest.raises(ValueError, match="released"):
        db.append(Moved())


@pytest.mark.parametrize("capsule", [None, 5, "stream"])
def test_what_is_no_capsule_is_a_type_error(db: Database, capsule: Any) -> None:
    class Wrong:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return capsule

    with pytest.raises((TypeError, ValueError)):
        db.append(Wrong())


# Out


def test_the_schema_is_exact(db: Database) -> None:
    assert db.scan().to_arrow().schema == SCHEMA
    db.append(ROWS)
    assert db.scan().to_arrow().schema == SCHEMA
    assert pa.RecordBatchReader.from_stream(db.scan()).schema == SCHEMA
    [batch, *_] = db.scan("a/b").batches()
    assert pa.schema(batch) == SCHEMA
    assert pa.record_batch(batch).schema == SCHEMA


def test_a_table_holds_what_was_stored(db: Database) -> None:
    db.append(ROWS)
    result = db.scan("#").to_arrow()
    result.validate(full=True)
    assert result.num_rows == 3
    rows = {row["topic"]: (row["timestamp"], row["value"]) for row in result.to_pylist()}
    assert rows["a/c"] == (datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc), b"")
    assert rows["é/😀"] == (datetime(1970, 1, 1, tzinfo=timezone.utc), b"\x00\xff")


def test_every_way_out_gives_the_same(db: Database) -> None:
    db.append([(f"t/{i}", i, b"v" * i) for i in range(300)])
    scan = db.scan("t/#")
    expected = pa.table(
        {
            "topic": [m.topic for m in scan],
            "timestamp": [m.timestamp for m in scan],
            "value": [m.value for m in scan],
        }
    ).cast(SCHEMA)
    assert scan.to_arrow() == expected
    assert pa.table(scan) == expected
    assert pa.Table.from_batches([pa.record_batch(b) for b in scan.batches(rows=7)]) == expected
    with pa.RecordBatchReader.from_stream(scan) as reader:
        assert reader.read_all() == expected


def test_one_database_into_another(db: Database, tmp_path: Path) -> None:
    db.append(ROWS)
    with topicdb.open(tmp_path / "copy.db", shards=2) as other:
        assert other.append(db.scan("#")).count == 3
        assert stored(other) == stored(db)
    assert db.append(db.scan("#")).count == 3, "what it had when the scan began"
    assert {*stored(db)} == {*ROWS}


def test_a_batch_is_handed_over_as_often_as_wanted(db: Database) -> None:
    db.append(ROWS)
    [batch] = db.scan("a/b").batches()
    first, second = pa.record_batch(batch), pa.record_batch(batch)
    assert first == second
    schema_capsule, array_capsule = batch.__arrow_c_array__()
    assert pa.RecordBatch._import_from_c_capsule(schema_capsule, array_capsule) == first
    with pytest.raises(ValueError, match="released"):
        pa.RecordBatch._import_from_c_capsule(schema_capsule, array_capsule)


def test_capsules_that_nobody_takes_are_freed(db: Database) -> None:
    db.append(ROWS)
    [batch] = db.scan("a/b").batches()
    for _ in range(100):
        batch.__arrow_c_array__()
        batch.__arrow_c_schema__()
        db.scan().__arrow_c_stream__()
    db.close()  # none of those streams holds the database open


def test_arrow_data_outlives_the_database_and_the_batch(db_path: Path, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append([(f"t/{i}", i, b"%d" % i) for i in range(1_000)])
    everything = db.scan("#").to_arrow()
    batches = list(db.scan("#").batches(rows=100))
    records = [pa.record_batch(batch) for batch in batches]
    db.close()
    del db, batches
    gc.collect()
    assert sum(record.num_rows for record in records) == everything.num_rows == 1_000
    assert {v.as_py() for record in records for v in record["value"]} == {
        b"%d" % i for i in range(1_000)
    }


def test_a_stream_is_read_lazily(db: Database) -> None:
    db.append([("a", i, b"x") for i in range(25_000)])
    reader = pa.RecordBatchReader.from_stream(db.scan("a"))
    assert reader.read_next_batch().num_rows == 10_000
    db.append([("a", i, b"x") for i in range(25_000, 30_000)])
    assert sum(batch.num_rows for batch in reader) == 15_000, "the moment it was made"
    reader.close()


def test_a_stream_fails_when_the_database_is_closed(db_path: Path, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append([("a", i, b"x") for i in range(25_000)])
    reader = pa.RecordBatchReader.from_stream(db.scan("a"))
    kept = reader.read_next_batch()
    db.close()
    with pytest.raises(Exception, match="closed"):
        reader.read_next_batch()
    assert kept.num_rows == 10_000
    reader.close()
    with pytest.raises(ClosedError):
        db.scan("a").__arrow_c_stream__()


def test_a_stream_keeps_the_database_alive(db_path: Path) -> None:
    db = topicdb.open(db_path)
    db.append([("a", i, b"x") for i in range(25_000)])
    reader = pa.RecordBatchReader.from_stream(db.scan("a"))
    reader.read_next_batch()
    reader.close()
    del reader
    db.close()
    topicdb.open(db_path).close()


# Without pyarrow

NO_EXTRAS = """
    import importlib.abc, sys

    class Blocker(importlib.abc.MetaPathFinder):
        names = ("pyarrow", "pyspark", "typer", "rich", "pandas", "paho")

        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in self.names:
                raise ModuleNotFoundError(f"{name} is not installed", name=name)

    sys.meta_path.insert(0, Blocker())
    import topicdb

    with topicdb.open(sys.argv[1]) as db:
        db.append([("a/b", 1, b"x"), ("a/c", None, b"y")])
        assert db.scan("a/+").count() == 2
        [batch] = db.scan("a/b").batches()
        assert db.append(batch).count == 1
        assert db.append(db.scan("#")).count == 3
        assert batch.timestamps.tolist() == [1]
        assert batch.__arrow_c_array__() and db.scan().__arrow_c_stream__()
        try:
            db.scan().to_arrow()
        except ModuleNotFoundError as error:
            print(error)
"""


def test_it_works_without_the_extras(db_path: Path) -> None:
    assert "pyarrow" in run_child(NO_EXTRAS, db_path)


def test_importing_loads_no_extra() -> None:
    code = """
        import sys, topicdb
        extras = {"pyarrow", "pyspark", "typer", "rich", "pandas", "paho", "matplotlib"}
        print(sorted(extras & set(sys.modules)))
    """
    assert run_child(code) == "[]\n"

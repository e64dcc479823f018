"""Messages become frames and Python objects, with values as bytes, text or JSON fields."""

from __future__ import annotations

import json
import math
from datetime import timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from frames.predicates import at
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import fleets

import topicdb
from topicdb.frames.json_fields import DEPTH_MAX, FIELDS_MAX, columns_of, parsed
from topicdb.replay import Envelope

MAX = 2**63 - 1
LATE = 253_402_300_800_000_000  # the year 10000
JSON = [
    b'{"t": 21.5, "motor": {"rpm": 900, "on": true}, "tags": ["a", "b"]}',
    b'{"t": 4, "motor": {"rpm": null}}',
    b"7",
    b"no json",
    b"\xff",
]


@pytest.fixture
def readings(db: topicdb.Database) -> topicdb.Scan:
    db.append([("a", us, value) for us, value in enumerate(JSON)])
    return db.scan("a")


@given(rows=fleets(), binary=st.lists(st.binary(max_size=4), max_size=4))
@settings(max_examples=15)
def test_frames_have_what_a_scan_gives(
    rows: list[tuple[str, int, bytes]], binary: list[bytes], tmp_path_factory: Any
) -> None:
    with topicdb.open(tmp_path_factory.mktemp("frames") / "db") as db:
        db.append([*rows, *(("z", us, value) for us, value in enumerate(binary))])
        for filter in (None, "a/#", "nobody"):
            scan = db.scan(filter)
            wanted = [tuple(message) for message in scan]
            assert [
                (row["topic"], round(row["timestamp"].timestamp() * 1e6), row["value"])
                for row in scan.to_pylist()
            ] == wanted
            pandas = scan.to_pandas()
            us = pandas["timestamp"].dt.tz_localize(None).to_numpy().view("int64")
            assert list(zip(pandas["topic"], us, pandas["value"], strict=True)) == wanted
            polars = scan.to_polars().with_columns(pl.col("timestamp").to_physical())
            assert polars.rows() == wanted
            assert list(map(tuple, scan.head(3))) == wanted[:3]


@pytest.mark.parametrize("convert", ["to_pandas", "to_polars"])
def test_columns_have_the_same_types_without_messages(db: topicdb.Database, convert: str) -> None:
    empty = getattr(db.scan("nobody"), convert)()
    db.append([("a", 1, b"1")])
    full = getattr(db.scan("a"), convert)()
    assert list(empty.columns) == list(full.columns) == ["topic", "timestamp", "value"]
    assert list(empty.dtypes) == list(full.dtypes) and len(empty) == 0
    assert list(getattr(db.scan("nobody"), convert)(values="json").columns) == list(empty.columns)


def test_times_are_utc_with_microseconds(db: topicdb.Database) -> None:
    db.append([("a", 1_769_868_120_000_001, b"1"), ("b", MAX, b"2")])
    frame = db.scan("a").to_pandas()
    assert str(frame.dtypes["timestamp"]) == "datetime64[us, UTC]"
    assert frame["timestamp"][0] == pd.Timestamp("2026-01-31T14:02:00.000001Z")
    assert db.scan("a").to_polars().schema["timestamp"] == pl.Datetime("us", "UTC")
    (row,) = db.scan("a").to_pylist()
    assert row["timestamp"].tzinfo is timezone.utc
    assert db.scan("b").to_polars()["timestamp"].to_physical()[0] == MAX
    far = db.scan("b").to_pandas()["timestamp"].dt.tz_localize(None)
    assert far.to_numpy().view("int64")[0] == MAX
    db.append([("c", LATE, b"3")])
    with pytest.raises(ValueError, match=r"'c'.*253402300800000000.*year 9999"):
        db.scan("c").to_pylist()


def test_text_is_none_where_a_value_is_not_utf8(readings: topicdb.Scan) -> None:
    wanted = [*(value.decode() for value in JSON[:-1]), None]
    assert readings.to_pandas(values="text")["value"].to_list() == wanted
    assert readings.to_polars(values="text")["value"].to_list() == wanted
    assert [row["value"] for row in readings.to_pylist(values="text")] == wanted
    assert readings.to_polars(values="text").schema["value"] == pl.String


def test_json_fields_are_columns(readings: topicdb.Scan) -> None:
    names = ["topic", "timestamp", "value", "t", "motor.rpm", "motor.on", "tags"]
    polars = readings.to_polars(values="json")
    assert polars.columns == names
    assert polars["t"].to_list() == [21.5, 4.0, None, None, None]
    assert polars["motor.rpm"].to_list() == [900, None, None, None, None]
    assert polars["value"].to_list() == [None, None, 7, None, None]
    assert polars["tags"].to_list() == [["a", "b"], None, None, None, None]
    pandas = readings.to_pandas(values="json")
    assert list(pandas.columns) == names
    assert str(pandas.dtypes["motor.rpm"]) == "Int64" and str(pandas.dtypes["t"]) == "float64"
    assert pandas["tags"][0] == ["a", "b"] and pandas["motor.on"][0]
    assert [row["value"] for row in readings.to_pylist(values="json")] == [
        *map(json.loads, JSON[:3]),
        None,
        None,
    ]


def test_numbers_alone_are_a_column_of_numbers(db: topicdb.Database) -> None:
    db.append([("a", 1, b"21.5"), ("a", 2, b"22")])
    assert db.scan().to_pandas(values="json")["value"].mean() == 21.75
    assert db.scan().to_polars(values="json")["value"].mean() == 21.75
    db.append([("b", 1, b'{"t": 1}')])
    assert db.scan("b").to_polars(values="json").columns == ["topic", "timestamp", "t"]


@pytest.mark.parametrize(
    ("values", "wanted", "kind"),
    [
        ([b"1", b'"a"'], ["1", '"a"'], pl.String),
        ([b"1", b"true"], ["1", "true"], pl.String),
        ([b"[1]", b"[2.5]", b"[]"], [[1.0], [2.5], []], pl.List(pl.Float64)),
        ([b'[1, "a"]', b"[]"], ['[1, "a"]', "[]"], pl.String),
        ([b"[[1], [2]]"], ["[[1], [2]]"], pl.String),
        ([b"[{}]"], ["[{}]"], pl.String),
        ([b"123456789012345678901234567890"], ["123456789012345678901234567890"], pl.String),
        ([b'"\\ud800"'], ["?"], pl.String),
        ([b'"\\ud83d\\ude00"'], ["\N{GRINNING FACE}"], pl.String),
        ([b"null", b""], [None, None], pl.Null),
        ([b"9223372036854775807", b"null"], [2**63 - 1, None], pl.Int64),
        ([b"[" * 100_000], [None], pl.Null),
        ([b"1" * 5_000], [None], pl.Null),
        (["21,5°".encode("latin-1")], [None], pl.Null),
    ],
)
def test_odd_json_values(
    db: topicdb.Database, values: list[bytes], wanted: list[Any], kind: Any
) -> None:
    db.append([("a", us, value) for us, value in enumerate(values)])
    column = db.scan().to_polars(values="json")["value"]
    assert column.to_list() == wanted and column.dtype == kind
    assert len(db.scan().to_pandas(values="json")) == len(values)


def test_large_integers_keep_their_digits_in_pandas(db: topicdb.Database) -> None:
    db.append([("a", 1, b'{"id": 9007199254740993}'), ("a", 2, b"{}")])
    assert db.scan().to_pandas(values="json")["id"][0] == 9007199254740993


def test_fields_do_not_hide_other_columns(db: topicdb.Database) -> None:
    value = b'{"topic": "mine", "timestamp": 1, "value": 2, "qos": 3}'
    db.append([("a", 1, Envelope(value, qos=1).encode())], raw=True)
    scan = db.scan(properties=True)
    for frame in (scan.to_pandas(values="json"), scan.to_polars(values="json")):
        row = {name: frame[name][0] for name in frame.columns}
        assert row["topic"] == "a" and row["value.topic"] == "mine" and row["value"] == 2
        assert row["qos"] == 1 and row["value.qos"] == 3 and row["value.timestamp"] == 1


def test_columns_of_are_as_long_as_the_values() -> None:
    found = columns_of([b'{"a": 1}', b'{"b": {"c": 2}, "b.c": 3}', b"{}"], [])
    assert found == {"a": [1, None, None], "b.c": [None, 3, None]}
    assert columns_of([], []) == {"value": []}
    assert columns_of([b'{"o": {}, "n": NaN}'], [])["o"] == [{}]
    assert math.isnan(columns_of([b'{"n": NaN}'], [])["n"][0])


def test_too_many_fields_are_refused() -> None:
    many = [json.dumps({f"k{number}": 1}).encode() for number in range(FIELDS_MAX)]
    assert len(columns_of(many, [])) == FIELDS_MAX
    with pytest.raises(ValueError, match=r"more than 1,000 different fields.*values='text'"):
        columns_of([*many, b'{"one more": 1}'], [])


def test_depth_is_limited() -> None:
    assert parsed(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX) is not None
    assert parsed(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1)) is None
    assert parsed(b"[" + b"[],".join([b""] * 999) + b"[]]") is not None


def test_properties_come_along(db: topicdb.Database) -> None:
    sent = Envelope(
        b"x", qos=2, retain=True, client_id="c", user_properties=(("k", "v"),), received=5
    )
    db.append([("a", 1, sent.encode())], raw=True)
    db.append([("b", 2, b"y")])
    scan = db.scan(properties=True, order="time")
    pandas, polars = scan.to_pandas(), scan.to_polars()
    assert list(pandas.columns) == polars.columns
    assert polars.columns[3:] == list(topicdb.Properties._fields)
    assert pandas["qos"].to_list() == [2, pd.NA] and str(pandas.dtypes["qos"]) == "Int64"
    assert pandas["received"][0] == pd.Timestamp(at(5)) and pd.isna(pandas["received"][1])
    assert pandas["user_properties"][0] == (("k", "v"),)
    assert polars["retain"].to_list() == [True, None]
    first, second = scan.to_pylist()
    assert first["client_id"] == "c" and first["received"] == at(5) and second["qos"] is None
    batch = scan.head(1)
    assert batch.to_pylist() == [first] and batch.to_polars().equals(polars.head(1))
    assert batch.to_pandas().equals(pandas.head(1))


def test_head_reads_the_first_messages(sharded_db: topicdb.Database) -> None:
    sharded_db.append([(f"a/{us}", us, b"%d" % us) for us in range(30)])
    scan = sharded_db.scan(order="time")
    assert [message.timestamp for message in scan.head()] == list(range(10))
    assert [message.timestamp for message in scan.head(29)] == list(range(29))
    assert len(scan.head(99)) == 30 and len(scan.head(0)) == 0 and scan.count() == 30
    with pytest.raises(ValueError, match="n: expected 0 or more"):
        scan.head(-1)
    with pytest.raises(TypeError, match="n: expected int, got float"):
        scan.head(2.5)  # type: ignore[arg-type]


def test_batches_convert_too(db: topicdb.Database) -> None:
    db.append([("a", 1, b'{"t": 1}')])
    (batch,) = db.scan().batches()
    assert batch.to_pylist(values="json")[0]["value"] == {"t": 1}
    assert batch.to_pandas(values="json")["t"][0] == 1 == batch.to_polars(values="json")["t"][0]
    (stream,) = db.streams()
    page = db.next(db.iterator(stream))
    assert page.batch.to_pylist(values="text")[0]["topic"] == "a"


@pytest.mark.parametrize("name", ["to_pandas", "to_polars", "to_pylist"])
def test_a_wrong_form_of_values_is_refused(db: topicdb.Database, name: str) -> None:
    with pytest.raises(ValueError, match="values: expected 'bytes', 'text' or 'json', got 'xml'"):
        getattr(db.scan(), name)(values="xml")


def test_a_scan_that_fails_raises(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        scan = db.scan()
    for read in (scan.to_pandas, scan.to_polars, scan.to_pylist, scan.head):
        with pytest.raises(topicdb.ClosedError):
            read()

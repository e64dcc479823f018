"""LazyFrames of polars and tables of DuckDB have what a plain scan has, whatever they push down."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from frames.predicates import BASES, ROWS, Predicate, at, predicates, topic_begins, topic_is
from hypothesis import given, settings
from hypothesis import strategies as st
from served import serving
from support import LAYOUTS, run_child, topic_in_shard

import topicdb
import topicdb.duckdb
import topicdb.polars
from topicdb import ClosedError, MissingShardError, TopicError
from topicdb.frames.source import Source
from topicdb.replay import Envelope

PLAIN = ["topic", "timestamp", "value"]


@pytest.fixture(scope="module", params=[*LAYOUTS, "remote"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[topicdb.Database]:
    """A database with ``ROWS`` in each layout, and one at a server."""
    path = tmp_path_factory.mktemp("frames") / "db"
    layout = LAYOUTS[0] if request.param == "remote" else request.param
    with topicdb.open(path, shards=2, layout=layout) as database:
        database.append(ROWS[::2])
        database.flush()
        database.append(ROWS[1::2])
        if request.param != "remote":
            yield database
            return
        with serving(database) as server, topicdb.connect(server.url) as remote:
            yield remote


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each read has selected, and the columns that it needed."""
    calls: list[Any] = []
    scan = Source.scan

    def listen(self: Source, narrowed: Any, columns: Any) -> Any:
        calls.append((self.selection.both(narrowed), columns))
        return scan(self, narrowed, columns)

    monkeypatch.setattr(Source, "scan", listen)
    return calls


def rows_of(frame: pl.DataFrame) -> list[tuple[str, int, bytes]]:
    return frame.select(PLAIN).with_columns(pl.col("timestamp").to_physical()).rows()


def rows_of_sql(messages: Any, where: str, **others: Any) -> list[tuple[str, int, bytes]]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    sql = f"SELECT topic, epoch_us(timestamp), value FROM messages WHERE {where}"
    found: list[tuple[str, int, bytes]] = connection.sql(sql).fetchall()
    return found


def plain(db: topicdb.Database, base: Any, **options: Any) -> list[tuple[str, int, bytes]]:
    return [(topic, us, value) for topic, us, value in db.scan(base, **options)]


@given(base=st.sampled_from(BASES), predicate=predicates, start=st.none() | st.integers(0, 6))
def test_polars_filters_as_a_plain_scan_does(
    filled: topicdb.Database, base: Any, predicate: Predicate, start: int | None
) -> None:
    wanted = [row for row in plain(filled, base, start=start) if predicate.passes(row)]
    frame = topicdb.polars.scan(filled, base, start=start).filter(predicate.polars)
    assert rows_of(frame.collect()) == wanted
    assert rows_of(frame.collect(engine="streaming")) == wanted


@given(base=st.sampled_from(BASES), predicate=predicates, start=st.none() | st.integers(0, 6))
def test_duckdb_filters_as_a_plain_scan_does(
    filled: topicdb.Database, base: Any, predicate: Predicate, start: int | None
) -> None:
    wanted = [row for row in plain(filled, base, start=start) if predicate.passes(row)]
    messages = topicdb.duckdb.scan(filled, base, start=start)
    assert sorted(rows_of_sql(messages, predicate.sql)) == sorted(wanted)
    assert sorted(rows_of_sql(filled.scan(base, start=start), predicate.sql)) == sorted(wanted)


@given(n=st.integers(0, 40), predicate=predicates)
@settings(max_examples=20)
def test_limits_are_those_of_a_plain_scan(
    filled: topicdb.Database, n: int, predicate: Predicate
) -> None:
    frame = topicdb.polars.scan(filled, order="time")
    rows = plain(filled, "#", order="time")
    assert rows_of(frame.head(n).collect()) == rows[:n]
    assert rows_of(frame.head(n).filter(predicate.polars).collect()) == [
        row for row in rows[:n] if predicate.passes(row)
    ]
    passed = [row for row in rows if predicate.passes(row)]
    assert rows_of(frame.filter(predicate.polars).head(n).collect()) == passed[:n]
    found = rows_of_sql(topicdb.duckdb.scan(filled), f"{predicate.sql} LIMIT {n}")
    assert len(found) == min(n, len(passed)) and set(found) <= set(passed)


def test_topics_times_and_columns_are_pushed_down(
    filled: topicdb.Database, asked: list[Any]
) -> None:
    frame = topicdb.polars.scan(filled, "a/#").filter(
        pl.col("topic") == "a/b", pl.col("timestamp") >= pl.lit(at(2)), pl.col("timestamp") < at(9)
    )
    assert frame.select(pl.len()).collect().item() == 2
    messages = topicdb.duckdb.scan(filled, "a/#")
    where = "topic IN ('a/b', 'b') AND timestamp >= make_timestamptz(2)"
    assert duckdb.connect().sql(f"SELECT count(*) FROM messages WHERE {where}").fetchall() == [(3,)]
    assert len(messages.schema) == 3
    (polars_read, _), (duckdb_read, columns) = asked
    assert (polars_read.filters, polars_read.start, polars_read.end) == (["a/b"], 2, 9)
    assert (duckdb_read.filters, duckdb_read.start) == (["a/b"], 2)
    assert set(columns) <= {"topic", "timestamp"}


def test_what_cannot_be_is_not_read(filled: topicdb.Database, asked: list[Any]) -> None:
    predicate = topic_is("b")
    frame = topicdb.polars.scan(filled, "a/#").filter(predicate.polars).collect()
    messages = topicdb.duckdb.scan(filled, "a/#")
    assert frame.is_empty() and rows_of_sql(messages, predicate.sql) == []
    assert all(selection.is_empty for selection, _ in asked) and len(asked) == 2


def test_prefixes_are_pushed_down_to_polars(filled: topicdb.Database, asked: list[Any]) -> None:
    frame = topicdb.polars.scan(filled).filter(topic_begins("a/b/").polars).collect()
    assert frame["topic"].unique().to_list() == ["a/b/c"]
    assert asked[0][0].filters == ["a/b/#"]


def test_each_collection_reads_anew(db: topicdb.Database) -> None:
    frame, messages = topicdb.polars.scan(db), topicdb.duckdb.scan(db)
    assert frame.collect().is_empty() and messages.count_rows() == 0
    db.append([("a", 1, b"1")])
    assert rows_of(frame.collect()) == [("a", 1, b"1")] and messages.count_rows() == 1


def test_properties_are_columns(db: topicdb.Database) -> None:
    sent = Envelope(b"1", qos=1, user_properties=(("unit", "K"),), received=7)
    db.append([("a", 1, sent.encode())], raw=True)
    db.append([("b", 2, b"2")])
    wanted = [("a", 1, at(7)), ("b", None, None)]
    frame = topicdb.polars.scan(db, properties=True)
    assert frame.collect_schema() == frame.collect().schema
    assert frame.select("topic", "qos", "received").collect().sort("topic").rows() == wanted
    assert frame.select("topic").collect().sort("topic").rows() == [("a",), ("b",)]
    messages = topicdb.duckdb.scan(db, properties=True)
    assert len(messages.schema) == 14
    sql = "SELECT topic, qos, epoch_us(received) FROM messages WHERE qos = 1"
    assert duckdb.connect().sql(sql).fetchall() == [("a", 1, 7)]
    assert duckdb.connect().sql(
        "SELECT user_properties[1].value FROM messages WHERE topic = 'a'"
    ).fetchall() == [("K",)]
    assert rows_of(topicdb.polars.scan(db, "b", raw=True).collect()) == [("b", 2, b"2")]


@pytest.fixture
def part(db_path: Path, layout: Any) -> Iterator[topicdb.Database]:
    """A database of which a shard is gone."""
    topics = [topic_in_shard(shard, 3) for shard in range(3)]
    with topicdb.open(db_path, shards=3, layout=layout) as database:
        database.append([(topic, 1, b"1") for topic in topics])
    shutil.rmtree(db_path / "shards" / "0001")
    with topicdb.open(db_path, on_damage="skip") as database:
        yield database


def test_partial_scans_leave_out_missing_shards(part: topicdb.Database) -> None:
    wanted = sorted(plain(part, "#", partial=True))
    assert len(wanted) == 2
    assert sorted(rows_of(topicdb.polars.scan(part, partial=True).collect())) == wanted
    assert sorted(rows_of_sql(topicdb.duckdb.scan(part, partial=True), "true")) == wanted
    with pytest.raises(Exception, match="was opened without shard 1"):
        topicdb.polars.scan(part).collect()
    with pytest.raises(MissingShardError):
        topicdb.duckdb.scan(part).to_table()
    with pytest.raises(Exception, match="was opened without shard 1"):
        rows_of_sql(topicdb.duckdb.scan(part), "true")


def test_the_table_is_a_dataset_of_pyarrow(filled: topicdb.Database) -> None:
    messages = topicdb.duckdb.scan(filled, "a/#")
    rows = plain(filled, "a/#")
    assert messages.count_rows() == len(rows) and messages.head(2).num_rows == 2
    table = messages.to_table(columns={"t": pa.dataset.field("topic")})
    assert table.column_names == ["t"] and table.num_rows == len(rows)
    assert sum(batch.num_rows for batch in messages.to_batches()) == len(rows)
    assert messages.take([0]).num_rows == 1
    for name in ("filter", "get_fragments", "join", "join_asof", "replace_schema", "sort_by"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(messages, name)()
    with pytest.raises(TypeError, match="cannot be pickled"):
        messages.__reduce__()
    assert repr(messages).startswith("<topicdb.duckdb.MessageDataset of <topicdb.Database")
    assert messages.partition_expression is not None


def test_a_scan_is_a_table_of_duckdb_itself(filled: topicdb.Database) -> None:
    messages = filled.scan("a/#")
    found = duckdb.connect().sql("SELECT count(*) FROM messages").fetchall()
    assert found == [(len(plain(filled, "a/#")),)]
    assert pa.schema(messages).names == PLAIN


@pytest.mark.parametrize("scan", [topicdb.polars.scan, topicdb.duckdb.scan])
def test_bad_arguments_are_refused_at_once(db: topicdb.Database, scan: Callable[..., Any]) -> None:
    with pytest.raises(TopicError):
        scan(db, "a/#/b")
    with pytest.raises(ValueError, match="end"):
        scan(db, end="yesterday-ish")
    with pytest.raises(ValueError, match="order"):
        scan(db, order="newest")
    with pytest.raises(ValueError, match="properties"):
        scan(db, properties=True, raw=True)


def test_a_closed_database_is_said_to_be_closed(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([("a", 1, b"1")])
        frame, messages = topicdb.polars.scan(db), topicdb.duckdb.scan(db)
    with pytest.raises(Exception, match="closed"):
        frame.collect()
    with pytest.raises(ClosedError):
        messages.to_table()


@pytest.mark.parametrize(
    ("call", "missing", "extra"),
    [
        ("db.scan().to_pandas()", "pandas", "pandas"),
        ("db.scan().to_polars()", "polars", "polars"),
        ("topicdb.polars.scan(db)", "polars", "polars"),
        ("topicdb.duckdb.scan(db)", "duckdb", "duckdb"),
        ("topicdb.duckdb.scan(db)", "pyarrow", "duckdb"),
    ],
)
def test_errors_name_the_extra(call: str, missing: str, extra: str, tmp_path: Path) -> None:
    code = """
        import sys, topicdb
        call, missing, path = sys.argv[1:]
        sys.modules[missing] = None
        with topicdb.open(path) as db:
            try:
                eval(call)
            except ModuleNotFoundError as error:
                print(error)
    """
    said = run_child(code, call, missing, tmp_path / "db")
    assert f'needs {missing}; run: pip install "topicdb[{extra}]"' in said

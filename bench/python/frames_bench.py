"""Measures queries of DuckDB and polars over a database: what it saves to push them down.

python bench/python/frames_bench.py [--rows 100000,500000,2000000] [--rounds N] [--json FILE]

The messages are of a thousand topics in turn. Each query runs over `topicdb.duckdb.scan` or
`topicdb.polars.scan`, which read only what it needs, and over all messages of `Database.scan`,
which the library then filters. The benchmark fails if the two give different rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from measure import ROUNDS, interleaved
from report import Report
from workloads import digest
from workloads.rows import BATCH_ROWS, SCHEMA, START_US, table_rows

import topicdb
import topicdb.duckdb
import topicdb.polars

ROWS = "100000,500000,2000000"
TOPICS = 1_000
STEP_US = 10_000
FILTER = "metrics/#"
NAMES = [f"metrics/host{number:04}/cpu" for number in range(TOPICS)]
ONE, TWO = NAMES[7], NAMES[123]
COLUMNS = "topic, timestamp, value"


def tables(rows: int) -> Iterator[pa.Table]:
    """Makes tables with one message a step, each topic in turn."""
    names = pa.array(NAMES)
    for first in range(0, rows, BATCH_ROWS):
        index = np.arange(first, min(first + BATCH_ROWS, rows))
        times = pa.array(START_US + index * STEP_US).cast(SCHEMA.field("timestamp").type)
        values = pa.array([b"%.1f" % (number % 997 / 10) for number in index.tolist()], pa.binary())
        columns = [names.take(pa.array(index % TOPICS)), times, values]
        yield pa.Table.from_arrays(columns, schema=SCHEMA)


def at(share: float, rows: int) -> datetime:
    """Returns the time of the message behind this share of all messages."""
    us = START_US + int(rows * share) * STEP_US
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=us)


def sql_queries(rows: int) -> dict[str, str]:
    """Returns queries for DuckDB, with ``messages`` for the table."""
    late = f"timestamp >= TIMESTAMPTZ '{at(0.99, rows).isoformat()}'"
    return {
        "one topic": f"SELECT {COLUMNS} FROM messages WHERE topic = '{ONE}'",
        "two topics, last 1 %": (
            f"SELECT {COLUMNS} FROM messages WHERE topic IN ('{ONE}', '{TWO}') AND {late}"
        ),
        "last 1 %": f"SELECT {COLUMNS} FROM messages WHERE {late}",
        "first 100": f"SELECT {COLUMNS} FROM messages LIMIT 100",
        "all": f"SELECT {COLUMNS} FROM messages",
    }


Query = Callable[[pl.LazyFrame], pl.LazyFrame]


def polars_queries(rows: int) -> dict[str, Query]:
    """Returns the same queries for polars."""
    topic, late = pl.col("topic"), pl.col("timestamp") >= at(0.99, rows)
    return {
        "one topic": lambda messages: messages.filter(topic == ONE),
        "two topics, last 1 %": lambda messages: messages.filter(topic.is_in([ONE, TWO]), late),
        "last 1 %": lambda messages: messages.filter(late),
        "first 100": lambda messages: messages.head(100),
        "all": lambda messages: messages,
    }


def measure(report: Report, rows: int, rounds: int, place: Path) -> None:
    """Measures all queries over a database of ``rows`` messages."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    with topicdb.open(place / f"{rows}") as db:
        for table in tables(rows):
            db.append(table)
        db.flush()
        table, frame, scan = (
            topicdb.duckdb.scan(db, FILTER),
            topicdb.polars.scan(db, FILTER),
            db.scan(FILTER),
        )

        def sql(query: str, messages: Any) -> pa.Table:
            return connection.sql(query).to_arrow_table()

        for what, query in sql_queries(rows).items():
            sides: dict[str, Callable[[], Any]] = {
                "pushed": lambda query=query: sql(query, table),  # type: ignore[misc]
                "plain": lambda query=query: sql(query, scan),  # type: ignore[misc]
            }
            compare(report, "D", f"DuckDB, {what}", rows, sides, rounds)
        for what, choose in polars_queries(rows).items():
            sides = {
                "pushed": lambda choose=choose: choose(frame).collect(),  # type: ignore[misc]
                "plain": lambda choose=choose: choose(  # type: ignore[misc]
                    pl.DataFrame(scan).lazy()
                ).collect(),
            }
            compare(report, "L", f"polars, {what}", rows, sides, rounds)


def compare(
    report: Report,
    part: str,
    what: str,
    rows: int,
    sides: dict[str, Callable[[], Any]],
    rounds: int,
) -> None:
    """Measures both sides, after a check that they return the same rows."""
    found, plain = (as_table(side()) for side in sides.values())
    report.same_digest(f"{what}, {rows:,}", digest(table_rows(found)), digest(table_rows(plain)))
    timings = interleaved(sides, rounds)
    pushed, whole = timings["pushed"], timings["plain"]
    report.add(
        part,
        f"{what}: {len(found):,} of {rows:,}",
        f"{pushed.wall * 1e3:.2f} ms wall, {pushed.cpu * 1e3:.2f} ms CPU",
        f"not pushed down: {whole.wall * 1e3:.1f} ms wall, {whole.cpu * 1e3:.1f} ms CPU,"
        f" {whole.wall / pushed.wall:.1f} x",
        rows=rows,
        found=len(found),
        pushed=vars(pushed),
        plain=vars(whole),
    )


def as_table(found: Any) -> pa.Table:
    """Returns a result as an Arrow table of messages."""
    return pa.table(found).select(SCHEMA.names).cast(SCHEMA)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=ROWS, help="numbers of messages, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="topicdb-frames-", dir=options.directory) as place:
        for rows in map(int, options.rows.split(",")):
            measure(report, rows, options.rounds, Path(place))
    report.finish("what both sides gave", options.json, rows=options.rows)


if __name__ == "__main__":
    main()

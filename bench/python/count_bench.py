"""Measures counts of messages, by topic and by time, beside a full read and DuckDB over Parquet.

python bench/python/count_bench.py [--rows 250000,1000000,4000000] [--rounds N] [--json FILE]

The messages are of a thousand topics in turn, with values of about 100 bytes. Sides:

- summarize: `Database.summarize`
- scan: the batches of `Database.scan`, which are counted with pyarrow
- DuckDB: SQL over the same messages in a Parquet file (Zstandard), sorted by topic and time

The benchmark fails if the sides give different counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measure import ROUNDS, Timing, interleaved
from report import Report
from workloads.rows import BATCH_ROWS, SCHEMA, START_US

import topicdb

ROWS = "250000,1000000,4000000"
HOSTS, METRICS = 100, 10
STEP_US = 50_000
HOUR_US = 3_600_000_000
NAMES = [f"metrics/host{host:03}/m{metric}" for host in range(HOSTS) for metric in range(METRICS)]
Counts = dict[Any, int]


def tables(rows: int) -> Iterator[pa.Table]:
    """Makes tables with one message a step, each topic in turn."""
    names = pa.array(NAMES)
    random = np.random.default_rng(34)
    for first in range(0, rows, BATCH_ROWS):
        index = np.arange(first, min(first + BATCH_ROWS, rows))
        times = pa.array(START_US + index * STEP_US).cast(SCHEMA.field("timestamp").type)
        numbers = random.integers(0, 1 << 40, len(index)).tolist()
        values = pa.array([b'{"value": %d, "unit": "%s"}' % (n, b"x" * 70) for n in numbers])
        columns = [names.take(pa.array(index % len(NAMES))), times, values]
        yield pa.Table.from_arrays(columns, schema=SCHEMA)


def questions(rows: int) -> dict[str, tuple[dict[str, Any], str]]:
    """Returns for each question the arguments of ``summarize``, and the SQL."""
    start, end = (START_US + int(rows * share) * STEP_US for share in (0.3001, 0.6007))
    host = "metrics/host042/#"
    hour = f"epoch_us(timestamp) // {HOUR_US} * {HOUR_US}"
    within = f"epoch_us(timestamp) >= {start} AND epoch_us(timestamp) < {end}"
    one = "topic LIKE 'metrics/host042/%'"
    return {
        "all": ({}, "SELECT 0, count(*) FROM messages"),
        "30 % of the time": (
            {"start": start, "end": end},
            f"SELECT 0, count(*) FROM messages WHERE {within}",
        ),
        "by hour": ({"span": "1h"}, f"SELECT {hour}, count(*) FROM messages GROUP BY 1"),
        "by topic": (
            {"topic_levels": None},
            "SELECT topic, count(*) FROM messages GROUP BY 1",
        ),
        "one host": ({"filter": host}, f"SELECT 0, count(*) FROM messages WHERE {one}"),
    }


def summarized(db: topicdb.Database, arguments: dict[str, Any]) -> Counts:
    """Counts with ``summarize``."""
    groups = db.summarize(**arguments)
    return {g.topic or g.span_start or 0: g.messages for g in groups}


def scanned(db: topicdb.Database, arguments: dict[str, Any]) -> Counts:
    """Counts the batches of a scan."""
    reads = {name: arguments[name] for name in ("filter", "start", "end") if name in arguments}
    counts: Counts = {}
    for batch in db.scan(order="none", **reads).batches(100_000):
        columns = pa.record_batch(batch)
        if "topic_levels" in arguments:
            keys = columns.column("topic")
        elif "span" in arguments:
            times = columns.column("timestamp").cast(pa.int64())
            keys = pc.multiply(pc.divide(times, HOUR_US), HOUR_US)
        else:
            counts[0] = counts.get(0, 0) + len(columns)
            continue
        for pair in pc.value_counts(keys).to_pylist():
            counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]
    return counts


def queried(connection: duckdb.DuckDBPyConnection, query: str) -> Counts:
    """Counts with DuckDB."""
    return dict(connection.sql(query).fetchall())


def spent(timing: Timing) -> str:
    """Returns the medians of a timing."""
    return f"{timing.wall * 1e3:.2f} ms wall, {timing.cpu * 1e3:.2f} ms CPU"


def measure(report: Report, rows: int, rounds: int, place: Path) -> None:
    """Measures all questions over ``rows`` messages."""
    parquet = place / f"{rows}.parquet"
    whole = pa.concat_tables(tables(rows)).sort_by(
        [("topic", "ascending"), ("timestamp", "ascending")]
    )
    pq.write_table(whole, parquet, compression="zstd")
    del whole
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.sql(f"CREATE VIEW messages AS SELECT * FROM '{parquet}'")
    with topicdb.open(place / f"{rows}") as db:
        for table in tables(rows):
            db.append(table)
        db.flush()
        for what, (arguments, query) in questions(rows).items():
            sides: dict[str, Callable[[], Counts]] = {
                "summarize": lambda arguments=arguments: summarized(db, arguments),  # type: ignore[misc]
                "scan": lambda arguments=arguments: scanned(db, arguments),  # type: ignore[misc]
                "DuckDB": lambda query=query: queried(connection, query),  # type: ignore[misc]
            }
            found = {name: sorted(side().items()) for name, side in sides.items()}
            for name in ("scan", "DuckDB"):
                if found[name] != found["summarize"]:
                    raise AssertionError(f"{what}, {rows:,}: {name} counts otherwise")
            timings = interleaved(sides, rounds)
            others = ", ".join(f"{name}: {spent(timings[name])}" for name in ("scan", "DuckDB"))
            report.add(
                "C",
                f"count {what}: {len(found['scan']):,} groups of {rows:,}",
                spent(timings["summarize"]),
                others,
                rows=rows,
                **{name: vars(timing) for name, timing in timings.items()},
            )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=ROWS, help="numbers of messages, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="topicdb-counts-", dir=options.directory) as place:
        for rows in map(int, options.rows.split(",")):
            measure(report, rows, options.rounds, Path(place))
    report.finish("what all sides counted", options.json, rows=options.rows)


if __name__ == "__main__":
    main()

"""Measures the newest message of each topic beside a full scan and DuckDB: rows L1 to L3.

python bench/python/last_values.py [--size small|normal|large] [--topics N] [--json FILE]

The messages are those of `metrics`, appended again and again at later times, for the first N of its
topics. DuckDB computes arg_max(value, timestamp) over the same rows in zstd Parquet files of a
million rows each.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import workloads
from measure import ROUNDS, interleaved
from report import Report
from stores import disk_bytes
from workloads import digest, metrics
from workloads.rows import BATCH_ROWS, SCHEMA, START_US, table_rows

import topicdb

SIZES = {"small": 4_000, "normal": 1_000_000, "large": 10_000_000}
FILE_ROWS = 1_000_000
GROUP_ROWS = 122_880  # DuckDB's own default
STEP_US = metrics.PERIOD_US // metrics.TOPICS
HOST = "metrics/host0007/#"


def tables(rows: int, topics: int, seed: int) -> Iterator[pa.Table]:
    """Makes tables with one message a step, each topic in turn; values repeat after 320,000."""
    cycle = workloads.make("metrics", min(rows, 10 * metrics.TOPICS), seed).table["value"]
    values = cycle.combine_chunks()
    names = pa.array([metrics.topic(number) for number in range(topics)])
    for first in range(0, rows, BATCH_ROWS):
        index = np.arange(first, min(first + BATCH_ROWS, rows))
        times = pa.array(START_US + index * STEP_US).cast(SCHEMA.field("timestamp").type)
        columns = [names.take(pa.array(index % topics)), times, values.take(index % len(values))]
        yield pa.Table.from_arrays(columns, schema=SCHEMA)


class Parquet:
    """DuckDB over files of many row groups."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self._path = path
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")

    def fill(self, rows: Iterator[pa.Table]) -> None:
        each = FILE_ROWS // BATCH_ROWS
        for number, part in enumerate(iter(lambda: list(itertools.islice(rows, each)), [])):
            name = self._path / f"{number:04}.parquet"
            table = pa.concat_tables(part)
            pq.write_table(table, name, compression="zstd", row_group_size=GROUP_ROWS)

    def last(self, where: str = "true", *values: Any) -> pa.Table:
        sql = (
            "SELECT topic, max(timestamp) AS timestamp, arg_max(value, timestamp) AS value"
            f" FROM read_parquet(?) WHERE {where} GROUP BY topic ORDER BY topic"
        )
        files = str(self._path / "*.parquet")
        return self._connection.sql(sql, params=[files, *values]).to_arrow_table()


def measure(report: Report, rows: int, topics: int, seed: int, rounds: int, place: Path) -> None:
    theirs = Parquet(place / "parquet")
    theirs.fill(tables(rows, topics, seed))
    with topicdb.open(place / "data") as ours:
        for table in tables(rows, topics, seed):
            ours.append(table)
        ours.flush()
        for slab in ours.slabs():
            print(f"{slab.messages:,} messages, {disk_bytes(place / 'data') / rows:.1f} B each")
        middle = START_US + rows // 2 * STEP_US
        until = "timestamp <= make_timestamptz(CAST(? AS BIGINT))"
        prefix = "starts_with(topic, ?)"
        compare(
            report, "L1", "last of every topic", ours.last().to_arrow, theirs.last, ours, rounds
        )
        compare(
            report,
            "L2",
            "state at the middle",
            lambda: ours.state_at(middle).to_arrow(),
            lambda: theirs.last(until, middle),
            ours,
            rounds,
        )
        compare(
            report,
            "L3",
            "last of one host",
            lambda: ours.last(HOST).to_arrow(),
            lambda: theirs.last(prefix, HOST.removesuffix("#")),
            ours,
            rounds,
        )


def compare(
    report: Report,
    part: str,
    what: str,
    ours: Callable[[], pa.Table],
    theirs: Callable[[], pa.Table],
    database: topicdb.Database,
    rounds: int,
) -> None:
    """Measures both sides and a full scan, after a check that the sides return the same."""
    found = ours()
    report.same_digest(f"{part} DuckDB", digest(table_rows(found)), digest(table_rows(theirs())))
    quick = interleaved({"TopicDB": ours, "DuckDB": theirs}, rounds)
    full = interleaved({"scan": lambda: database.scan().to_arrow()}, min(rounds, 2))["scan"]
    mine, other = quick["TopicDB"], quick["DuckDB"]
    report.add(
        part,
        f"{what}: {len(found):,} topics",
        f"{mine.cpu * 1e3:.2f} ms CPU, {mine.wall * 1e3:.2f} ms wall",
        f"{full.cpu / mine.cpu:.0f} x as fast as a full scan;"
        f" DuckDB: {other.cpu * 1e3:.0f} ms CPU, {other.wall * 1e3:.0f} ms wall,"
        f" {other.cpu / mine.cpu:.1f} x",
        topicdb=vars(mine),
        duckdb=vars(other),
        full_scan=vars(full),
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--topics", type=int, default=metrics.TOPICS)
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if not 1 <= options.topics <= metrics.TOPICS:
        parser.error(f"--topics: 1 to {metrics.TOPICS}")
    rows = SIZES[options.size]
    report = Report()
    print(f"{rows:,} messages of {options.topics:,} topics, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="topicdb-last-", dir=options.directory) as place:
        measure(report, rows, options.topics, options.seed, options.rounds, Path(place))
    report.finish("what both sides gave", options.json, rows=rows)


if __name__ == "__main__":
    main()

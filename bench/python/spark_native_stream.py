"""Row 10: streams of reads by the connector in Java and by the source in Python, in turns."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import spark_data
from pyspark.sql import DataFrame
from spark_compare import NATIVE
from spark_measure import Side, digest, digest_text, measured, median, to_noop, turns
from spark_report import Line
from spark_rows import PYTHON, Bench, stream_once

import topicdb
from topicdb.spark import connector

SOURCES = {NATIVE: 0.8, PYTHON: 0.0}  # how fast a whole query should be; 0: no target
ORDERS = {"true": "in commit order", "false": "in no order"}
MICRO_ROWS = 10_000
MICRO_BATCHES = 4  # in each round; the first one of a query does not count
MICRO_MS_MAX = 150


def sources(bench: Bench) -> dict[str, float]:
    """Returns the sources that are measured, and how fast a whole query should be."""
    return SOURCES if bench.with_python else {NATIVE: SOURCES[NATIVE]}


def native_streams(bench: Bench) -> None:
    """Measures whole queries beside batch reads, and micro-batches of 10,000 messages.

    Micro-batches are measured beside the source in Python, and so only with it.
    """
    connector.add(bench.spark)
    whole_queries(bench)
    if bench.with_python:
        small_batches(bench)


def whole_queries(bench: Bench) -> None:
    """Measures queries from start to end beside the batch read by the same source."""
    found: list[str] = []

    def add(frame: DataFrame, _: int) -> None:
        found.append(digest(frame))

    for order in ORDERS:
        found.clear()
        stream_once(
            bench, lambda writer: writer.foreachBatch(add), source=NATIVE, commitOrder=order
        )
        bench.report.same(
            f"10 {NATIVE} commitOrder={order}", digest(bench.read_parquet()), sum_of(found)
        )
    sides: dict[str, Side] = {}
    for source in sources(bench):
        sides[source] = batch_side(bench, source)
        for order in ORDERS:
            sides[f"{source} {order}"] = stream_side(bench, source, order)
    timings = turns(sides, bench.rounds)
    for source, faster in sources(bench).items():
        for order, what in ORDERS.items():
            bench.report.add_rates(
                "10",
                f"stream by {source}, {what}; beside: batch read",
                bench.rows,
                {what: timings[f"{source} {order}"], "batch": timings[source]},
                faster=faster,
            )


def sum_of(digests: list[str]) -> str:
    """Returns the digest of messages whose parts have these digests."""
    parts = [digest.split(":") for digest in digests]
    return digest_text(
        sum(int(count) for count, _ in parts), sum(int(sum_, 16) for _, sum_ in parts)
    )


def to_nothing(writer: Any) -> Any:
    return writer.format("noop")


def batch_side(bench: Bench, source: str) -> Side:
    return lambda: measured(
        lambda: to_noop(bench.spark.read.format(source).load(str(bench.database)))
    )


def stream_side(bench: Bench, source: str, order: str) -> Side:
    return lambda: measured(
        lambda: stream_once(bench, to_nothing, source=source, commitOrder=order)
    )


def small_batches(bench: Bench) -> None:
    """Measures micro-batches of 10,000 messages, with all that Spark does for each of them."""
    path = bench.directory / "small.db"
    fill(bench, path, MICRO_BATCHES * bench.rounds + 1)
    for order, what in ORDERS.items():
        batch_ms: dict[str, list[float]] = {source: [] for source in SOURCES}
        for number in range(-1 if bench.rounds > 1 else 0, 2):  # the round -1 warms up
            for source in list(SOURCES)[:: 1 if number % 2 else -1]:
                took = stream_once(
                    bench,
                    to_nothing,
                    source=source,
                    path=path,
                    commitOrder=order,
                    maxMessagesPerTrigger=MICRO_ROWS,
                )
                if number >= 0:
                    batch_ms[source] += [ms["triggerExecution"] for ms in took[1:]]
        ours, other = (median(batch_ms[source]) for source in SOURCES)
        bench.report.add(
            Line(
                "10",
                f"micro-batch of {MICRO_ROWS:,}, {what}; beside: {PYTHON}",
                f"{ours:,.0f} ms",
                f"{other:,.0f} ms",
                other / ours,
                target=f"<= {MICRO_MS_MAX} ms",
                met=ours <= MICRO_MS_MAX,
            )
        )
    shutil.rmtree(path)


def fill(bench: Bench, path: Path, batches: int) -> None:
    """Stores messages by commits of which one micro-batch takes one."""
    spark_data.new_database(path, bench.cores)
    with topicdb.open(path) as database:
        for _, batch in zip(range(batches), spark_data.batches(bench.parquet), strict=False):
            database.append(batch)
        database.flush()

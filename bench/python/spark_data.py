"""The messages that Spark is measured with, as Parquet files and as a database, in order of time.

A thousand hosts report ten metrics each, over a year, in values of some 200 bytes of JSON. Spark
makes the messages of the numbers 0, 1, 2, … and hashes of these with the seed, so that they are the
same everywhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import topicdb

HOSTS = 1_000
METRICS = ("cpu", "load", "memory", "swap", "disk", "inodes", "network", "latency", "errors", "fan")
TOPICS = HOSTS * len(METRICS)
START_US = 1_735_689_600_000_000  # 2025-01-01
YEAR_US = 365 * 24 * 3_600_000_000
BATCH_ROWS = 10_000
SLABS_OF_A_SHARD = 50
COLUMNS = ["topic", "timestamp", "value"]
HOST = "topic LIKE 'metrics/h0042/%'"
HOUR = (
    "timestamp >= TIMESTAMP '2025-07-01 12:00:00Z' AND timestamp < TIMESTAMP '2025-07-01 13:00:00Z'"
)
_VALUE = """cast(concat(
    '{"value":', (a & 16383) div 100, '.', 10 + (a & 63),
    ',"min":', shiftright(a, 14) & 1023, ',"max":', 4096 + (shiftright(a, 24) & 1023),
    ',"mean":', 1024 + (shiftright(a, 34) & 2047), '.', 10 + (shiftright(a, 45) & 63),
    ',"p50":', 900 + (b & 511), ',"p99":', 3000 + (shiftright(b, 9) & 1023),
    ',"samples":', 1000 + (shiftright(b, 19) & 63), ',"seq":', id,
    ',"trace":"', lower(hex(b)), '","unit":"percent","quality":"good","source":"agent-2.14"',
    ',"region":"eu-central-', (shiftright(b, 30) & 1) + 1, '","ok":true}') as binary)"""


def messages(spark: SparkSession, rows: int, seed: int, parts: int) -> DataFrame:
    """Returns ``rows`` messages in ``parts`` partitions, which follow one another in time.

    The factor 7919 visits the topics in leaps.
    """
    names = ", ".join(f"'{name}'" for name in METRICS)
    number = f"id * 7919 % {TOPICS}"
    frame = spark.range(0, rows, 1, parts).selectExpr(
        "id", f"{number} as n", f"xxhash64(id, {seed}L) as a", f"xxhash64(id, {seed + 1}L) as b"
    )
    return frame.selectExpr(
        f"concat('metrics/h', lpad(cast(n div {len(METRICS)} as string), 4, '0'), '/',"
        f" elt(cast(n % {len(METRICS)} as int) + 1, {names})) as topic",
        f"timestamp_micros({START_US} + id * {YEAR_US // rows}) as timestamp",
        f"{_VALUE} as value",
    )


def write_parquet(frame: DataFrame, path: Path) -> None:
    frame.write.mode("overwrite").parquet(str(path), compression="snappy")


def parquet_files(path: Path) -> list[Path]:
    """Returns the files in the order of their partitions."""
    return sorted(path.glob("*.parquet"))


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields batches of at most 10,000 rows of all files, one file after the other."""
    for file in parquet_files(path):
        yield from pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=COLUMNS)


def new_database(path: Path, shards: int) -> None:
    """Makes an empty database, and removes what was at the path."""
    shutil.rmtree(path, ignore_errors=True)
    topicdb.open(path, shards=shards).close()


def fill_database(path: Path, parquet: Path, shards: int) -> None:
    """Makes a database as if the messages had come in: in order of time, 10,000 in a commit."""
    with topicdb.open(path, shards=shards) as database:
        for batch in batches(parquet):
            database.append(batch)
        database.flush()


def generations(path: Path, slabs: int) -> int:
    """Makes a database of about ``slabs`` slabs; returns the number of its messages.

    It has a shard for every 50 slabs. One shard would take far longer, since the cost of a new slab
    grows with the number of slabs in its shard.
    """
    shards = max(1, slabs // SLABS_OF_A_SHARD)
    topics = [f"metrics/h{host:04}/cpu" for host in range(HOSTS)]  # some in each shard
    with topicdb.open(path, shards=shards) as database:
        for number in range(slabs // shards):
            if number:
                database.rotate()
            database.append([(topic, number, b"1") for topic in topics])
    return HOSTS * (slabs // shards)


def write_by_shard(frame: DataFrame, path: Path, shards: int) -> None:
    """Writes the messages as Parquet again, in a directory for each shard."""
    shard = f"cast(pmod(crc32(cast(topic as binary)), {shards}) as int) as shard"
    frame.selectExpr(*COLUMNS, shard).write.partitionBy("shard").mode("overwrite").parquet(
        str(path), compression="snappy"
    )


def disk_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

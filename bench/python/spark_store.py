"""Row 12: an upload in an S3 server on this machine, beside Parquet (Zstandard) in the same server.

It needs the server and the jars of scripts/s3.sh, and their paths in the variables
``TOPICDB_S3_SERVER`` and ``TOPICDB_S3_JARS``.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))

from s3_server import BUCKET, S3Server, is_here, s3_server
from spark_compare import NATIVE, Read, compare, write_zstd
from spark_report import PARQUET, Line
from spark_rows import Bench

import topicdb
from topicdb.spark import connector
from topicdb.uploads import upload

FASTER = 0.9
ASKED = ("full read", "sum(length(value))", "topic and time", "one host of 1,000")


@contextmanager
def running_store(directory: Path) -> Iterator[S3Server | None]:
    """Runs a server for the length of the block; gives None without the variables."""
    if not is_here:
        yield None
        return
    with s3_server(directory / "store") as server:
        yield server


def store_reads(bench: Bench) -> None:
    """Measures queries over the upload and over Parquet."""
    store: S3Server | None = bench.store
    if store is None:
        bench.report.add(Line("12", "from S3", "no server: see scripts/s3.sh"))
        return
    connector.add(bench.spark)
    bucket = store.root / BUCKET
    write_zstd(bench.read_parquet(), bucket / "came")
    with topicdb.open(bench.database) as database:
        began = time.perf_counter()
        made = upload(database, store.url("upload"))
        took = time.perf_counter() - began
    bench.report.add(Line("12", "upload to S3", f"{made.bytes / took / 1e6:.0f} MB/s"))
    # By name: this server answers with an error if it is asked whether a folder is an object.
    found_files = sorted((bucket / "came").glob("*.parquet"))
    files = [f"s3a://{BUCKET}/came/{path.name}" for path in found_files]
    sources: dict[str, Read] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).load(f"s3a://{BUCKET}/upload"),
        PARQUET: lambda: bench.spark.read.parquet(*files),
    }
    for what in ASKED:
        timings = compare(bench, "12", what, sources)
        faster = FASTER if what == "full read" else 0
        bench.report.add_rates("12", f"from S3: {what}", bench.rows, timings, faster=faster)
    shutil.rmtree(bucket)

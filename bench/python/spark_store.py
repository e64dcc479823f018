"""Row 12: an upload in an S3 server on this machine, beside Parquet (Zstandard) in the same server.

It needs the server and the jars of scripts/s3.sh, and their paths in the variables
``TOPICDB_S3_SERVER`` and ``TOPICDB_S3_JARS``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from spark_measure import Side, measured, to_noop, turns
from spark_native import NATIVE, QUERIES, answer, write_zstd
from spark_report import PARQUET, Line
from spark_rows import Bench

import topicdb
from topicdb.spark import connector
from topicdb.uploads import upload

SERVER = os.environ.get("TOPICDB_S3_SERVER", "")
JARS = os.environ.get("TOPICDB_S3_JARS", "")
BUCKET, KEY, SECRET = "bench", "bench", "no-secret-at-all"
PATIENCE_S = 60
FASTER = 0.9
ASKED = ("full read", "sum(length(value))", "topic and time", "one host of 1,000")


@dataclass(frozen=True)
class Store:
    """A server whose buckets are folders of ``root``."""

    root: Path
    endpoint: str

    def settings(self) -> dict[str, str]:
        """Returns the settings with which Spark reads there."""
        return {
            "spark.jars": ",".join(str(path) for path in sorted(Path(JARS).glob("*.jar"))),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }


@contextmanager
def running_store(directory: Path) -> Iterator[Store | None]:
    """Runs a server for the length of the block; gives None without the variables."""
    if not (SERVER and JARS):
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = directory / "store"
    (root / BUCKET).mkdir(parents=True)
    command = [SERVER, "--host", "127.0.0.1", "--port", str(port)]
    keys = ["--access-key", KEY, "--secret-key", SECRET, str(root)]
    with subprocess.Popen(
        [*command, *keys], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _await(port)
            yield Store(root, f"http://127.0.0.1:{port}")
        finally:
            process.kill()


def store_reads(bench: Bench) -> None:
    """Measures queries over the upload and over Parquet, after a check that they give the same."""
    store: Store | None = bench.store
    if store is None:
        bench.report.add(Line("12", "from S3", "no server: see scripts/s3.sh"))
        return
    connector.add(bench.spark)
    write_zstd(bench.read_parquet(), store.root / BUCKET / "came")
    place = (
        f"s3://{KEY}:{SECRET}@{BUCKET}/upload?endpoint_override={store.endpoint}&region=us-east-1"
    )
    with topicdb.open(bench.database) as database:
        began = time.perf_counter()
        made = upload(database, place)
        took = time.perf_counter() - began
    bench.report.add(Line("12", "upload to S3", f"{made.bytes / took / 1e6:.0f} MB/s"))
    # By name: this server answers with an error if it is asked whether a folder is an object.
    found_files = sorted((store.root / BUCKET / "came").glob("*.parquet"))
    files = [f"s3a://{BUCKET}/came/{path.name}" for path in found_files]
    sources: dict[str, Callable[[], DataFrame]] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).load(f"s3a://{BUCKET}/upload"),
        PARQUET: lambda: bench.spark.read.parquet(*files),
    }
    for what in ASKED:
        query = QUERIES[what][0]
        found = answer(query(sources[NATIVE]()))
        bench.report.same(f"12 {what}", answer(query(sources[PARQUET]())), found)

        def side(
            read: Callable[[], DataFrame], query: Callable[[DataFrame], DataFrame] = query
        ) -> Side:
            return lambda: measured(lambda: to_noop(query(read())))

        timings = turns({name: side(read) for name, read in sources.items()}, bench.rounds)
        faster = FASTER if what == "full read" else 0
        bench.report.add_rates("12", f"from S3: {what}", bench.rows, timings, faster=faster)
    shutil.rmtree(store.root / BUCKET)


def _await(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return

"""Reads and writes by the connector in Java, with whichever Spark Python finds.

``spark_version_program.py classic|connect DIRECTORY`` uses only what Spark 3.5 has. It compares
every answer with what it stored, and ends at the first that is not the same. Its last line names
the version. The session gets the JAR while it runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name Spark users know
from served import serving
from spark_settings import PATIENCE, be_patient

import topicdb
import topicdb.spark
from topicdb.uploads import upload

NAME = "topicdb"
ROWS = 12_000
HOUR_US = 3_600_000_000
DELETED = "m/h7/cpu"
Row = tuple[str, int, bytes]
Rows = set[Row]


def session(kind: str, root: Path) -> SparkSession:
    """Starts a Spark with the connector, and with ``root`` as the folder of its catalog."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    be_patient()
    builder = SparkSession.builder
    builder = builder.master("local[2]") if kind == "classic" else builder.remote("local[2]")
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.catalog.topicdb", "io.topicdb.spark.TopicDbCatalog")
        .config("spark.sql.catalog.topicdb.root", str(root))
        .config(map=dict(PATIENCE))
        .getOrCreate()
    )
    if kind == "classic":
        spark.sparkContext.setLogLevel("OFF")
    topicdb.spark.register(spark)
    return spark


def fill(path: Path) -> Rows:
    """Stores messages of 20 hosts in an order that is not that of their times; deletes one host's.

    Returns those that are left.
    """
    rows = [
        (f"m/h{i % 20}/cpu", (i * 7919 % ROWS) * HOUR_US // 100, b"%d" % i) for i in range(ROWS)
    ]
    with topicdb.open(path, shards=3, structures=["m/+/cpu"]) as database:
        for begin in range(0, ROWS, 3_000):
            database.append(rows[begin : begin + 3_000])
            database.rotate()
        database.delete(DELETED)
    return {row for row in rows if row[0] != DELETED}


def us(time: datetime) -> int:
    """Returns microseconds since 1970 of a time of Spark, which is in local time without a zone."""
    return round(time.timestamp() * 1e6)


def rows_of(frame: DataFrame) -> Rows:
    """Returns the messages of a frame, each of which must be there once."""
    found = [
        (
            row.topic,
            row.timestamp if isinstance(row.timestamp, int) else us(row.timestamp),
            bytes(row.value),
        )
        for row in frame.select("topic", "timestamp", "value").collect()
    ]
    assert len(found) == len(set(found)), "a message was read twice"
    return set(found)


class Checks:
    """What is checked, one function each. The program owns it."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self._path = directory / "fleet.db"
        self._rows = fill(self._path)

    def _load(self, **options: str) -> DataFrame:
        return self._spark.read.format(NAME).options(**{"path": str(self._path), **options}).load()

    def batch(self) -> None:
        """Reads all, some and few."""
        frame = self._load()
        assert rows_of(frame) == self._rows
        host = frame.where("topic = 'm/h3/cpu'")
        assert rows_of(host) == {row for row in self._rows if row[0] == "m/h3/cpu"}
        begin = datetime.fromtimestamp(3600, timezone.utc)
        late = frame.where(F.col("timestamp") >= F.lit(begin))
        assert rows_of(late) == {row for row in self._rows if row[1] >= HOUR_US}
        assert len(frame.limit(17).collect()) == 17
        found = {bytes(row.value) for row in frame.select("value").collect()}
        assert found == {row[2] for row in self._rows}

    def aggregates(self) -> None:
        """Counts, and finds the newest and oldest times, by topic or not."""
        frame = self._load()
        assert frame.count() == len(self._rows)
        times = [row[1] for row in self._rows]
        [found] = frame.agg(F.min("timestamp"), F.max("timestamp")).collect()
        assert (us(found[0]), us(found[1])) == (min(times), max(times))
        counts = {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()}
        assert counts == {f"m/h{i}/cpu": ROWS // 20 for i in range(20) if i != 7}
        hours = frame.groupBy(F.date_trunc("hour", "timestamp")).count().collect()
        assert {us(row[0]) // HOUR_US: row[1] for row in hours} == {
            hour: sum(1 for time in times if time // HOUR_US == hour) for hour in range(ROWS // 100)
        }

    def catalog(self) -> None:
        """Asks in SQL."""
        [row] = self._spark.sql("SELECT count(*), sum(length(value)) FROM topicdb.fleet").collect()
        assert tuple(row) == (len(self._rows), sum(len(row[2]) for row in self._rows))
        matching = self._spark.sql(
            "SELECT topicdb.topic_level(topic, 2) AS host, count(*) FROM topicdb.fleet "
            "WHERE topicdb.topic_matches('m/h1/#', topic) GROUP BY 1"
        )
        assert [tuple(row) for row in matching.collect()] == [("h1", ROWS // 20)]

    def writes(self) -> None:
        """Writes a batch, and a stream of micro-batches."""
        target = self._directory / "written.db"
        topicdb.open(target, shards=2).close()
        self._load().write.format(NAME).mode("append").save(str(target))
        self._same(target)
        copied = self._directory / "streamed.db"
        topicdb.open(copied, shards=2).close()
        reading = self._spark.readStream.format(NAME).options(
            startingOffsets="earliest", maxMessagesPerTrigger="5000"
        )
        for _ in range(2):  # the second query goes on from the checkpoint, and has nothing to do
            query = (
                reading.load(str(self._path))
                .writeStream.format(NAME)
                .option("checkpointLocation", str(self._directory / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(copied))
            )
            query.awaitTermination()
        self._same(copied)

    def servers(self) -> None:
        """Reads from a server, and writes to one."""
        target = self._directory / "sent.db"
        topicdb.open(target, shards=2).close()
        with (
            topicdb.open(self._path, mode="r") as source,
            serving(source) as server,
            topicdb.open(target) as database,
            serving(database) as other,
        ):
            frame = self._spark.read.format(NAME).option("remote", server.url).load()
            assert rows_of(frame) == self._rows
            frame.write.format(NAME).mode("append").option("remote", other.url).save()
        self._same(target)

    def uploads(self) -> None:
        """Reads an upload by a file system of Hadoop."""
        place = self._directory / "upload"
        place.mkdir()
        with topicdb.open(self._path) as database:
            upload(database, str(place))
        assert rows_of(self._load(path=f"file://{place}")) == self._rows

    def errors(self) -> None:
        """Names what is missing."""
        with pytest.raises(Exception, match="NotFoundError"):  # its class depends on the version
            self._load(path=str(self._directory / "none.db")).count()

    def _same(self, target: Path) -> None:
        with topicdb.open(target, mode="r") as database:
            found = [(m.topic, m.timestamp, m.value) for m in database.scan("#")]
        assert len(found) == len(self._rows), (target, len(found))
        assert set(found) == self._rows


def main() -> None:
    warnings.simplefilter("ignore")
    kind, place = sys.argv[1:]
    directory = Path(place)
    spark = session(kind, directory)
    checks = Checks(spark, directory)
    run: list[Callable[[], None]] = [
        checks.batch,
        checks.aggregates,
        checks.catalog,
        checks.writes,
        checks.servers,
        checks.uploads,
        checks.errors,
    ]
    for check in run:
        check()
        print(check.__name__, flush=True)
    spark.stop()
    print("Spark", pyspark.__version__, kind, flush=True)


if __name__ == "__main__":
    main()

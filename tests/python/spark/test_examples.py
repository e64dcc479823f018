"""The pipelines of examples/, at small size with real brokers, count every message once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from brokers import MOSQUITTO, Broker, UnavailableError, kafka, kafka_jars, mosquitto
from confluent_kafka import Consumer, Producer, TopicPartition
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.sql import SparkSession
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.spark import register

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from examples import backfill_parquet, mqtt_to_parquet  # noqa: E402

Stored = tuple[str, int, bytes]
SPARK_SECONDS = 600.0  # far longer than Spark needs to start and do little
START_MS = 1_772_352_000_000
MINUTE_MS = 60_000


def stored(path: Path) -> list[Stored]:
    """Returns the stored messages, sorted; another process may be writing."""
    try:
        with topicdb.open(path, mode="r") as database:
            return sorted((m.topic, m.timestamp, m.value) for m in database.scan("#"))
    except topicdb.NotFoundError:  # the database does not exist yet
        return []


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process in a session of its own; in the end every process of it is killed."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | environment,
            cwd=log.parent,
        )
    try:
        yield process
    finally:
        kill_session(process)


def session_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Returns the processes of a session: also Spark's JVM, and workers in other groups."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # the process has just ended
            continue
        if session == str(process.pid) and state != "Z":
            found.append(int(stat.parent.name))
    return found


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the processes of a session with SIGKILL, and waits until they are gone."""
    deadline = time.monotonic() + PATIENCE_S
    while found := session_of(process):
        assert time.monotonic() < deadline, f"still there: {found}"
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    process.wait()


def wait_for_messages(count: int, path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when ``count`` messages are stored; fails with the log if the process ends."""
    deadline = time.monotonic() + SPARK_SECONDS
    while len(stored(path)) < count:
        assert process.poll() is None, f"it ended:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"not {count} messages yet:\n{log.read_text()}"
        time.sleep(0.1)  # each call of ``stored`` opens the database


class Plant:
    """Five devices that report to a broker, and the messages that have to be stored."""

    def __init__(self, port: int) -> None:
        self.sent: list[Stored] = []
        self._number = 0
        self._client = Client(CallbackAPIVersion.VERSION2, "plant")
        self._client.connect("127.0.0.1", port)

    def __enter__(self) -> Plant:
        self._client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, count: int, late: bool = False) -> None:
        """Publishes messages, ``late`` ones with old times; returns when the broker has them."""
        first = self._number if not late else 0
        infos = []
        for i in range(first, first + count):
            ms = START_MS + i * 700 + int(late)
            reading = {"ts": ms, "value": i if i % 7 else "broken"}
            topic, payload = f"plant/d{i % 5}/x", json.dumps(reading).encode()
            self.sent.append((topic, ms * 1000, payload))
            infos.append(self._client.publish(topic, payload, qos=2))
        for info in infos:
            info.wait_for_publish(PATIENCE_S)
        self._number += 0 if late else count

    def minutes(self) -> dict[tuple[str, int], tuple[int, int, float | None]]:
        """Returns messages, numbers and mean of the numbers by device and minute."""
        values: dict[tuple[str, int], list[object]] = {}
        for topic, timestamp, payload in self.sent:
            minute = timestamp // 1000 // MINUTE_MS * MINUTE_MS // 1000
            key = (topic.split("/")[1], minute)
            values.setdefault(key, []).append(json.loads(payload)["value"])
        found = {}
        for key, all_of_it in values.items():
            numbers = [value for value in all_of_it if isinstance(value, int)]
            mean = sum(numbers) / len(numbers) if numbers else None
            found[key] = (len(all_of_it), len(numbers), mean)
        return found


def minutes_of(
    spark: SparkSession, report: Path
) -> dict[tuple[str, int], tuple[int, int, float | None]]:
    """Returns what ``Plant.minutes`` returns, from a report."""
    rows = mqtt_to_parquet.totals(spark, str(report)).selectExpr(
        "device", "unix_seconds(minute)", "messages", "numbers", "mean"
    )
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows.collect()}


def bridge(broker: Broker, database: Path) -> list[str]:
    script = str(ROOT / "examples" / "mqtt_to_parquet.py")
    return [script, "bridge", str(database), "--port", str(broker.port)]


def begin_session(broker: Broker, database: Path) -> None:
    """Makes the broker keep messages for the bridge from now on."""
    with (
        topicdb.open(database) as db,
        Bridge(db, "127.0.0.1", broker.port, filters=["plant/#"]) as first,
    ):
        wait_until(lambda: first.status().state == "connected")


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
def test_mqtt_to_parquet(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    database, log = tmp_path / "plant.db", tmp_path / "bridge.log"
    options = Namespace(
        database=str(database),
        report=str(tmp_path / "stream"),
        max_messages=400,
        start=None,
        end=None,
    )

    def run_stream() -> int:
        """Runs the stream, and returns how many micro-batches there are then."""
        mqtt_to_parquet.stream(spark, options)
        return len(list(Path(options.report).glob("batch=*")))

    with mosquitto(tmp_path / "mosquitto") as broker, Plant(broker.port) as plant:
        begin_session(broker, database)
        command = bridge(broker, database)
        with running(command, log) as process:
            plant.publish(300)
            wait_for_messages(1, database, process, log)
            kill_session(process)
        plant.publish(300)
        with running(command, log) as process:
            wait_for_messages(len(plant.sent), database, process, log)
            first = run_stream()
            assert first > 1
            plant.publish(50)
            plant.publish(50, late=True)
            wait_for_messages(len(plant.sent), database, process, log)
            second = run_stream()
            assert second > first
            assert run_stream() == second  # nothing was new
            assert minutes_of(spark, Path(options.report)) == plant.minutes()
            mqtt_to_parquet.batch(
                spark, Namespace(**{**vars(options), "report": str(tmp_path / "b")})
            )
            assert minutes_of(spark, tmp_path / "b") == plant.minutes()
            process.terminate()
            assert process.wait(SPARK_SECONDS) == 0, log.read_text()
    assert stored(database) == sorted(plant.sent)


def readings_by_month(rows: int, zone: ZoneInfo) -> dict[tuple[str, str], tuple[int, float]]:
    """Returns readings and their mean by month and sensor of the sample's first site."""
    step = backfill_parquet.SAMPLE_SECONDS // rows
    values: dict[tuple[str, str], list[float]] = {}
    for i in range(0, rows, 3):
        time_of = datetime.fromtimestamp(backfill_parquet.SAMPLE_START + i * step, zone)
        sensor = ["temperature", "pressure", "vibration"][i // 3 % 3]
        values.setdefault((f"{time_of:%Y-%m}", sensor), []).append(i % 1000 / 10)
    return {key: (len(found), sum(found) / len(found)) for key, found in values.items()}


def test_backfill_parquet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    files, database = str(tmp_path / "readings"), str(tmp_path / "plant.db")
    rows = 3_000  # a number that puts rows whole seconds apart
    backfill_parquet.sample(spark, files, rows)
    assert backfill_parquet.choose_shards(spark, files) == 1
    monkeypatch.setattr(backfill_parquet, "SHARD_BYTES", 1)
    assert backfill_parquet.load(spark, files, database, None) == rows
    with topicdb.open(database, mode="r") as db:
        assert len(db.stats()["shards"]) == spark.sparkContext.defaultParallelism

    zone = ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "")
    monthly = backfill_parquet.monthly(spark, database, "s1").collect()
    wanted = readings_by_month(rows, zone)
    assert {(row.month, row.sensor): row.readings for row in monthly} == {
        key: count for key, (count, _) in wanted.items()
    }
    assert {(row.month, row.sensor): row.mean for row in monthly} == pytest.approx(
        {key: mean for key, (_, mean) in wanted.items()}
    )
    first = backfill_parquet.first_of(database, "s1", "2025-01-01T00:00:00Z", rows=2)
    assert [(m.topic, m.value) for m in first] == [
        ("plant/s1/temperature", b"0.0"),
        ("plant/s1/pressure", b"0.3"),
    ]

    with pytest.raises(SystemExit, match="has messages"):
        backfill_parquet.load(spark, files, database, None)
    with topicdb.open(database) as db:
        db.delete("plant/s1/pressure", start=first[1].timestamp, end=first[1].timestamp + 1)
    found = backfill_parquet.differences(
        spark.read.format("topicdb").load(database),
        backfill_parquet.messages(spark.read.parquet(files)),
    )
    assert [(row.topic, row.missing) for row in found.collect()] == [("plant/s1/pressure", 1)]


class Line:
    """A producer of records for Kafka, and the messages that have to be stored."""

    TOPIC = "plant.line1"

    def __init__(self, port: int) -> None:
        self.sent: list[Stored] = []
        # Kafka deletes records that are a week old.
        self._start_ms = int(time.time() * 1000) - 60_000
        self._servers = f"127.0.0.1:{port}"
        # A producer that is not idempotent stores records twice if the broker answers late.
        self._producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "log_level": 0,
                "enable.idempotence": True,
            }
        )

    def produce(self, count: int) -> None:
        """Produces records, some without a key or a value, until the broker has them."""
        failed: list[object] = []
        first = len(self.sent)
        for i in range(first, first + count):
            key = None if i % 5 == 0 else f"press/{i % 7}"
            value = None if i % 11 == 0 else b"%d" % i
            self._producer.produce(
                self.TOPIC,
                value,
                key,
                timestamp=self._start_ms + i,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            self.sent.append((key or "plant/line1", (self._start_ms + i) * 1000, value or b""))
        assert self._producer.flush(PATIENCE_S) == 0
        assert failed == []

    def records(self) -> int:
        """Returns how many records the broker has."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "count"})
        try:
            partitions = consumer.list_topics(self.TOPIC, PATIENCE_S).topics[self.TOPIC].partitions
            marks = [
                consumer.get_watermark_offsets(TopicPartition(self.TOPIC, number), PATIENCE_S)
                for number in partitions
            ]
        finally:
            consumer.close()
        return sum(high - low for low, high in marks)


def forget_last_commit(checkpoint: Path) -> None:
    """Makes it look as if Spark was killed between TopicDB's commit and its own."""
    last = {
        name: max((checkpoint / name).glob("[0-9]*"), key=lambda file: int(file.name))
        for name in ("offsets", "commits")
    }
    if last["offsets"].name == last["commits"].name:  # otherwise it was killed in a micro-batch
        last["commits"].unlink()
        last["commits"].with_name(f".{last['commits'].name}.crc").unlink(missing_ok=True)


@pytest.mark.kafka
@pytest.mark.long
def test_kafka_to_topicdb(tmp_path: Path) -> None:
    """The test starts a Spark of its own, which must have the Kafka source when it starts."""
    try:
        jars = ",".join(map(str, sorted(Path(kafka_jars("spark")).glob("*.jar"))))
        made = kafka(tmp_path / "kafka")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    database, log = tmp_path / "plant.db", tmp_path / "query.log"
    environment = {
        # Killed processes clean nothing up.
        "TMPDIR": str(tmp_path),
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # The JVM runs for seconds, and would spend most of them compiling.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData "
        f"-Djava.io.tmpdir={tmp_path}",
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
        "--conf spark.driver.host=127.0.0.1 --conf spark.sql.codegen.wholeStage=false "
        "--conf spark.sql.codegen.factoryMode=NO_CODEGEN pyspark-shell",
    }
    with made as broker:
        line = Line(broker.port)
        line.produce(400)
        command = [
            str(ROOT / "examples" / "kafka_to_topicdb.py"),
            f"127.0.0.1:{broker.port}",
            Line.TOPIC,
            str(database),
            *("--shards", "2", "--jars", jars),
        ]
        following = [*command, "--follow", "--interval", "0 seconds", "--max-records", "40"]
        with running(following, log, **environment) as process:
            wait_for_messages(80, database, process, log)
            kill_session(process)
        before = len(stored(database))
        forget_last_commit(tmp_path / "plant.db.checkpoint")
        line.produce(200)
        with running(command, log, **environment) as process:
            assert process.wait(SPARK_SECONDS) == 0, log.read_text()
        assert line.records() == len(line.sent)
    assert before < len(line.sent)
    assert stored(database) == sorted(line.sent)

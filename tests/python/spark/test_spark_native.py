"""Tests of format("topicdb"): what the source in Java does in a way of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support import wait_until

import topicdb
import topicdb.spark
from sealing import wait_for_sealing
from topicdb.spark import connector

ROOT = Path(__file__).resolve().parents[3]
METRICS = (
    "Messages",
    "Bytes",
    "Batches",
    "BatchBytesMax",
    "Blocks",
    "BlocksSkipped",
    "Pages",
    "PagesSkipped",
    "Examined",
    "StoredBytes",
)
TOPICS = ["a", "a/", "a/b", "a/b/c", "ab/c", "/", "/a", "$SYS", "$SYS/a", "b/b", "b", "ü/b"]
FILTERS = ["#", "+/#", "a/#", "+/b", "$SYS/#", '["a/b", "/#", "+/a/+"]']
PREDICATES = [
    "topic = 'a/b'",
    "'a/b' = topic",
    "topic <=> '$SYS'",
    "topic IN ('a', 'b', '$SYS/a', 'a/+', '#')",
    "topic IN ('a', null)",
    "topic LIKE 'a/%'",
    "topic LIKE 'a%'",
    "topic LIKE '/%'",
    "topic LIKE '+/%'",
    "topic LIKE '$SYS/%'",
    "startswith(topic, 'ü/')",
    "NOT topic = 'a'",
    "topic > 'a/b'",
    "length(topic) = 3",
    "topic = '' OR topic = 'b'",
    "timestamp = timestamp_micros(5)",
    "timestamp <=> timestamp_micros(5)",
    "timestamp < timestamp_micros(5)",
    "timestamp_micros(5) < timestamp",
    "timestamp <= timestamp_micros(5)",
    "timestamp >= timestamp_micros(5)",
    "timestamp > timestamp_micros(9)",
    "timestamp > timestamp_micros(-5)",
    "timestamp < timestamp_micros(0)",
    "timestamp IN (timestamp_micros(1), timestamp_micros(9), null)",
    "timestamp IN (timestamp_micros(5))",
    "timestamp BETWEEN timestamp_micros(1) AND timestamp_micros(5)",
    "topic = 'a/b' AND timestamp > timestamp_micros(1)",
    "topic LIKE 'a/%' AND topic LIKE '%/b' AND timestamp < timestamp_micros(9)",
    "value IS NULL",
    "value IS NOT NULL AND topic IS NOT NULL",
    "value = X'35'",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("small") / "db")
    with topicdb.open(place, shards=2) as db:
        db.append([(topic, time, b"%d" % time) for topic in TOPICS for time in (0, 1, 5, 9)])
    return place


@pytest.fixture
def full(path: str) -> str:
    """The path of a database with many messages in three shards."""
    with topicdb.open(path) as db:
        for start in range(0, 60_000, 10_000):
            rows = range(start, start + 10_000)
            db.append([(f"m/h{i % 70}/cpu", i, b"%d" % i) for i in rows])
    return path


def load(spark: SparkSession, path: str, **given: str) -> DataFrame:
    return spark.read.format("topicdb").options(**given).load(path)


def rows_of(frame: DataFrame) -> list[tuple[str, int, bytes]]:
    found = frame.selectExpr("topic", "unix_micros(timestamp) t", "value").collect()
    return sorted((row.topic, row.t, bytes(row.value)) for row in found)


def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def explained(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().toString()
    return text


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("filter", [None, *FILTERS])
def test_predicates_give_what_spark_finds_without_them(
    spark: SparkSession, small: str, filter: str | None
) -> None:
    given = {} if filter is None else {"topicFilter": filter}
    for predicate in PREDICATES:
        pushed = rows_of(load(spark, small, **given).where(predicate))
        checked = rows_of(load(spark, small, pushdown="false", **given).where(predicate))
        assert pushed == checked, predicate


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("where", "filters", "times"),
    [
        ("topic = 'a/b'", "a/b", ".."),
        ("topic = '$SYS'", "", ".."),
        ("topic LIKE 'a/b%'", "a/#", ".."),
        ("topic IN ('b', 'a', 'b')", "a, b", ".."),
        ("timestamp >= timestamp_micros(5)", "#", "5.."),
        ("timestamp BETWEEN timestamp_micros(1) AND timestamp_micros(5)", "#", "1..6"),
        ("topic <> 'a'", "#", ".."),
    ],
)
def test_explain_shows_what_is_read(
    spark: SparkSession, small: str, where: str, filters: str, times: str
) -> None:
    text = explained(load(spark, small, topicFilter="#").where(where).select("topic"))
    assert f"topicdb {small}, filters [{filters}], timestamps [{times}]" in text
    assert "columns [topic" in text


@pytest.mark.usefixtures("native")
def test_what_is_pushed_exactly_is_not_checked_again(spark: SparkSession, small: str) -> None:
    where = "topic = 'a/b' AND timestamp < timestamp_micros(9)"
    plan = load(spark, small).where(where)._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan
    plan = load(spark, small, pushdown="false").where(where)._jdf.queryExecution().executedPlan()
    assert "Filter (" in plan.toString()


@pytest.mark.usefixtures("native")
def test_a_limit_ends_a_task_early(spark: SparkSession, full: str) -> None:
    frame = load(spark, full, minPartitions="4").limit(7)
    assert ", limit 7" in explained(frame)
    assert frame.count() == 7
    assert len(load(spark, full).where("topic LIKE '%h1/cpu'").limit(5).collect()) == 5
    assert messages_read(frame) <= 7 * 6


def messages_read(frame: DataFrame) -> int:
    """Runs a query, and returns how many messages its scan has read."""
    return metrics_of(frame)["Messages"]


def metrics_of(frame: DataFrame) -> dict[str, int]:
    """Runs a query, and returns the metrics of its scan: sums over its tasks."""
    frame.write.format("noop").mode("overwrite").save()
    execution = frame._jdf.queryExecution()
    execution.executedPlan().executeCollectPublic()
    leaves = execution.executedPlan().collectLeaves()
    found = dict.fromkeys(METRICS, 0)
    for number in range(leaves.size()):
        metrics = leaves.apply(number).metrics()
        for name in METRICS:
            if metrics.contains("topicdb" + name):
                found[name] += metrics.apply("topicdb" + name).value()
    return found


@pytest.mark.usefixtures("native")
def test_metrics_count_what_was_read(spark: SparkSession, full: str) -> None:
    assert messages_read(load(spark, full)) == 60_000
    assert messages_read(load(spark, full).where("topic = 'm/h3/cpu'")) == 858
    whole = metrics_of(load(spark, full))
    assert whole["Messages"] == whole["Examined"] == 60_000
    assert whole["Batches"] >= 6
    assert 0 < whole["StoredBytes"] < whole["Bytes"]
    assert 0 < whole["BatchBytesMax"] < whole["Bytes"]
    assert whole["Pages"] > 0
    assert whole["BlocksSkipped"] == whole["PagesSkipped"] == 0
    keys = metrics_of(load(spark, full).select("timestamp"))
    assert keys["Messages"] == 60_000
    assert keys["Bytes"] < whole["Bytes"]
    nothing = metrics_of(load(spark, full).where("topic = 'm/none'"))
    assert nothing["Messages"] == nothing["Pages"] == 0


@pytest.mark.usefixtures("native")
def test_columns_of_sealed_blocks_come_alone(spark: SparkSession, path: str) -> None:
    with topicdb.open(path, seal_bytes=200_000) as db:
        for turn in range(3):
            numbers = range(turn * 10_000, turn * 10_000 + 10_000)
            db.append([(f"m/{i % 50}", i, b"%0200d" % i) for i in numbers])
        wait_for_sealing(db)
        db.append([("m/late", 7, b"late")])
        db.delete("m/3", start=0, end=5_000)
    found = metrics_of(load(spark, path).where("topic = 'm/7'"))
    assert found["Messages"] == 600
    assert found["PagesSkipped"] > 0
    assert found["Examined"] < 15_000
    frame = load(spark, path, includeMetadata="true")
    plain = load(spark, path, includeMetadata="true", pushdown="false")
    for where in ("true", "topic IN ('m/3', 'm/4')", "timestamp > timestamp_micros(4000)"):
        wanted = plain.where(where).collect()
        for chosen in (["timestamp"], ["value"], ["serial"], ["timestamp", "serial"]):
            rows = frame.where(where).select(*chosen).collect()
            assert sorted(tuple(row) for row in rows) == sorted(
                tuple(row[name] for name in chosen) for row in wanted
            ), (where, chosen)


@pytest.mark.usefixtures("native")
def test_metrics_are_shown_though_the_session_has_added_the_jar(
    spark: SparkSession, full: str
) -> None:
    """Spark makes metrics anew with a class loader that does not know such a JAR by itself."""
    assert len(load(spark, full).collect()) == 60_000
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsList().last()
    metrics = [last.metrics().apply(i) for i in range(last.metrics().size())]
    ids = {metric.name(): metric.accumulatorId() for metric in metrics}
    values = store.executionMetrics(last.executionId())
    assert values.apply(ids["messages read"]) == "60000"
    assert 0 < int(values.apply(ids["bytes of the largest batch"])) <= 8 << 20
    assert int(values.apply(ids["pages read"])) > 0


def test_rows_that_are_kept_outlive_their_batch(spark: SparkSession, full: str) -> None:
    frame = load(spark, full)
    wanted = sorted((f"m/h{i % 70}/cpu", i, b"%d" % i) for i in range(60_000))
    ordered = frame.orderBy("topic", "timestamp").collect()
    assert [(row.topic, bytes(row.value)) for row in ordered] == [(t, v) for t, _, v in wanted]
    joined = frame.alias("a").join(frame.alias("b"), ["topic", "timestamp"])
    assert joined.where("a.value = b.value").count() == 60_000
    assert rows_of(frame.cache()) == wanted
    frame.unpersist()
    counts = {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert len(counts) == 70
    assert sum(counts.values()) == 60_000


@pytest.mark.usefixtures("native")
def test_columns_in_any_choice_and_order(spark: SparkSession, small: str) -> None:
    frame = load(spark, small, includeMetadata="true", includeProperties="true")
    assert frame.count() == 48
    for columns in (
        ["value"],
        ["serial", "topic"],
        ["qos", "value", "topic"],
        ["shard"],
        ["user_properties", "shard", "timestamp"],
    ):
        found = frame.select(*columns)
        assert found.columns == columns
        assert len(found.collect()) == 48
    pairs = {(row.topic, row.shard) for row in frame.select("shard", "topic").collect()}
    assert pairs == {(topic, topicdb.shard_of(topic, 2)) for topic in TOPICS}


@pytest.mark.usefixtures("native")
def test_large_values_and_values_without_bytes(spark: SparkSession, path: str) -> None:
    wanted = [("big/1", 1, bytes(20 << 20)), ("big/2", 2, b""), ("big/1", 3, b"x" * (9 << 20))]
    with topicdb.open(path) as db:
        db.append(wanted)
    frame = load(spark, path).selectExpr("topic", "length(value) n", "hash(value) h")
    found = sorted((row.topic, row.n) for row in frame.collect())
    assert found == sorted((topic, len(value)) for topic, _, value in wanted)


def planned(frame: DataFrame) -> Any:
    """Returns the query of a frame, with its tasks planned."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().getNumPartitions()
    return execution


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("fails", [True, False])
def test_a_dropped_generation_is_an_error_or_skipped(
    spark: SparkSession, path: str, fails: bool
) -> None:
    with topicdb.open(path) as db:
        for turn in range(3):
            db.append([(f"m/{i}", i, b"%d" % turn) for i in range(100)])
            db.rotate()
    frame = load(spark, path, failOnDataLoss=str(fails))
    execution = planned(frame)
    with topicdb.open(path) as db:
        gone = next(slab for slab in db.slabs() if slab.messages and slab.shard == 1)
        db.drop_slab(gone)
    if fails:
        text = f"generation {gone.generation} of class '#' of shard 1 of {path} was dropped"
        with pytest.raises(Exception, match=text):
            execution.toRdd().count()
    else:
        assert execution.toRdd().count() == 300 - gone.messages


@pytest.mark.usefixtures("native")
def test_a_job_sees_the_moment_of_its_plan(spark: SparkSession, path: str) -> None:
    with topicdb.open(path) as db:
        db.append([(f"m/{i}", i, b"1") for i in range(100)])
        execution = planned(load(spark, path))
        db.append([(f"m/{i}", i, b"2") for i in range(100)])
        assert execution.toRdd().count() == 100
    assert load(spark, path).count() == 200


@pytest.mark.usefixtures("native")
def test_damage_fails_the_task_and_leaves_the_jvm(spark: SparkSession, full: str) -> None:
    with topicdb.open(full) as db:
        db.flush()
    copy = full + ".damaged"
    shutil.copytree(full, copy)
    for file in Path(copy).rglob("*.sst"):
        content = bytearray(file.read_bytes())
        for at in range(0, len(content), 512):
            content[at] ^= 0xFF
        file.write_bytes(content)
    with pytest.raises(PySparkException, match=r"CorruptionError|StorageError"):
        load(spark, copy).selectExpr("sum(length(value))").collect()
    assert load(spark, full).count() == 60_000


@pytest.mark.usefixtures("native")
def test_a_cancelled_job_ends(spark: SparkSession, full: str) -> None:
    spark.sparkContext.setJobGroup("endless", "endless", interruptOnCancel=True)
    endless = (
        load(spark, full).crossJoin(load(spark, full).select("value")).selectExpr("sum(hash(*))")
    )
    failure: list[BaseException] = []

    def run() -> None:
        try:
            endless.collect()
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: bool(tracker.getActiveJobsIds()))
    spark.sparkContext.cancelAllJobs()
    thread.join(250)
    assert failure
    assert load(spark, full).count() == 60_000


@pytest.mark.usefixtures("native")
def test_sessions_and_class_loaders_share_a_jvm(
    spark: SparkSession, small: str, tmp_path: Path
) -> None:
    other = spark.newSession()
    copy = str(tmp_path / "again.jar")
    shutil.copyfile(topicdb.spark.jar(), copy)
    other.sql(f"ADD JAR '{copy}'")
    for session in (spark, other, spark):
        assert load(session, small).count() == 48
    topicdb.spark.register(other)
    assert load(other, small).where("topic = 'a/b'").count() == 4
    assert other.conf.get(connector.VERSION_CONF) == topicdb.__version__


@pytest.mark.usefixtures("native")
def test_a_package_of_another_version_is_refused(spark: SparkSession, small: str) -> None:
    other = spark.newSession()
    other.conf.set(connector.VERSION_CONF, "0.0.1")
    with pytest.raises(
        PySparkException, match=r"VersionError: the JAR is of topicdb .* of 0\.0\.1"
    ):
        load(other, small).collect()


JAVA = """
import io.topicdb.spark.Versions;
import io.topicdb.spark.core.NativeLibrary;

public class Bad {
  public static void main(String[] arguments) {
    Versions.checkSpark("3.5.0");
    Versions.checkSpark("4.3.0-preview1");
    tell(() -> Versions.checkSpark("3.4.1"));
    tell(() -> Versions.checkSpark("2.4.8"));
    tell(() -> Versions.checkPackage("0.0.1"));
    tell(() -> NativeLibrary.load("plan9-mips"));
  }

  static void tell(Runnable action) {
    try {
      action.run();
      System.out.println("no error");
    } catch (RuntimeException error) {
      System.out.println(error.getMessage());
    }
  }
}
"""


def test_bad_surroundings_are_named(spark: SparkSession, native: str, tmp_path: Path) -> None:
    (tmp_path / "Bad.java").write_text(JAVA)
    jars = Path(jvm(spark).System.getProperty("java.class.path").split(":")[-1])
    classes = f"{topicdb.spark.jar()}:{jars.parent}/*"
    ran = subprocess.run(
        ["java", "-cp", classes, str(tmp_path / "Bad.java")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert re.match(r"VersionError: .* needs Spark 3\.5 or newer, this is 3\.4\.1", lines[0])
    assert re.match(r"VersionError: .* needs Spark 3\.5 or newer, this is 2\.4\.8", lines[1])
    assert re.match(r"VersionError: the JAR is of topicdb", lines[2])
    assert re.match(r"PlatformError: .*no native library for plan9-mips, only for linux-", lines[3])
    assert len(lines) == 4


def test_the_connector_has_the_table_of_options() -> None:
    text = (ROOT / "spark/resources/io/topicdb/spark/options.tsv").read_text(encoding="utf-8")
    assert text == connector.options_table(), (
        "write it anew: python -c 'from topicdb.spark.connector import options_table; "
        'print(options_table(), end="")\''
    )


def test_a_package_without_the_jar_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "FILE", "none.jar")
    with pytest.raises(topicdb.NotFoundError, match=r"none\.jar does not exist.*without the Spark"):
        topicdb.spark.jar()


def ranges_of_the_heap(process: int) -> list[tuple[int, int]]:
    """Returns the addresses between which a JVM keeps its heap, as the JVM tells them."""
    text = subprocess.run(
        ["jcmd", str(process), "GC.heap_info"], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"\[0x([0-9a-f]+), 0x[0-9a-f]+, 0x([0-9a-f]+)\)", text)
    assert found, text
    return [(int(start, 16), int(end, 16)) for start, end in found]


def bytes_outside_the_heap(process: int) -> int:
    """Returns the resident memory of a JVM without its heap.

    The heap is left out by its addresses: what the JVM calls its size counts memory
    that no object has touched yet, and which is not resident.
    """
    heap = ranges_of_the_heap(process)
    total = 0
    counted = True
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line):
            at = int(mapping[1], 16)
            counted = not any(start <= at < end for start, end in heap)
        elif counted and (resident := re.match(r"Rss:\s+(\d+) kB", line)):
            total += int(resident[1]) * 1024
    return total


@pytest.fixture
def no_adaptive_execution(spark: SparkSession) -> Iterator[None]:
    """Spark plans a query once.

    Its adaptive execution begins two threads for each query and lets them end after a minute:
    the memory of their stacks depends on how fast the queries follow each other.
    """
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.long
@pytest.mark.usefixtures("native", "no_adaptive_execution")
def test_memory_stays_flat_over_many_scans(spark: SparkSession, full: str) -> None:
    def scan(times: int) -> None:
        for _ in range(times):
            assert load(spark, full).selectExpr("sum(length(value)) n").collect()[0].n > 0

    process = jvm(spark).ProcessHandle.current().pid()
    scan(300)  # until the JVM has the code that it compiles for them
    before = bytes_outside_the_heap(process)
    scan(700)
    assert bytes_outside_the_heap(process) - before < 64 << 20

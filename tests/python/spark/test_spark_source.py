"""Tests of batch reads with format("topicdb")."""

from __future__ import annotations

import functools
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_places import NATIVE, PYTHON, arguments_of, both, options_of
from spark_streams import Streams

import topicdb
import topicdb.spark
from topicdb.frames.selection import Selection
from topicdb.replay import Envelope
from topicdb.spark import options
from topicdb.spark.batch import BatchReader, plan

ROOT = Path(__file__).resolve().parents[3]
READS_UPLOADS = True
CONF = "spark.sql.python.filterPushdown.enabled"
DAY_US = 86_400_000_000
Row = tuple[str, int, bytes]
WRITE = """
import itertools, sys, time, topicdb
with topicdb.open(sys.argv[1]) as db:
    for i in itertools.count():
        db.append([(f"live/{n}", 10**15 + i, b"%d" % i) for n in range(30)])
        if i == 10:
            print("writing", flush=True)
        time.sleep(0.005)
"""


@pytest.fixture(params=[True])
def pushdown(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    spark.conf.set(CONF, str(request.param).lower())
    yield request.param
    spark.conf.unset(CONF)


def messages() -> list[Row]:
    topics = ["site/1/temp", "site/10/temp", "site/1", "site", "other/x", "$SYS/x", "ü/ñ"]
    return [(topics[i % 7], i * DAY_US // 8, b"\0%d" % i) for i in range(700)]


def fill(path: str) -> None:
    with topicdb.open(path) as db:
        rows = messages()
        for start in range(0, 700, 100):
            db.append(rows[start : start + 100])
            db.rotate()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("filled") / "db")
    topicdb.open(place, shards=3).close()
    fill(place)
    return place


def load(spark: SparkSession, path: str, *, source: str = PYTHON, **given: object) -> DataFrame:
    options: dict[str, Any] = {**options_of(path), **given}
    return spark.read.format(source).options(**options).load()


def rows_of(frame: DataFrame) -> list[Row]:
    found = frame.selectExpr("topic", "unix_micros(timestamp) t", "value").collect()
    return sorted((row.topic, row.t, bytes(row.value)) for row in found)


def test_all_messages_with_their_types(spark: SparkSession, filled: str, source: str) -> None:
    frame = load(spark, filled, source=source)
    assert frame.dtypes == [("topic", "string"), ("timestamp", "timestamp"), ("value", "binary")]
    assert rows_of(frame) == sorted(messages())


def test_properties_are_columns_on_request(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    path = str(tmp_path / "db")
    envelope = Envelope(
        b"21.5",
        qos=1,
        content_type="text/plain",
        correlation_data=b"\x00",
        user_properties=(("unit", "K"), ("unit", "C")),
        subscription_ids=(3,),
        received=7_000_000,
    )
    with topicdb.open(path) as db:
        db.append([("a/1", 5_000_000, envelope.encode()), ("a/2", 6_000_000, b"plain")], raw=True)
    frame = load(spark, path, source=source)
    assert rows_of(frame) == [("a/1", 5_000_000, b"21.5"), ("a/2", 6_000_000, b"plain")]
    full = load(spark, path, source=source, includeProperties="true", includeMetadata="true")
    assert full.columns[:6] == ["topic", "timestamp", "value", "shard", "serial", "qos"]
    assert full.columns[5:] == list(topicdb.Properties._fields)
    one, two = full.orderBy("topic").selectExpr("*", "unix_micros(received) r").collect()
    assert (bytes(one.value), one.qos, one.retain, one.r) == (b"21.5", 1, False, 7_000_000)
    assert [(p["name"], p["value"]) for p in one.user_properties] == [("unit", "K"), ("unit", "C")]
    assert (one.content_type, bytes(one.correlation_data)) == ("text/plain", b"\x00")
    assert (one.client_id, one.subscription_ids) == (None, [3])
    assert all(two[name] is None for name in topicdb.Properties._fields)
    units = full.where("exists(user_properties, p -> p.value = 'C') AND qos IS NOT NULL")
    assert units.count() == 1
    found = topicdb.spark.read_dataframe(spark, **arguments_of(path), properties=True)
    assert found.where("content_type = 'text/plain'").count() == 1


def day(number: int) -> int:
    """Returns midnight of a day of January 1970 in New York, the session's time zone."""
    return (number - 1) * DAY_US + 5 * 3_600_000_000


CASES: list[tuple[str, Callable[[str, int], bool]]] = [
    ("topic = 'site/1'", lambda topic, t: topic == "site/1"),
    ("topic = '$SYS/x'", lambda topic, t: topic == "$SYS/x"),
    ("topic IN ('site', 'ü/ñ', 'none')", lambda topic, t: topic in ("site", "ü/ñ")),
    ("topic LIKE 'site/%'", lambda topic, t: topic.startswith("site/")),
    ("topic LIKE 'site/1%'", lambda topic, t: topic.startswith("site/1")),
    ("topic <> 'site'", lambda topic, t: topic != "site"),
    ("topic = 'a/+'", lambda topic, t: False),
    ("timestamp < '1970-01-03'", lambda topic, t: t < day(3)),
    ("timestamp BETWEEN '1970-01-03' AND '1970-01-05'", lambda topic, t: day(3) <= t <= day(5)),
    ("date(timestamp) = '1970-01-03'", lambda topic, t: day(3) <= t < day(4)),
    (
        "topic LIKE 'site/%/temp' AND timestamp > '1970-01-05' OR topic = 'other/x'",
        lambda topic, t: (
            (topic.startswith("site/") and topic.endswith("/temp") and t > day(5))
            or topic == "other/x"
        ),
    ),
    ("topic IS NULL OR value IS NULL", lambda topic, t: False),
]


# Without pushdown Spark filters, so some cases will do.
RUNS = [(True, *case) for case in CASES] + [(False, *case) for case in CASES[1::5]]


@pytest.mark.parametrize(("pushdown", "where", "wanted"), RUNS, indirect=["pushdown"])
def test_predicates(
    spark: SparkSession,
    filled: str,
    source: str,
    pushdown: bool,
    where: str,
    wanted: Callable[[str, int], bool],
) -> None:
    found = rows_of(load(spark, filled, source=source).where(where))
    assert found == sorted(row for row in messages() if wanted(row[0], row[1]))


@both
def test_predicates_choose_what_is_read(spark: SparkSession, path: str) -> None:
    fill(path)
    one = options.batch_options(options_of(path))
    reader = BatchReader(one)
    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

    late = datetime(1970, 3, 20, tzinfo=timezone.utc)
    assert list(reader.pushFilters([GreaterThanOrEqual(("timestamp",), late)])) == []
    assert list(reader.pushFilters([EqualTo(("topic",), "site/1")])) == []
    generations = {s.generation for p in reader.partitions() for s in p.slices}  # type: ignore[attr-defined]
    assert generations == {7}
    plan = load(spark, path, pushdown="false").where("topic = 'site'")
    assert plan.count() == 100


def test_options_choose_what_is_read(spark: SparkSession, filled: str, source: str) -> None:
    read = functools.partial(load, spark, filled, source=source)
    both = read(topicFilter='["site/#", "+/1/+", "$SYS/#"]', startingTimestamp="0")
    assert rows_of(both) == sorted(r for r in messages() if r[0][:4] in ("site", "$SYS"))
    hash_ = read(topicFilter="#", endingTimestamp="1970-01-02T00:00:00Z")
    assert rows_of(hash_) == sorted(r for r in messages() if r[1] < DAY_US and r[0][0] != "$")
    with topicdb.open(filled, mode="r") as db:
        serials = {s["shard"]: s["serial"] // 2 for s in db.stats()["shards"]}
    text = str({str(shard): serial for shard, serial in serials.items()}).replace("'", '"')
    first = rows_of(read(endingOffsets=text))
    second = rows_of(read(startingOffsets=text))
    assert 0 < len(first) < 700
    assert sorted(first + second) == sorted(messages())


def test_shards_and_serials_if_asked_for(spark: SparkSession, path: str, source: str) -> None:
    wanted = set()
    with topicdb.open(path) as db:
        for number in range(20):
            rows = [(f"m/{i}", i, b"%d" % number) for i in range(10)]
            serials = db.append(rows).serials
            for topic, _, value in rows:
                shard = topicdb.shard_of(topic, 3)
                wanted.add((topic, value, shard, serials[shard]))
    frame = load(spark, path, source=source, includeMetadata="TRUE")
    assert frame.columns == ["topic", "timestamp", "value", "shard", "serial"]
    columns = frame.select("topic", "value", "shard", "serial")
    assert {(r[0], bytes(r[1]), *r[2:]) for r in columns.collect()} == wanted
    last = max(serial for *_, serial in wanted)
    assert frame.where(f"serial = {last} AND topic LIKE 'm/%'").count() > 0


def test_one_stream_gives_several_tasks(spark: SparkSession, path: str, source: str) -> None:
    with topicdb.open(path) as db:
        db.append([("one/topic", i, bytes(50)) for i in range(20_000)])
    frame = load(spark, path, source=source, minPartitions=4)
    tasks = frame.selectExpr("spark_partition_id() task").groupBy("task").count()
    parts = [row["count"] for row in tasks.collect()]
    assert sum(parts) == 20_000
    assert len(parts) >= 4
    assert max(parts) < 7_000


@pytest.mark.slow
def test_planning_many_slabs(tmp_path: Path) -> None:
    path = str(tmp_path / "many.db")
    with topicdb.open(path, shards=5, retention={f"t/{i}/#": None for i in range(19)}) as db:
        for time_us in range(2):
            db.append([(f"t/{i % 19}/{i}", time_us, bytes(100)) for i in range(19_000)])
            db.append([(f"other{i}", time_us, b"") for i in range(500)])
            if time_us == 0:
                db.rotate()
    with topicdb.open(path, mode="r") as db:
        for filter, start, count in ((None, None, 200), ("t/7/#", 1, 5), ("+/7/+", 0, 10)):
            found = {s[:3] for s in db.slices(filter, start=start)}
            assert count <= len(found) <= 2 * count


def test_nothing_to_read(spark: SparkSession, path: str, source: str, pushdown: bool) -> None:
    read = functools.partial(load, spark, path, source=source)
    assert read().count() == 0  # an empty database
    fill(path)
    assert read(topicFilter="no/such/+").count() == 0
    assert read(startingTimestamp="2100-01-01T00:00:00Z").count() == 0
    assert read().where("topic = 'no'").count() == 0


def test_both_layouts_and_late_commits(spark: SparkSession, tmp_path: Path, source: str) -> None:
    path = str(tmp_path / "state.db")
    with topicdb.open(path, layout="skipstream") as db:
        db.append([(f"m/{i}/cpu", i, b"1") for i in range(500)])
        reader = BatchReader(options.batch_options(options_of(path)))
        partitions = pickle.loads(pickle.dumps(reader.partitions()))
        db.append([(f"m/{i}/cpu", i + 1_000, b"2") for i in range(500)])
        found = [row for p in partitions for batch in reader.read(p) for row in batch.to_pylist()]
        assert {row["value"] for row in found} == {b"1"}
        assert len(found) == 500
    assert load(spark, path, source=source).count() == 1_000


def test_a_job_sees_one_moment_beside_a_writer(spark: SparkSession, path: str, source: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        commits = 0
        for _ in range(3):
            found = rows_of(load(spark, path, source=source, minPartitions=6))
            by_shard: dict[int, list[int]] = {}
            for topic, _, value in found:
                by_shard.setdefault(topicdb.shard_of(topic, 3), []).append(int(value))
            assert len(by_shard) == 3
            for numbers in by_shard.values():  # whole commits, without a gap
                last = max(numbers)
                width = numbers.count(0)
                assert sorted(numbers) == sorted(list(range(last + 1)) * width)
            assert len(found) > commits
            commits = len(found)
    finally:
        writer.kill()
        writer.communicate()


@both
def test_a_dropped_generation_is_an_error_or_skipped(path: str) -> None:
    fill(path)
    for fails in (True, False):
        given = {**options_of(path), "failondataloss": str(fails)}
        reader = BatchReader(options.batch_options(given))
        partitions = reader.partitions()
        with topicdb.open(path) as db:
            gone = next(slab for slab in db.slabs() if slab.messages and slab.shard == 1)
            db.drop_slab(gone)
        plan(reader._options, Selection())  # as another query does: a server looks again
        slices = [s for p in partitions for s in p.slices]  # type: ignore[attr-defined]
        lost = sum(s.messages for s in slices if s[:3] == (1, "#", gone.generation))
        assert lost > 0

        def read(reader: BatchReader = reader, partitions: list[Any] = partitions) -> int:
            return sum(b.num_rows for p in partitions for b in reader.read(p))

        if fails:
            with pytest.raises(
                topicdb.NotFoundError, match=f"generation {gone.generation} of class '#' of shard 1"
            ):
                read()
        else:
            assert read() == sum(s.messages for s in slices) - lost


BAD_OPTIONS = pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topicfilter": "a/#/b"}, r"option topicFilter='a/#/b': filter 'a/#/b'"),
        ({"topicFilter": "[1]"}, "option topicFilter=.*each a string"),
        ({"topicFilter": "["}, "option topicFilter=.*JSON list"),
        ({"topicsFilter": "a"}, "option 'topicsFilter' is unknown; .*topicFilter"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "option startingTimestamp=.*no time zone"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: .*no messages"),
        ({"startingOffsets": '{"0": -1}'}, "option startingOffsets=.*serials of commits"),
        ({"startingOffsets": '{"x": 1}'}, "option startingOffsets=.*serials of commits"),
        ({"maxMessagesPerTrigger": "10"}, "'maxMessagesPerTrigger' is not for a batch read"),
        ({"minPartitions": "0"}, "option minPartitions='0': expected a whole number"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss='maybe': expected true or false"),
        ({"includeMetadata": "1"}, "option includeMetadata='1': expected true or false"),
        ({"remote": "grpc://h"}, "options path and remote: give one of them, not both"),
        ({"token": "t"}, "option token goes with remote"),
        ({"insecure": "true"}, "option insecure goes with remote"),
    ],
    ids=str,
)


@BAD_OPTIONS
def test_bad_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options.batch_options({"path": "x", **given})


@BAD_OPTIONS
def test_both_sources_name_them_in_the_same_words(
    spark: SparkSession, native: str, given: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError) as words:  # noqa: PT011 - the test above matches them
        options.batch_options({"path": "x", **given})
    with pytest.raises(PySparkException, match=re.escape(str(words.value))):
        load(spark, "x", source=native, **given).collect()


@pytest.mark.parametrize("seconds", ["0", "1.5", "1000000000", "99999999999999999"])
def test_a_commit_timeout_that_cannot_be_is_told_before_the_job(seconds: str) -> None:
    with pytest.raises(ValueError, match=f"option commitTimeout='{seconds}': "):
        options.write_options({"path": "x", "commitTimeout": seconds})


def test_stream_options_that_cannot_be_are_named(reader: Streams, path: str) -> None:
    for given in (
        {"maxMessagesPerTrigger": "1", "maxBytesPerTrigger": "1"},
        {"startingOffsets": "latest", "startingTimestamp": "-1h"},
    ):
        with pytest.raises(ValueError, match=" and ".join(given) + ": give one of them, not both"):
            reader(path, **given)
    with pytest.raises(ValueError, match="'endingTimestamp' is not for a stream read"):
        reader(path, endingTimestamp="-1h")
    with pytest.raises(ValueError, match="option maxBytesPerTrigger='0': expected a whole number"):
        reader(path, maxBytesPerTrigger="0")


def test_errors_reach_the_user(spark: SparkSession, path: str, tmp_path: Path, source: str) -> None:
    def fails(frame: Callable[[], DataFrame], message: str) -> None:
        with pytest.raises(PySparkException, match=message):
            frame().collect()

    read = spark.read.format(source)
    fails(lambda: read.load(), "option path is missing")
    fails(lambda: read.load(str(tmp_path / "none")), "NotFoundError")
    fails(
        lambda: load(spark, path, source=source, topicfilters="x"),
        "option 'topicfilters' is unknown",
    )
    fails(lambda: read.schema("topic string").load(path), "leave out .schema")


def test_the_documentation_has_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "spark.md").read_text(encoding="utf-8")
    assert options.markdown() in text


def test_spark_finds_the_source_by_itself_and_by_register(spark: SparkSession, path: str) -> None:
    import pyspark_topicdb
    import pyspark_topicdb_python

    assert pyspark_topicdb.DefaultSource.name() == NATIVE
    assert pyspark_topicdb_python.DefaultSource.name() == PYTHON
    program = (
        "import sys, pyspark_topicdb_python; assert not {'topicdb', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    topicdb.spark.register(spark)
    assert load(spark, path).count() == 0
    assert spark.conf.get(CONF) == "true"
    spark.conf.unset(CONF)
    text = topicdb.spark.explain(path, topicFilter="site/#")
    assert re.search(r"tasks +0", text)

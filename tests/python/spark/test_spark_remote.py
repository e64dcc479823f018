"""Reads of Spark from servers: rights, replicas, TLS, secrets, and servers that go away."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from served import Process, make_certificates, serving
from spark_places import PYTHON
from spark_queries import run_to_end

import topicdb
import topicdb.spark
from topicdb.remote.server import tokens
from topicdb.spark import Remote
from topicdb.spark.batch import BatchReader
from topicdb.spark.options import batch_options, stream_options
from topicdb.spark.place import nearest_first
from topicdb.spark.stream import StreamReader

SITES = 12
ROWS = 600


class Site:
    """A database that a server in this process offers while it is open for writing."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._open = ExitStack()
        self.tokens = folder / "tokens.json"
        self.path = folder / "db"
        self.database = self._open.enter_context(
            topicdb.open(self.path, shards=3, retention={"own/#": None, "#": None})
        )
        self.append(0)
        self.database.rotate()
        self.append(1)
        if options.pop("has_tokens", False):
            tokens.add(self.tokens, {"name": "all", "everything": True})
            options["tokens"] = self.tokens
        self.server = self._open.enter_context(serving(self.database, **options))
        self.url: str = self.server.url

    def append(self, turn: int) -> None:
        for first in range(0, ROWS, 100):
            rows = range(first, first + 100)
            self.database.append([(f"site/{i % SITES}", turn * ROWS + i, b"%d" % i) for i in rows])
            self.database.append([(f"own/{i}", turn * ROWS + i, b"own") for i in rows[:10]])

    def token(self, **entry: Any) -> str:
        """Adds a token with these rights, which the server knows at once."""
        made = tokens.add(self.tokens, entry)
        self.look_again()
        return made

    def look_again(self) -> None:
        """Makes the server read the file of tokens again without waiting for a second."""
        self.server._gate._tokens._look_at = 0.0

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Site, str]]:
    """A server with tokens, and a token that may read ``site/#`` only."""
    made = Site(tmp_path, has_tokens=True)
    yield made, made.token(name="reader", read=["site/#"])
    made.close()


def batch_of(**given: str) -> BatchReader:
    return BatchReader(batch_options(given))


def read(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    """Reads with a reader and partitions that were pickled, as in Spark."""
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    return [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]


def topics(rows: list[dict[str, Any]]) -> set[str]:
    return {row["topic"].partition("/")[0] for row in rows}


def test_a_query_sees_one_moment_of_a_server_that_writes(site: Site) -> None:
    reader = batch_of(remote=site.url, minPartitions="6")
    partitions = reader.partitions()
    assert len(partitions) >= 6
    site.append(2)
    site.database.flush()
    assert len(read(reader, partitions)) == 2 * (ROWS + 60)
    assert len(read(reader, reader.partitions())) == 3 * (ROWS + 60)


def test_spark_reads_and_streams_from_a_server(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    given = {"remote": site.url, "topicFilter": "site/#"}
    frame = spark.read.format(PYTHON).options(**given).load()
    assert frame.count() == 2 * ROWS
    stream = spark.readStream.format(PYTHON).options(**given, startingOffsets="earliest").load()
    writer = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    run_to_end(lambda: writer.start(str(tmp_path / "out")))
    site.append(2)
    run_to_end(lambda: writer.start(str(tmp_path / "out")))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3 * ROWS
    found = topicdb.spark.read_dataframe(spark, remote=site.url, filter="own/#")
    assert found.count() == 180


def test_a_checkpoint_moves_between_directory_and_server(site: Site) -> None:
    def offsets(**given: str) -> tuple[Any, Any]:
        reader = StreamReader(stream_options({"startingOffsets": "earliest", **given}))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        return json.loads(json.dumps(start)), json.loads(json.dumps(end))

    assert offsets(remote=site.url) == offsets(path=str(site.path))


@pytest.mark.parametrize("order", ["true", "false"])
def test_a_token_reads_what_it_may_and_nothing_else(guarded: tuple[Site, str], order: str) -> None:
    site, token = guarded
    given = {"remote": site.url, "token": token}
    reader = batch_of(**given, topicFilter="site/#")
    assert topics(read(reader, reader.partitions())) == {"site"}
    stream = StreamReader(
        stream_options(
            {
                **given,
                "topicFilter": "site/#",
                "startingOffsets": "earliest",
                "commitOrder": order,
                "maxMessagesPerTrigger": "100",
            }
        )
    )
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    rows = read(stream, stream.partitions(start, end))
    assert topics(rows) == {"site"} and len(rows) == 2 * ROWS
    stream.stop()
    for filters in ("own/#", "#", None):
        wanted = {} if filters is None else {"topicFilter": filters}
        with pytest.raises(topicdb.AccessError, match=r"it may read 'site/#'"):
            batch_of(**given, **wanted).partitions()
        with pytest.raises(topicdb.AccessError, match=r"it may read 'site/#'"):
            StreamReader(stream_options({**given, **wanted})).initialOffset()


def test_a_predicate_that_the_token_covers_is_enough(guarded: tuple[Site, str]) -> None:
    from pyspark.sql.datasource import StringStartsWith

    site, token = guarded
    reader = batch_of(remote=site.url, token=token)
    assert len(list(reader.pushFilters([StringStartsWith(("topic",), "site/")]))) == 1
    assert len(read(reader, reader.partitions())) == 2 * ROWS


def test_a_partition_that_was_changed_reads_nothing_more(guarded: tuple[Site, str]) -> None:
    import dataclasses

    site, token = guarded
    reader = batch_of(remote=site.url, token=token, topicFilter="site/#")
    partitions: Any = reader.partitions()
    every: Any = batch_of(path=str(site.path)).partitions()
    for one in every:
        mine = dataclasses.replace(partitions[0], slices=one.slices)
        assert topics(read(reader, [mine])) <= {"site"}
        with pytest.raises(topicdb.AccessError):
            read(reader, [dataclasses.replace(mine, filters=None)])


@pytest.mark.parametrize("token", ["wrong", None])
def test_a_wrong_token_is_named(guarded: tuple[Site, str], token: str | None) -> None:
    site, _ = guarded
    given = {} if token is None else {"token": token}
    with pytest.raises(topicdb.AccessError, match="token") as caught:
        batch_of(remote=site.url, **given).partitions()
    assert "wrong" not in str(caught.value)


def test_a_token_that_was_revoked_since_fails_the_task(guarded: tuple[Site, str]) -> None:
    site, token = guarded
    reader = batch_of(remote=site.url, token=token, topicFilter="site/#")
    partitions = reader.partitions()
    tokens.remove(site.tokens, "reader")
    site.look_again()
    with pytest.raises(topicdb.AccessError):
        read(reader, partitions)


def test_tasks_take_another_replica_if_one_does_not_answer(site: Site) -> None:
    with serving(site.database) as second:
        remote = f"{site.url}, {second.url}"
        reader = batch_of(remote=remote, minPartitions="9")
        partitions = reader.partitions()
        assert len(read(reader, partitions)) == 2 * (ROWS + 60)
    assert len(read(reader, partitions)) == 2 * (ROWS + 60)  # each task may try the other first
    swapped = batch_of(remote=f"{second.url},{site.url}")
    assert len(read(swapped, swapped.partitions())) == 2 * (ROWS + 60)


def test_tasks_begin_with_servers_of_their_own_host() -> None:
    far = [f"grpc://240.0.0.{i}:8815" for i in range(1, 9)]  # addresses that nobody has
    for url in ("grpc://127.0.0.1:1", "grpc://localhost:1"):
        ordered = nearest_first([*far, url, "grpc://no-such-host.invalid:1"])
        assert ordered[0] == url and len(ordered) == 10
        assert set(ordered[1:]) >= set(far)


def test_without_any_server_all_are_named(site: Site) -> None:
    with serving(site.database) as one, serving(site.database) as two:
        reader = batch_of(remote=f"{one.url},{two.url}")
        partitions = reader.partitions()
    for call in (reader.partitions, lambda: read(reader, partitions)):
        with pytest.raises(topicdb.UnavailableError, match="no server of") as caught:
            call()
        assert one.url in str(caught.value) and two.url in str(caught.value)


def test_servers_of_different_databases_are_no_replicas(site: Site, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Site(tmp_path / "other")
    partitions: Any = batch_of(remote=site.url).partitions()
    reader = batch_of(remote=other.url)
    with pytest.raises(ValueError, match=r"option remote: .* another database"):
        read(reader, partitions)
    splits = topicdb.spark.plan(remote=site.url)
    with pytest.raises(ValueError, match=r"option remote: .* another database"):
        for split in splits:
            moved = topicdb.spark.Split(Remote(other.url), *_rest(split))
            list(topicdb.spark.read_split(moved))
    other.close()


def _rest(split: topicdb.spark.Split) -> tuple[Any, ...]:
    return split.filter, split.slices, split.properties, split.database


def test_a_replica_that_is_behind_catches_up_or_is_left_out(site: Site, tmp_path: Path) -> None:
    site.database.snapshot(tmp_path / "copy")
    with (
        topicdb.open(site.path, mode="r") as reading,
        serving(reading) as follower,
        topicdb.open(tmp_path / "copy", mode="r") as copy,
        serving(copy) as stale,
    ):
        site.append(2)
        reader = batch_of(remote=site.url)
        partitions = reader.partitions()
        assert len(read(batch_of(remote=follower.url), partitions)) == 3 * (ROWS + 60)
        both = batch_of(remote=f"{stale.url},{site.url}")
        assert len(read(both, partitions)) == 3 * (ROWS + 60)
        with pytest.raises(topicdb.StorageError, match=r"shard \d of grpc.* ends before commit"):
            read(batch_of(remote=stale.url), partitions)


def test_a_stream_goes_on_with_another_server(site: Site) -> None:
    with serving(site.database) as first:
        stream = StreamReader(
            stream_options({"remote": f"{first.url},{site.url}", "startingOffsets": "earliest"})
        )
        start = stream.initialOffset()
        middle = stream.latestOffset(start, ReadAllAvailable())
    site.append(2)
    end = stream.latestOffset(middle, ReadAllAvailable())
    assert len(read(stream, stream.partitions(middle, end))) == ROWS + 60
    stream.stop()


def test_a_server_that_is_killed_is_named(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as database:
        database.append([("site/1", 1, b"x")])
    with Process(tmp_path / "db") as server:
        reader = batch_of(remote=server.url)
        partitions = reader.partitions()
        assert len(read(reader, partitions)) == 1
        stream = StreamReader(stream_options({"remote": server.url}))
        stream.initialOffset()
        server.kill()
        for call in (reader.partitions, lambda: read(reader, partitions), stream.initialOffset):
            with pytest.raises(topicdb.UnavailableError, match=server.url):
                call()
        stream.stop()


def test_tls_by_the_files_of_the_driver(tmp_path: Path, spark: SparkSession) -> None:
    certificates = make_certificates(tmp_path / "tls")
    site = Site(
        tmp_path,
        has_tokens=True,
        tls_certificate=certificates.certificate,
        tls_key=certificates.key,
        tls_client_ca=certificates.root,
    )
    url = site.url.replace("127.0.0.1", "localhost")
    given = {
        "remote": url,
        "token": site.token(name="reader", read=["#"]),
        "topicFilter": "#",
        "tls_root_certs": str(certificates.root),
        "tls_certificate": str(certificates.certificate),
        "tls_key": str(certificates.key),
    }
    frame = spark.read.format(PYTHON).options(**given).load()
    assert frame.count() == 2 * (ROWS + 60)
    reader = batch_of(**given)
    partitions = reader.partitions()
    for file in (certificates.root, certificates.certificate, certificates.key):
        file.unlink()  # tasks elsewhere have no such files
    assert len(read(reader, partitions)) == 2 * (ROWS + 60)
    with pytest.raises(OSError, match=str(certificates.root)):
        batch_of(**given)
    del given["tls_root_certs"], given["tls_certificate"], given["tls_key"]
    with pytest.raises(topicdb.UnavailableError, match="tls_root_certs"):
        batch_of(**given).partitions()
    with pytest.raises(topicdb.UnavailableError, match=r"may want TLS \(grpc\+tls://\)"):
        batch_of(**{**given, "remote": url.replace("+tls", "")}).partitions()
    site.close()


def test_no_secret_is_in_plans_texts_or_offsets(
    spark: SparkSession, guarded: tuple[Site, str], tmp_path: Path
) -> None:
    site, token = guarded
    given = {"remote": site.url, "token": token, "topicFilter": "site/#"}
    frame = spark.read.format(PYTHON).options(**given).load().where("topic = 'site/1'")
    assert frame.count() > 0
    shown = [plan_of(frame), repr(batch_options(given)), repr(stream_options(given))]
    remote = Remote(site.url, token=token)
    shown += [repr(remote), str(remote), repr(remote.credentials), f"{remote}"]
    shown += [repr(split) for split in topicdb.spark.plan(remote=remote, filter="site/#")]
    shown.append(topicdb.spark.explain(**given))
    stream = StreamReader(stream_options({**given, "startingOffsets": "earliest"}))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    shown += [json.dumps([start, end]), repr(stream.partitions(start, end))]
    stream.stop()
    writer = (
        spark.readStream.format(PYTHON)
        .options(**given, startingOffsets="earliest")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    query = run_to_end(lambda: writer.start(str(tmp_path / "out")))
    shown.append(json.dumps([str(one) for one in query.recentProgress]))
    shown += [
        file.read_text(errors="replace")
        for file in (tmp_path / "checkpoint").rglob("*")
        if file.is_file()
    ]
    for bad in ({"topicFilter": "a/#/b"}, {"token": ""}, {"path": "x"}, {"tls_key": "none"}):
        with pytest.raises((ValueError, OSError)) as caught:
            batch_options({**given, **bad})
        shown.append(str(caught.value))
    site.server.close()
    with pytest.raises(PySparkException) as failed:
        spark.read.format(PYTHON).options(**given).load().count()
    assert "no server of" in str(failed.value)
    shown.append(str(failed.value))
    for text in shown:
        assert token not in text


def plan_of(frame: DataFrame) -> str:
    """Returns all that Spark says of a query."""
    execution: Any = frame._jdf.queryExecution()
    modes = [execution.toString(), execution.simpleString(), execution.logical().toString()]
    return "\n".join([*modes, str(execution.stringWithStats())])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option path is missing: .*servers with remote"),
        ({"path": "x", "remote": "grpc://h"}, "options path and remote: give one of them"),
        ({"path": "x", "token": "t"}, "option token goes with remote"),
        ({"path": "x", "tls_root_certs": "t"}, "option tls_root_certs goes with remote"),
        ({"remote": ""}, "option remote='': expected"),
        ({"remote": "h:1"}, "option remote='h:1': url: expected grpc"),
        ({"remote": "grpc://a,"}, "option remote='grpc://a,': url: expected grpc"),
        ({"remote": "grpc://a,grpc://a:8815"}, "option remote=.*each once"),
        ({"remote": "grpc://far", "token": "t"}, r"option remote=.*grpc\+tls://, or insecure=True"),
        ({"remote": "grpc://a", "tls_key": "x"}, "option remote=.*tls_certificate and tls_key"),
        ({"remote": "grpc://a", "insecure": "yes"}, "option insecure='yes'"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_named(given: dict[str, str], message: str) -> None:
    for parse in (batch_options, stream_options):
        with pytest.raises(ValueError, match=message):
            parse(given)


def test_insecure_sends_the_token_without_tls() -> None:
    options = batch_options({"remote": "grpc://far", "token": "t", "insecure": "true"})
    assert str(options.place) == "grpc://far:8815"


def test_a_write_goes_to_one_server(guarded: tuple[Site, str]) -> None:
    from topicdb.spark.options import write_options
    from topicdb.spark.place import check_writable

    assert str(write_options({"remote": "grpc://a"}).place) == "grpc://a:8815"
    site, _ = guarded
    several = {
        "remote": f"{site.url},grpc://127.0.0.1:9",
        "token": site.token(name="many", everything=True),
    }
    with pytest.raises(ValueError, match=r"option remote=.* a write goes to one server"):
        check_writable(write_options(several).place)  # they are no sites of a cluster


def test_spark_writes_to_a_server_that_writes(
    spark: SparkSession, guarded: tuple[Site, str]
) -> None:
    site, reader = guarded
    token = site.token(name="writer", everything=True)
    rows = spark.range(5_000).selectExpr(
        "concat('site/', id % 9) topic",
        "timestamp_micros(id) timestamp",
        "cast(cast(id as string) as binary) value",
    )
    writer = rows.repartition(4).write.format(PYTHON).mode("append")
    writer.options(remote=site.url, token=token).save()
    assert site.database.scan("site/#").count() == 2 * ROWS + 5_000
    assert not any((site.path / "jobs").iterdir())
    with pytest.raises(PySparkException, match="token 'reader' may not bring staged files"):
        writer.options(remote=site.url, token=reader).save()
    site.server.close()
    with pytest.raises(PySparkException, match="nobody listens there"):
        writer.options(remote=site.url, token=token).save()
    assert site.database.scan("site/#").count() == 2 * ROWS + 5_000


def test_splits_are_read_from_servers(guarded: tuple[Site, str]) -> None:
    site, token = guarded
    remote = Remote([site.url], token=token)
    splits = topicdb.spark.plan(remote=remote, filter="site/#", tasks=5)
    assert len(splits) >= 5
    found = [
        row
        for split in pickle.loads(pickle.dumps(splits))
        for batch in topicdb.spark.read_split(split)
        for row in batch.to_pylist()
    ]
    assert len(found) == 2 * ROWS and topics(found) == {"site"}
    with pytest.raises(topicdb.AccessError, match="'own/#'"):
        topicdb.spark.plan(remote=remote, filter="own/#")
    wrongs: list[dict[str, Any]] = [{}, {"path": "x", "remote": remote}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="path and remote: give one of them"):
            topicdb.spark.plan(**wrong)


def test_a_generation_that_goes_between_look_and_read_is_left_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = batch_of(remote=site.url, failOnDataLoss="false")
    strict = batch_of(remote=site.url)
    partitions = reader.partitions()
    gone = {slab for slab in site.database.slabs() if slab.read_only}
    look: Callable[..., Any] = topicdb.Database._extent
    looks = 0

    def drop_after(self: topicdb.Database, filters: Any) -> Any:
        nonlocal looks
        found = look(self, filters)
        looks += 1
        if looks == 2:  # that of the first task, after the check of the server
            for slab in gone:
                site.database.drop_slab(slab)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(topicdb.Database, "_extent", drop_after)
        rows = read(reader, partitions)
    assert looks > 2
    assert len(rows) == ROWS + 60
    with pytest.raises(topicdb.NotFoundError, match="generation 1 of class"):
        read(strict, partitions)

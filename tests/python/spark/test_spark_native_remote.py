"""The connector in Java and servers: rights, replicas, TLS, bad input, and servers that go away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from served import Process, make_certificates, serving
from spark_places import PYTHON, skip_without_grpc
from spark_queries import run_to_end
from spark_streams import NativeReader, values_of

import topicdb
from topicdb.remote.server import tokens
from topicdb.replay import Envelope
from topicdb.spark.options import stream_options
from topicdb.spark.stream import StreamReader

ROWS = 600


def fill(path: Path) -> None:
    """Makes a database with messages of sites, one with properties, and of their owner."""
    with topicdb.open(path, shards=3) as database:
        for first in range(0, ROWS, 100):
            database.append([(f"site/{i % 12}", i, b"%d" % i) for i in range(first, first + 100)])
        database.append([(f"own/{i}", i, b"own") for i in range(60)])
        told = Envelope(b"told", qos=1, content_type="text/plain")
        database.append([("site/0", ROWS, told.encode())], raw=True)


@pytest.fixture(autouse=True)
def grpc(native: str) -> None:
    """Skips the tests without gRPC."""
    skip_without_grpc()


class Guarded:
    """A server with tokens in this process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "db"
        fill(self.path)
        file = folder / "tokens.json"
        self.token = tokens.add(file, {"name": "reader", "read": ["site/#"]})
        self.all = tokens.add(file, {"name": "all", "everything": True})
        self.database = topicdb.open(self.path)
        self._serving = serving(self.database, tokens=file, **options)
        self.server = self._serving.__enter__()
        self.url: str = self.server.url

    def close(self) -> None:
        self._serving.__exit__(None, None, None)
        self.database.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.close()


def frame_of(spark: SparkSession, native: str, **options: str) -> DataFrame:
    return spark.read.format(native).options(**options).load()


def refusal(frame: DataFrame) -> str:
    """Returns the text of the error of a query."""
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        frame.collect()
    return str(caught.value)


def refuses(*_: Any) -> Any:
    raise AssertionError("the other way was taken")


@pytest.mark.parametrize("way", ["parcels", "batches"])
def test_all_columns_are_those_of_the_directory(
    spark: SparkSession,
    native: str,
    guarded: Guarded,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way == "parcels":
        monkeypatch.setattr("topicdb.remote.server.service.chunks", refuses)
    else:  # a server of another version, which has no parcels that this client knows
        monkeypatch.setattr("topicdb.remote.server.reading.Parcels.versions", lambda self: [9])
    given = {"includeMetadata": "true", "includeProperties": "true", "minPartitions": "7"}
    remote = frame_of(spark, native, remote=guarded.url, token=guarded.all, **given)
    local = frame_of(spark, native, path=str(guarded.path), **given)
    assert remote.rdd.getNumPartitions() > 3
    rows = sorted(map(repr, remote.collect()))
    assert rows == sorted(map(repr, local.collect()))
    assert len(rows) == ROWS + 61
    assert "text/plain" in str(rows)
    plain = frame_of(spark, native, remote=guarded.url, token=guarded.all).where("value = 'told'")
    assert plain.count() == 1  # the payload, not what is stored


def test_large_batches_and_none(spark: SparkSession, native: str, tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", shards=1) as database:
        database.append([("big", i, bytes([i]) * 3_000_000) for i in range(6)])
        with serving(database) as server:
            frame = frame_of(spark, native, remote=server.url)
            found = frame.selectExpr("length(value) as size", "hex(value) as text").collect()
            assert sorted((row.size, row.text[:2]) for row in found) == [
                (3_000_000, f"0{i}") for i in range(6)
            ]
            assert frame.where("topic = 'small'").collect() == []
            assert frame.select("timestamp").limit(2).count() == 2


def test_a_token_reads_what_it_may(spark: SparkSession, native: str, guarded: Guarded) -> None:
    given = {"remote": guarded.url, "token": guarded.token}
    assert frame_of(spark, native, **given, topicFilter="site/#").count() == ROWS + 1
    assert frame_of(spark, native, **given).where("topic = 'site/1'").count() == ROWS // 12
    text = refusal(frame_of(spark, native, **given, topicFilter="own/#"))
    assert "AccessError: token 'reader' may not read 'own/#'" in text
    text = refusal(frame_of(spark, native, remote=guarded.url, token="wrong"))
    assert "AccessError: this token is not known here" in text
    assert "AccessError: " in refusal(frame_of(spark, native, remote=guarded.url))
    with pytest.raises(PySparkException, match=r"AccessError: .*'reader'"):
        rows = spark.createDataFrame([("site/1", b"x")], "topic string, value binary")
        rows.write.format(native).mode("append").options(**given).save()


def test_no_secret_is_in_plans(spark: SparkSession, native: str, guarded: Guarded) -> None:
    frame = frame_of(spark, native, remote=guarded.url, token=guarded.all)
    plan = frame._jdf.queryExecution().toString()
    assert guarded.url in plan and guarded.all not in plan


def test_replicas(spark: SparkSession, native: str, guarded: Guarded, tmp_path: Path) -> None:
    with topicdb.open(guarded.path, mode="r") as copy, serving(copy) as second:
        given = {"remote": f"{second.url},{guarded.url}", "token": guarded.all}
        frame = frame_of(spark, native, **given, minPartitions="9")
        assert frame.count() == ROWS + 61
        guarded.database.append([("late", 1, b"")] * 9)
        guarded.database.flush()
        assert frame_of(spark, native, **given).count() == ROWS + 70
    assert frame_of(spark, native, **given).count() == ROWS + 70  # one is gone
    given["remote"] = f"{guarded.url},grpc://240.0.0.1:8815"  # an address that nobody has
    near = frame_of(spark, native, **given, insecure="true", minPartitions="9")
    assert len(near.collect()) == ROWS + 70, "tasks begin with the server of their own host"
    fill(tmp_path / "other")
    with topicdb.open(tmp_path / "other") as other, serving(other) as stranger:
        given["remote"] = f"{guarded.url},{stranger.url}"
        frame = frame_of(spark, native, **given, minPartitions="40")
        assert "another database than the query was planned with" in refusal(frame)


@pytest.mark.parametrize("order", ["true", "false"])
def test_a_stream_reads_what_its_token_may(
    spark: SparkSession, guarded: Guarded, order: str
) -> None:
    given = {"remote": guarded.url, "token": guarded.token, "startingOffsets": "earliest"}
    given |= {"commitOrder": order, "minPartitions": "2"}
    stream = NativeReader(spark, {**given, "topicFilter": "site/#"})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(10_000))
    found = values_of(stream, start, end)
    assert len(found) == ROWS + 1 and b"told" in found
    shown = [str(end), *map(str, stream.partitions(start, end)), str(stream)]
    stream.stop()
    for filters in ("own/#", "#", None):
        wanted = {} if filters is None else {"topicFilter": filters}
        other = NativeReader(spark, {**given, **wanted})
        with pytest.raises(topicdb.AccessError, match=r"it may read 'site/#'") as caught:
            other.initialOffset()
        shown.append(str(caught.value))
    assert guarded.token not in "".join(shown)


def test_a_checkpoint_moves_between_places_and_sources(
    spark: SparkSession, native: str, guarded: Guarded, tmp_path: Path
) -> None:
    """It has no secret, either."""
    server = {"remote": guarded.url, "token": guarded.all}
    directory = {"path": str(guarded.path)}
    python = StreamReader(stream_options({**server, "startingOffsets": "earliest"}))
    first = python.initialOffset()
    wanted = [first, python.latestOffset(first, ReadAllAvailable())]
    python.stop()
    for given in (server, directory):
        reader = NativeReader(spark, {**given, "startingOffsets": "earliest"})
        assert reader.initialOffset() == first
        assert [first, reader.latestOffset(first, ReadAllAvailable())] == wanted
        reader.stop()

    checkpoint, out = tmp_path / "checkpoint", str(tmp_path / "out")
    turns = [(native, server), (PYTHON, server), (native, directory), (native, server)]
    for name, given in turns:
        stream = spark.readStream.format(name).options(**given, startingOffsets="earliest").load()
        writer = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        query = run_to_end(lambda writer=writer: writer.start(out))  # type: ignore[misc]
        assert guarded.all not in str(query.recentProgress)
        guarded.database.append([("more/1", 1, b"more")] * 5)
    assert spark.read.parquet(out).count() == ROWS + 61 + 5 * (len(turns) - 1)
    for file in checkpoint.rglob("*"):
        assert file.is_dir() or guarded.all.encode() not in file.read_bytes()


def test_a_stream_goes_on_with_another_server(
    spark: SparkSession, guarded: Guarded, tmp_path: Path
) -> None:
    fill(tmp_path / "other")
    with serving(guarded.database) as first, topicdb.open(tmp_path / "other") as other:
        given = {"token": guarded.all, "startingOffsets": "earliest"}
        urls = f"{first.url},{guarded.url}"
        stream = NativeReader(spark, {**given, "remote": urls})
        start = stream.initialOffset()
        middle = stream.latestOffset(start, ReadAllAvailable())
        first.shutdown(20)
        guarded.database.append([("late", 1, b"late")] * 9)
        end = stream.latestOffset(middle, ReadAllAvailable())
        assert values_of(stream, middle, end) == [b"late"] * 9
        stream.stop()
        with serving(guarded.database) as second, serving(other) as stranger:
            both = f"{second.url},{stranger.url}"
            stream = NativeReader(spark, {"startingOffsets": "earliest", "remote": both})
            stream.initialOffset()
            second.shutdown(20)
            with pytest.raises(ValueError, match="another database than the query began with"):
                stream.latestOffset(start, ReadAllAvailable())
            stream.stop()


def test_a_task_that_is_slow_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """The server closes what a silent client has open."""
    wanted = [b"%05d" % i for i in range(30_000)]
    with topicdb.open(tmp_path / "db", shards=1) as database, serving(database) as server:
        for first in range(0, len(wanted), 6_000):
            database.append([("slow/1", 1, value) for value in wanted[first : first + 6_000]])
        stream = NativeReader(spark, {"remote": server.url, "startingOffsets": "earliest"})
        start = stream.initialOffset()
        end = stream.latestOffset(start, ReadAllAvailable())
        found: list[bytes] = []
        for partition in stream.partitions(start, end):
            for batch in stream.read(partition):
                found += batch.column("value").to_pylist()
                server.service.clients.end_all()
        stream.stop()
    assert found == wanted


def test_a_task_asks_once_how_far_a_server_reaches(spark: SparkSession, guarded: Guarded) -> None:
    given = {"remote": guarded.url, "token": guarded.all, "startingOffsets": "earliest"}
    for order in ("true", "false"):
        stream = NativeReader(spark, {**given, "commitOrder": order})
        start = stream.initialOffset()
        partitions = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
        before = guarded.server.meter.told().by_call["extent"].calls
        for partition in partitions:
            assert list(stream.read(partition))
        assert guarded.server.meter.told().by_call["extent"].calls == before + len(partitions)
        stream.stop()


def test_tls(spark: SparkSession, native: str, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "tls")
    site = Guarded(
        tmp_path,
        tls_certificate=certificates.certificate,
        tls_key=certificates.key,
        tls_client_ca=certificates.root,
    )
    url = site.url.replace("127.0.0.1", "localhost")
    given = {"remote": url, "token": site.all, "tls_root_certs": str(certificates.root)}
    pair = {"tls_certificate": str(certificates.certificate), "tls_key": str(certificates.key)}
    text = refusal(frame_of(spark, native, **given, **pair))
    assert "tls_key" in text and "openssl pkcs8 -topk8" in text
    pair["tls_key"] = str(in_pkcs8(certificates.key))
    assert frame_of(spark, native, **given, **pair).count() == ROWS + 61
    assert "tls_certificate, tls_key" in refusal(frame_of(spark, native, **given))
    plain = {**given, "remote": url.replace("+tls", "")}
    assert "it may want TLS (grpc+tls://)" in refusal(frame_of(spark, native, **plain))
    del given["tls_root_certs"]
    assert "as tls_root_certs" in refusal(frame_of(spark, native, **given, **pair))
    site.close()


def in_pkcs8(file: Path) -> Path:
    """Returns the file of the same private key in the form that the JVM reads."""
    key: Any = serialization.load_pem_private_key(file.read_bytes(), None)
    made = file.with_suffix(".pkcs8")
    made.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return made


def test_nobody_answers(spark: SparkSession, native: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
    text = refusal(frame_of(spark, native, remote=url))
    assert f"no server of {url} answers" in text
    assert "nobody listens there: is topicdb serve running" in text


def test_a_server_that_goes_away(spark: SparkSession, native: str, tmp_path: Path) -> None:
    fill(tmp_path / "db")
    server = Process(tmp_path / "db")
    frame = frame_of(spark, native, remote=server.url)
    assert frame.count() == ROWS + 61
    server.kill()
    assert "UnavailableError: no server of" in refusal(frame)
    rows = spark.createDataFrame([("site/1", b"x")], "topic string, value binary")
    with pytest.raises(PySparkException, match="UnavailableError"):
        rows.write.format(native).mode("append").options(remote=server.url).save()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"remote": ""}, "option remote='': expected"),
        ({"remote": "h:1"}, "option remote='h:1': url: expected grpc"),
        ({"remote": "grpc://a,"}, "option remote='grpc://a,': url: expected grpc"),
        ({"remote": "grpc://a:0"}, "url: expected grpc"),
        ({"remote": "grpc://a,grpc://a:8815"}, "each once"),
        ({"remote": "grpc://far", "token": "t"}, r"grpc\+tls://, or insecure=True"),
        ({"remote": "grpc://a", "tls_key": "x"}, "tls_certificate and tls_key"),
        ({"remote": "grpc://a", "tls_root_certs": "no.pem"}, "tls_root_certs no.pem: cannot read"),
        ({"remote": "grpc://a", "insecure": "yes"}, "option insecure='yes'"),
        ({"remote": "grpc://a", "path": "x"}, "options path and remote: give one of them"),
    ],
)
def test_bad_input(spark: SparkSession, native: str, given: dict[str, str], text: str) -> None:
    with pytest.raises(PySparkException, match=text):
        frame_of(spark, native, **given).collect()

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
from served import Process, make_certificates, serving
from spark_places import skip_without_grpc

import topicdb
from topicdb.remote.server import tokens
from topicdb.replay import Envelope

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
        self.url: str = self._serving.__enter__().url

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
    fill(tmp_path / "other")
    with topicdb.open(tmp_path / "other") as other, serving(other) as stranger:
        given["remote"] = f"{guarded.url},{stranger.url}"
        frame = frame_of(spark, native, **given, minPartitions="40")
        assert "another database than the query was planned with" in refusal(frame)


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

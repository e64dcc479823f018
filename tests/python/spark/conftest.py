"""The Spark session that the tests of this folder share."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from s3_server import S3Server, is_here, s3_server
from spark_places import NATIVE, PYTHON, places, skip_without_grpc
from spark_settings import PATIENCE, be_patient
from spark_streams import Streams

import topicdb
import topicdb.spark
from topicdb.spark import connector
from topicdb.spark.source import NamedTopicDBDataSource

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # pyspark asks pandas and its own JVM bridge for things they are about to remove.
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server."""
    if not is_here:
        pytest.skip("no S3 server: make test-s3 fetches one")
    with s3_server(tmp_path_factory.mktemp("s3") / "buckets") as server:
        yield server


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    be_patient()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            # The jobs are short: to compile more would cost more than it gains.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.session.timeZone", "America/New_York")  # not UTC: no time may shift
            .config("spark.sql.shuffle.partitions", "3")
            .config(map=dict(PATIENCE))
            .config(map=request.getfixturevalue("s3").settings() if is_here else {})
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")  # failing tasks are part of the tests
    session.dataSource.register(NamedTopicDBDataSource)
    yield session
    session.stop()


SOURCES = ["python-local", "python-remote", "java-local", "java-remote"]
UPLOADS = [
    pytest.param("java-upload", marks=pytest.mark.long),
    pytest.param("java-s3", marks=[pytest.mark.s3, pytest.mark.slow]),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Lets tests that ask for a source run with each.

    Modules with ``READS_UPLOADS`` run with more.
    """
    if "source" not in metafunc.fixturenames:
        return
    sources: list[Any] = list(SOURCES)
    if getattr(metafunc.module, "READS_UPLOADS", False):
        sources += UPLOADS
    metafunc.parametrize("source", sources, indirect=True)


@pytest.fixture
def source(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The format of a read: that in Python and that in Java, over the directory and a server.

    The latter also reads uploads, in a folder and in a store.
    """
    kind, place = request.param.split("-")
    if kind == "java":
        add_native(spark)
    if request.param == "java-remote":
        skip_without_grpc()
    store = request.getfixturevalue("s3") if place == "s3" else None
    for _ in places(place, store):
        yield NATIVE if kind == "java" else PYTHON


@pytest.fixture
def reader(spark: SparkSession, source: str) -> Iterator[Streams]:
    """Makes readers of streams of the source."""
    streams = Streams(spark, source)
    yield streams
    streams.close()


@pytest.fixture(params=[PYTHON, NATIVE])
def local_source(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """The format in Python and that in Java, both over the directory."""
    name: str = request.param
    if name == NATIVE:
        add_native(spark)
    return name


@pytest.fixture
def native(spark: SparkSession) -> str:
    """The format in Java."""
    add_native(spark)
    return NATIVE


def add_native(spark: SparkSession) -> None:
    """Adds the JAR to the session. Skips the test if the package was built without it."""
    try:
        topicdb.spark.jar()
    except topicdb.NotFoundError as error:
        pytest.skip(str(error))
    connector.add(spark)


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets the reads of a test go over the directory, and once more over a server."""
    yield from places(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of an empty database of three shards."""
    place = str(tmp_path / "spark.db")
    topicdb.open(place, shards=3, structures=["m/+/cpu"]).close()
    return place

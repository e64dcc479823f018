"""Tests of what topicdb.spark.register makes of format("topicdb")."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession
from spark_places import NATIVE, PYTHON

import topicdb
import topicdb.spark
from topicdb.spark import connector


def is_python(spark: SparkSession, name: str, path: str) -> bool:
    """Returns whether a format is the source in Python, after a read with it."""
    frame = spark.read.format(name).load(path)
    assert frame.count() == 0
    execution: Any = frame._jdf.queryExecution()
    return "(Python)" in execution.executedPlan().toString()


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own. It may have the JAR already: sessions of a JVM share JARs."""
    return spark.newSession()


@pytest.mark.usefixtures("native")
def test_the_jar_comes_first(session: SparkSession, path: str) -> None:
    for jar in (False, None, True, None):  # none of them hinders the next one
        topicdb.spark.register(session, jar=jar)
        assert is_python(session, PYTHON, path)
    assert not is_python(session, NATIVE, path)
    with pytest.raises(ValueError, match="jar=False: the session has the JAR already"):
        topicdb.spark.register(session, jar=False)


def test_without_a_jar_python_takes_its_place(
    session: SparkSession,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def none() -> NoReturn:
        raise topicdb.NotFoundError("there is no JAR here")

    monkeypatch.setattr(connector, "jar", none)
    connector._warn.cache_clear()
    with caplog.at_level(logging.WARNING, "topicdb.spark"):
        for _ in range(2):
            topicdb.spark.register(session)
    assert [record.message for record in caplog.records] == [
        "format('topicdb') is the source in Python, which reads more slowly than that in Java: "
        "there is no JAR here"
    ]
    assert session.read.format(NATIVE).load(path).count() == 0
    assert is_python(session, PYTHON, path)
    with pytest.raises(topicdb.NotFoundError, match="no JAR here"):
        topicdb.spark.register(session, jar=True)


def test_an_older_spark_has_no_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    old: Any = SimpleNamespace(version="3.4.1", conf={})
    monkeypatch.setattr(connector, "jar", lambda: "x.jar")
    with pytest.raises(topicdb.NotFoundError, match=r"x.jar is for Spark 3\.5 and later"):
        connector.add(old)

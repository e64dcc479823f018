"""The JAR of the Spark connector in Java, which the package brings, and how a session gets it."""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import topicdb
from topicdb import _core
from topicdb.spark.options import OPTIONS, Option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
FILE = "topicdb-spark.jar"
SPARK_MIN = (3, 5)
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
VERSION_CONF = "spark.topicdb.version"
"""The session's setting in which the connector finds the version of this package."""


def jar() -> str:
    """Returns the path of the JAR with the connector in Java, for ``spark.jars`` and the like.

    Returns:
        The path.

    Raises:
        NotFoundError: the package was built without it: on a system other than Linux, without a
            JDK, or without Spark's JARs.

    Example:
        >>> topicdb.spark.jar()  # doctest: +SKIP
        '/usr/lib/python3/site-packages/topicdb/spark/jars/topicdb-spark.jar'
    """
    # Beside the extension: that of an editable package is not where its .py files are.
    path = Path(os.path.abspath(_core.__file__)).parent / "spark" / "jars" / FILE
    if not path.is_file():
        raise topicdb.NotFoundError(
            f"{path} does not exist: this package of topicdb was built without the Spark connector "
            "in Java"
        )
    return str(path)


def register(spark: SparkSession, jar: bool | None) -> None:
    """Registers as ``topicdb.spark.register`` says."""
    if jar is False and _has_jar(spark):
        raise ValueError(
            "jar=False: the session has the JAR already, whose format('topicdb') comes first: use "
            "format('topicdb-python')"
        )
    has_jar = False
    if jar is not False:
        try:
            add(spark)
            has_jar = True
        except topicdb.NotFoundError as error:
            if jar:
                raise
            _warn(str(error))
    if not has_jar or find_spec("pyspark.sql.datasource"):  # Spark has no Python sources before 4
        _register_python(spark, is_first=not has_jar)


def _register_python(spark: SparkSession, *, is_first: bool) -> None:
    """Registers the source in Python; ``is_first``: also under the name ``topicdb``."""
    from pyspark.errors import AnalysisException

    from topicdb.spark.source import NamedTopicDBDataSource, TopicDBDataSource

    for source in (NamedTopicDBDataSource, *([TopicDBDataSource] if is_first else [])):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # where Spark found it itself
                raise
    spark.conf.set(PUSHDOWN_CONF, "true")


def _has_jar(spark: SparkSession) -> bool:
    return spark.conf.get(VERSION_CONF, None) is not None


@cache
def _warn(why: str) -> None:
    """Warns once in a process."""
    _logger.warning(
        "format('topicdb') is the source in Python, which reads more slowly than that in Java: %s",
        why,
    )


def add(spark: SparkSession) -> None:
    """Adds the JAR to a session, unless the session has it already.

    Raises NotFoundError, which says why, if there is none for this package and Spark.
    """
    if spark.conf.get(VERSION_CONF, None) == topicdb.__version__:
        return
    path = jar()
    if tuple(map(int, spark.version.split(".")[:2])) < SPARK_MIN:
        raise topicdb.NotFoundError(f"{path} is for Spark 3.5 and later, this is {spark.version}")
    if hasattr(spark, "_jsparkSession"):
        spark.sql("ADD JAR '" + path.replace("'", r"\'") + "'")
    else:  # Spark Connect
        spark.addArtifacts(path)
    spark.conf.set(VERSION_CONF, topicdb.__version__)


def options_table() -> str:
    """Returns the table of options for the connector: name, check and uses of each, with tabs.

    A fourth column marks those whose text is secret.
    """
    return "".join("\t".join(_row(option)) + "\n" for option in OPTIONS)


def _row(option: Option) -> list[str]:
    check = option.check.__name__.lstrip("_")
    secret = ["secret"] if option.is_secret else []
    return [option.name, check, ",".join(sorted(option.uses)), *secret]

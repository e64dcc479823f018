"""The JAR of the Spark connector in Java, which the package brings along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import topicdb
from topicdb import _core
from topicdb.spark.options import OPTIONS, Option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "topicdb-spark.jar"
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
            "in Java; format('topicdb') works without it"
        )
    return str(path)


def add(spark: SparkSession) -> None:
    """Adds the JAR to a session, unless there is none, or the session has it already."""
    if spark.conf.get(VERSION_CONF, None) == topicdb.__version__:
        return
    try:
        path = jar()
    except topicdb.NotFoundError:
        return
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

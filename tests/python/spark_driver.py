"""A Spark driver in a process of its own, for tests that kill it or what it starts.

``spark_driver.py MASTER copy SOURCE TARGET CHECKPOINT STOP`` copies a database into another by
streaming queries. SOURCE and TARGET are directories, or addresses of servers. It starts a query
again whenever one ends or fails, until the file STOP exists and a query that began after that has
succeeded. Each query has the source and the sink in Python or in Java.

``spark_driver.py MASTER save TARGET ROWS TASKS ATTEMPTS`` writes rows in one job. Some tasks fail
at their first attempt; where Spark speculates, one task stalls instead. Each attempt leaves a file
in ATTEMPTS.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_settings import PATIENCE, be_patient

import topicdb
import topicdb.spark
from topicdb.spark import register

STALLS_SECONDS = 240  # longer than Spark takes to begin another attempt


def jars() -> str:
    """Returns the path of the connector in Java, or an empty text if the package has none."""
    try:
        return topicdb.spark.jar()
    except topicdb.NotFoundError:
        return ""


def session(master: str) -> SparkSession:
    """Starts a Spark that takes little memory and listens on the loopback interface only."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    be_patient()
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        # The jobs are short: to compile more would cost more than it gains.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map=dict(PATIENCE))
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.task.maxFailures", "8")
        # Spark that is killed while it writes its first offset leaves a file that it refuses later.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        .config("spark.speculation", str(master.startswith("spark:")).lower())
        .config("spark.speculation.minTaskRuntime", "1s")
        .config("spark.speculation.multiplier", "2")
        .config("spark.speculation.quantile", "0.5")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


def formats() -> list[str]:
    """Returns the names of the source in Python and of that in Java, if the package has it."""
    return ["topicdb", "topicdb-native"] if jars() else ["topicdb"]


def named(place: str) -> dict[str, str]:
    """Returns the option that names a database, by its directory or by its server."""
    return {"remote" if "://" in place else "path": place}


def copy(spark: SparkSession, source: str, target: str, checkpoint: str, stop: str) -> None:
    while True:
        last = Path(stop).exists()
        try:
            query = (
                spark.readStream.format(random.choice(formats()))
                .options(startingOffsets="earliest", maxMessagesPerTrigger="1500")
                # The contents of a micro-batch do not depend on these choices, also when a query
                # repeats it.
                .option("commitOrder", random.choice(["true", "false"]))
                .options(**named(source))
                .load()
                .writeStream.format(random.choice(formats()))
                .option("checkpointLocation", checkpoint)
                .options(**named(target))
                .trigger(availableNow=True)
                .start()
            )
            print("query", flush=True)
            query.awaitTermination()
        except (PySparkException, Py4JJavaError) as error:  # the second one from planning
            print("failed", str(error).splitlines()[0], flush=True)
            continue
        if last:
            return


def save(spark: SparkSession, target: str, rows: str, tasks: str, attempts: str) -> None:
    stalls = spark.sparkContext.getConf().get("spark.speculation") == "true"

    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        Path(attempts, f"{context.partitionId()}-{context.attemptNumber()}").touch()
        for batch in batches:
            number = batch.column("id").to_pylist()
            yield pa.record_batch(
                {
                    "topic": [f"m/{i % 7}" for i in number],
                    "timestamp": pa.array(number, pa.int64()),
                    "value": [b"%d" % i for i in number],
                }
            )
        # This comes after all rows of the task, so that rows could be stored twice.
        if context.attemptNumber() == 0 and context.partitionId() % 3 == 0:
            if not stalls:
                raise RuntimeError("the first attempt fails")
            if context.partitionId() == 0:  # only one task stalls: the other core has to be free
                time.sleep(STALLS_SECONDS)

    (
        spark.range(int(rows), numPartitions=int(tasks))
        .mapInArrow(messages, "topic string, timestamp bigint, value binary")
        .write.format(random.choice(formats()))
        .mode("append")
        .options(**named(target))
        .save()
    )
    print("saved", flush=True)


def main() -> None:
    logging.disable()  # what fails here fails on purpose
    warnings.simplefilter("ignore")
    master, work, *arguments = sys.argv[1:]
    spark = session(master)
    works: dict[str, Callable[..., None]] = {"copy": copy, "save": save}
    works[work](spark, *arguments)
    spark.stop()


if __name__ == "__main__":
    main()

"""Makes a Spark session to measure in, and measures time, CPU and memory of a driver's processes.

CPU seconds are those of a process tree, as /proc counts them: this Python, the driver's JVM below
it, and the Python workers below the JVM, including workers that have ended.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from measure import Timing
from pyspark.sql import DataFrame, SparkSession

import topicdb.spark

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
DRIVER_MEMORY = "1g"
# For runs that are too short to measure: a JVM that compiles little ends them sooner.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Without these options the heap grows with the garbage of longer work, and hides other growth.
WHOLE_HEAP = f"-Xms{DRIVER_MEMORY} -XX:+AlwaysPreTouch"
SAMPLE_SECONDS = 0.05
DIGEST = (
    "count(*) as messages",
    "coalesce(sum(xxhash64(topic, timestamp, value) & 4294967295), 0) as checksum",
)
Took: TypeAlias = "tuple[float, float]"  # wall seconds, CPU seconds
Side: TypeAlias = Callable[[], Took]


@contextmanager
def session(
    cores: int, directory: Path, java: str = "", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Starts a local Spark whose workers find the files of this folder, and stops it at the end.

    ``java`` has options for its JVM, ``settings`` more settings of Spark.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_DIRS"] = str(directory)
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = (
            SparkSession.builder.master(f"local[{cores}]")
            .config("spark.driver.memory", DRIVER_MEMORY)
            .config("spark.driver.extraJavaOptions", java)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", str(cores))
            # With Spark's default, predicates on times would not reach Parquet.
            .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            .config(map=dict(settings or {}))
            .getOrCreate()
        )
    spark.sparkContext.setLogLevel("ERROR")
    topicdb.spark.register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def to_noop(frame: DataFrame) -> None:
    """Computes every row and throws it away."""
    frame.write.format("noop").mode("overwrite").save()


def digest(frame: DataFrame) -> str:
    """Returns the number of messages and a sum over them that does not depend on their order."""
    row = frame.selectExpr(*DIGEST).first()
    assert row is not None
    return digest_text(row.messages, row.checksum)


def digest_text(messages: int, checksum: int) -> str:
    return f"{messages}:{checksum % 2**64:016x}"


def measured(call: Callable[[], object]) -> Took:
    """Returns the seconds that a call takes, and the CPU seconds of all processes of the tree."""
    gc.collect()
    cpu, wall = tree_cpu_s(), time.perf_counter()
    call()
    return time.perf_counter() - wall, tree_cpu_s() - cpu


def turns(sides: Mapping[str, Side], rounds: int) -> dict[str, Timing]:
    """Runs each side once to warm up, then in turns; every round begins with another side.

    A single round only shows that everything works, and has no warming up.
    """
    timings = {name: Timing() for name in sides}
    for side in sides.values() if rounds > 1 else ():
        side()
    names = list(sides)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            wall, cpu = sides[name]()
            timings[name].wall_s.append(wall)
            timings[name].cpu_s.append(cpu)
    return timings


def median(numbers: list[float]) -> float:
    return statistics.median(numbers)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int
    cpu_s: float  # including its children that have ended


def tree(root: int | None = None) -> list[Process]:
    """Returns a process, by default this one, and all processes below it."""
    found: dict[int, Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                found[int(entry.name)] = _process(entry)
    children: dict[int, list[int]] = {}
    for process in found.values():
        children.setdefault(process.parent, []).append(process.pid)
    result, todo = [], [os.getpid() if root is None else root]
    while todo:
        pid = todo.pop()
        if pid in found:
            result.append(found[pid])
            todo += children.get(pid, [])
    return result


def _process(entry: Path) -> Process:
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    cpu_s = sum(map(int, fields[11:15])) / TICKS
    return Process(int(entry.name), int(fields[1]), int(fields[19]), cpu_s)


def tree_cpu_s() -> float:
    return sum(process.cpu_s for process in tree())


@dataclass
class Peaks:
    """The most resident memory of the JVM, and of the largest Python process below it."""

    jvm: int = 0
    worker: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Samples the processes until it is told to stop, in a thread of its own.

        Of a process that ends between two samples it knows the peak at the earlier one.
        """
        while not self._stop.wait(SAMPLE_SECONDS):
            for process in tree():
                if process.pid != os.getpid():
                    with suppress(OSError, StopIteration):
                        self._see(Path("/proc") / str(process.pid) / "status")

    def _see(self, status: Path) -> None:
        lines = status.read_text().splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        size = int(peak.split()[1]) << 10
        if lines[0].split()[1] == "java":
            self.jvm = max(self.jvm, size)
        else:
            self.worker = max(self.worker, size)


@contextmanager
def peaks() -> Iterator[Peaks]:
    found = Peaks()
    thread = threading.Thread(target=found.watch)
    thread.start()
    try:
        yield found
    finally:
        found._stop.set()
        thread.join()

"""Row 8: one core beside two, and memory with a quarter of the messages beside memory with all.

Each measurement has a process and a Spark of its own; the process runs ``measure_child``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import spark_data
from measure import Timing
from spark_measure import BRIEF, WHOLE_HEAP, peaks, session, turns
from spark_report import OURS, PARQUET, Line, Report
from spark_rows import Bench, read_sides, write_sides

CORES = (1, 2)
QUARTER = "quarter"
FLAT = 1.25  # the peak with all messages by that with a quarter
MIB = 1 << 20


def scaling(bench: Bench) -> None:
    quarter = bench.directory / QUARTER
    quarter.mkdir()
    small = spark_data.messages(bench.spark, bench.rows // 4, bench.seed, 2 * bench.cores)
    spark_data.write_parquet(small, quarter / bench.parquet.name)
    spark_data.fill_database(
        quarter / bench.database.name, quarter / bench.parquet.name, bench.cores
    )
    one, two = (_child(bench, bench.directory, bench.rows, cores) for cores in CORES)
    for work in ("full read", "batch write"):
        speedups = [one[work][side] / two[work][side] for side in (OURS, PARQUET)]
        ours, theirs = (f"{speedup:.2f} x" for speedup in speedups)
        what = f"{work}, local[2] by local[1]"
        bench.report.add(Line("8", what, ours, theirs, speedups[0] / speedups[1]))
    fewer = _child(bench, quarter, bench.rows // 4, CORES[-1])
    for who in ("jvm", "worker"):
        peak, small_peak = two["peaks"][who], fewer["peaks"][who]
        bench.report.add(
            Line(
                "8",
                f"peak memory, {who}; beside: 1/4 of the rows",
                f"{peak / MIB:,.0f} MiB",
                f"{small_peak / MIB:,.0f} MiB",
                small_peak / peak,
                target=f"<= {FLAT:g} x",
                met=peak <= FLAT * small_peak,
            )
        )


def _child(bench: Bench, directory: Path, rows: int, cores: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("spark_bench.py")), "--child"]
    arguments = [str(directory), str(rows), str(cores), str(bench.rounds)]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_child(arguments: list[str]) -> None:
    """Measures in this process, and prints the results as JSON.

    Memory is that of TopicDB's reading and writing alone: Parquet's turns come after it.
    """
    directory, (rows, cores, rounds) = Path(arguments[0]), map(int, arguments[1:])
    java = f"{BRIEF} {WHOLE_HEAP}" if rounds == 1 else WHOLE_HEAP
    with session(cores, directory, java) as spark:
        bench = Bench(spark, Report(), directory, rows, rounds, cores, 0, 0, 0, 0)
        reads, writes = read_sides(bench), write_sides(bench)
        with peaks() as found:
            for side in (reads[OURS], writes[OURS]):
                side()
        result = {
            "peaks": {"jvm": found.jvm, "worker": found.worker},
            "full read": _walls(turns(reads, rounds)),
            "batch write": _walls(turns(writes, rounds)),
        }
    print(json.dumps(result))


def _walls(timings: dict[str, Timing]) -> dict[str, float]:
    return {name: timing.wall for name, timing in timings.items()}

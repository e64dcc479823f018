"""Histories of clusters in which something fails: few operations here, many by test-histories."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import topicdb
from cluster.histories.checks import faults_of
from cluster.histories.history import History, Operation
from cluster.histories.network import what_lacks
from topicdb import _core

ROOT = Path(__file__).resolve().parents[3]
NO_GO = 75  # the exit code of histories.sh if it cannot compile the checker here


def run_histories(*arguments: object) -> str:
    """Runs clusters, which must find nothing wrong, and returns what was printed."""
    found = subprocess.run(
        [sys.executable, "-m", "cluster.histories", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests/python'}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    return found.stdout


def checker_arguments(directory: Path) -> Sequence[object]:
    """Returns the arguments that name the checker, if Go is here to compile it."""
    program = directory / "checker"
    script: list[str | Path] = [ROOT / "scripts/histories.sh", "checker", program]
    code = subprocess.run(script, check=False).returncode
    assert code in (0, NO_GO)
    return ["--checker", program] if code == 0 else []


@pytest.mark.long
@pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
class TestRuns:
    def test_a_leader_is_killed(self, tmp_path: Path) -> None:
        few = ("--operations", 300, "--faults", "kill-leader", "--faults-max", 1)
        checker = checker_arguments(tmp_path)
        told = run_histories("--no-namespaces", *few, *checker)
        assert "faults: kill-leader 1" in told
        assert told.count(": linearizable") == (3 if checker else 0)

    def test_sites_come_and_go_and_a_clock_is_wrong(self) -> None:
        kinds = ["balance", "forget-site", "join-site", "leave-site", "shift-clock", "step-down"]
        few = ("--operations", 300, "--faults", ",".join(kinds), "--faults-max", len(kinds))
        told = run_histories("--no-namespaces", *few)
        assert f"faults: {', '.join(f'{kind} 1' for kind in kinds)}" in told

    @pytest.mark.skipif(bool(what_lacks()), reason=f"no network namespaces: {what_lacks()}")
    def test_links_are_cut_and_slow(self) -> None:
        kinds = ["cut-leader", "cut-from-leader", "delay-leader", "loss-all"]
        few = ("--operations", 300, "--faults", ",".join(kinds), "--faults-max", len(kinds))
        told = run_histories(*few)
        assert f"faults: {', '.join(f'{kind} 1' for kind in sorted(kinds))}" in told


def done(kind: str, serial: int, **argument: object) -> Operation:
    """Returns an operation that was done, at a time that its serial tells."""
    times = (10 * serial, 10 * serial + 5)
    return Operation(1, kind, argument, {"serials": {"0": serial}}, *times)


def refused(kind: str, **argument: object) -> Operation:
    return Operation(1, kind, argument, {"failed": "ConflictError"}, 0, 1)


def unknown(kind: str, **argument: object) -> Operation:
    return Operation(1, kind, argument, None, 0, None)


def read(kind: str, serial: int, result: dict[str, object], **argument: object) -> Operation:
    """Returns an operation that was done, with what it was told."""
    return replace(done(kind, serial, **argument), result={**result, "serials": {"0": serial}})


LOG = [done("append", n, topic="log/0", value=str(n)) for n in (1, 2)]


class TestChecks:
    """What the checks in Python find."""

    def test_nothing_in_a_good_history(self) -> None:
        operations = [
            *LOG,
            unknown("append", topic="log/0", value="3"),
            unknown("append", topic="log/0", value="4"),
            refused("append", topic="log/0", value="5"),
            done("race", 6, name="race/0", value="6"),
            refused("race", name="race/0", value="7"),
            done("put", 8, key="map/0", value="8"),
            read("cas", 9, {"swapped": False}, key="map/0", expect=None, value="9"),
            read("peek", 10, {"values": ["1", "2"]}, topic="log/0"),
            read("total", 11, {"balances": {"bank/0": 90, "bank/1": 110}}),
            read("skew", 12, {"found": ["on", "off"]}, others=["skew/0/x", "skew/0/y"]),
        ]
        contents = {
            "log/0": ["1", "2", "3"],
            "race/0": ["6"],
            "map/0": ["8"],
            "bank/0": ["100", "90"],
            "bank/1": ["110"],
            "skew/0/x": ["on", "off"],
        }
        assert faults_of(operations, {"a": contents, "b": dict(contents)}) == []

    @pytest.mark.parametrize(
        ("operations", "stored", "message"),
        [
            (LOG, {"log/0": ["1"]}, "2 was acknowledged, and is lost"),
            (LOG, {"log/0": ["1", "2", "2"]}, "2 is stored 2 times"),
            (LOG, {"log/0": ["2", "1"]}, "the order of serials"),
            ([], {"log/0": ["1"]}, "nobody has written 1"),
            (
                [refused("put", key="map/0", value="1")],
                {"map/0": ["1"]},
                "1 was not written, and is stored",
            ),
            (
                [read("cas", 1, {"swapped": False}, key="map/0", expect="0", value="1")],
                {"map/0": ["1"]},
                "1 was not written, and is stored",
            ),
            (
                [done("race", n, name="race/0", value=str(n)) for n in (1, 2)],
                {"race/0": ["1", "2"]},
                "told that they have it",
            ),
            (
                [unknown("race", name="race/0", value=str(n)) for n in (1, 2)],
                {"race/0": ["1", "2"]},
                "only one may have it",
            ),
            (
                [done("append", 1, topic="log/0", value=value) for value in "ab"],
                {"log/0": ["a", "b"]},
                "serial 1 is that of",
            ),
            (
                [read("same", 1, {"answers": [{"0": 1}, {"0": 2}]}, topic="same/0", value="x")],
                {"same/0": ["x"]},
                "sites told different serials",
            ),
            ([read("total", 1, {"balances": {"bank/0": 90}})], {}, "which is not 100"),
            ([], {"bank/0": ["101"]}, "in the end, which is not 100"),
            ([read("skew", 1, {"found": ["off", "off"]})], {}, "both of a pair were off"),
            ([], {"skew/0/x": ["off"], "skew/0/y": ["on", "off"]}, "both are off in the end"),
            (
                [*LOG, read("peek", 3, {"values": ["2"]}, topic="log/0")],
                {"log/0": ["1", "2"]},
                "does not begin with what was read",
            ),
        ],
    )
    def test_what_is_wrong(
        self, operations: list[Operation], stored: dict[str, list[str]], message: str
    ) -> None:
        (fault,) = (one for one in faults_of(operations, {"a": stored}) if message in one)
        assert fault

    @pytest.mark.parametrize("second", [7, 6])
    def test_timestamps_that_do_not_rise(self, second: int) -> None:
        stored = {"a": {"log/0": ["1", "2"]}}
        assert faults_of(LOG, stored, {"a": {"1": 7, "2": 8}}) == []
        (fault,) = faults_of(LOG, stored, {"a": {"1": 7, "2": second}})
        told = f"shard 0: 2, of serial 2, has the timestamp {second}, and 1 before it has 7"
        assert fault == f"site a: {told}"

    def test_a_message_without_a_timestamp(self) -> None:
        stored = {"a": {"log/0": ["1", "2"]}}
        (fault,) = faults_of(LOG, stored, {"a": {"1": 7}})
        assert fault == "site a: 2 was acknowledged, and has no timestamp"

    def test_sites_that_differ(self) -> None:
        stored = {"a": {"log/0": ["1", "2"]}, "b": {"log/0": ["1"]}}
        (fault, _) = faults_of(LOG, stored)
        assert fault.startswith("log/0: site a has 2 messages, site b 1; they differ from number 1")


def refuse() -> dict[str, object]:
    raise topicdb.ConflictError("another one was first")


def lose() -> dict[str, object]:
    raise topicdb.UnknownOutcomeError("the leader is gone")


def test_a_history_tells_what_is_known(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    assert history.run(1, "put", {}, lambda: {"value": 1}) == {"value": 1}
    assert history.run(1, "put", {}, refuse) is None
    assert history.run(1, "put", {}, lose) is None
    history.close()
    assert [one.is_done for one in history.operations] == [True, False, False]
    assert [one.has_failed for one in history.operations] == [False, True, False]
    assert [one.is_unknown for one in history.operations] == [False, False, True]
    assert history.done == 1
    assert len(history.path.read_text().splitlines()) == 3

"""Runs tests of local databases again, with databases on three sites."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from topicdb import _core

TESTS = Path(__file__).parents[1]
# They are about a database of one process: they read its files, kill the process that has it, ask
# for less than what every commit at a site gets, or expect that `flush` seals whatever leads.
LOCAL = (
    "beside_the_writer",
    "explain_counts",
    "killed",
    "receipts",
)

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def run(*files: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sites_plugin"]
    command += [
        "-m",
        "not slow and not long",
        "-p",
        "no:cacheprovider",
        "-k",
        " and ".join(f"not {name}" for name in LOCAL),
        "--timeout",
        "300",
        *(str(TESTS / file) for file in files),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=TESTS, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout[-8_000:] + result.stderr[-2_000:]


@pytest.mark.parametrize(
    "file",
    [
        "messages/test_iterators.py",
        pytest.param("messages/test_delete.py", marks=pytest.mark.long),
        pytest.param("messages/test_map.py", marks=pytest.mark.long),
        pytest.param("messages/test_tail.py", marks=pytest.mark.long),
    ],
)
def test_it_is_the_same_on_three_sites(file: str) -> None:
    run(file)

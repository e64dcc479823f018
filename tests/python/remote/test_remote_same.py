"""Runs tests of local databases again, with databases of a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def run(*files: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "remote_plugin"]
    command += [
        "-m",
        "not slow and not long",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "120",
        *(str(TESTS / file) for file in files),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
    assert result.returncode == 0, result.stdout[-8_000:] + result.stderr[-2_000:]


@pytest.mark.parametrize(
    "file",
    [
        "messages/test_append_scan.py",
        "messages/test_tail.py",
        "messages/test_iterators.py",
        "mqtt/test_properties.py",
        pytest.param("messages/test_commit_async.py", marks=pytest.mark.long),
        pytest.param("messages/test_scan_steps.py", marks=pytest.mark.long),
        pytest.param("follow/test_given.py", marks=pytest.mark.long),
        pytest.param("follow/test_losses.py", marks=pytest.mark.long),
    ],
)
def test_it_is_the_same_over_the_wire(file: str) -> None:
    run(file)


@pytest.mark.slow
def test_everything_else_is_the_same_over_the_wire() -> None:
    run(
        "follow/test_consumer.py",
        "messages/test_stream_watch.py",
        "messages/test_map.py",
        "messages/test_last.py",
        "messages/test_delete.py",
    )
    run(
        "lifecycle/test_retention.py",
        "lifecycle/test_usage.py",
        "messages/test_slices.py",
        "database/test_async.py",
    )

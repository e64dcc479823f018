"""Tests of databases that are open here, run again with databases of a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(*files: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "remote_plugin", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "--timeout", "120", *(str(HERE / file) for file in files)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    assert result.returncode == 0, result.stdout[-8_000:] + result.stderr[-2_000:]


@pytest.mark.parametrize(
    "file",
    [
        "test_append_scan.py",
        "test_tail.py",
        "test_iterators.py",
        "test_properties.py",
        "test_losses.py",
    ],
)
def test_it_is_the_same_over_the_wire(file: str) -> None:
    run(file)


@pytest.mark.slow
def test_everything_else_is_the_same_over_the_wire() -> None:
    run("test_consumer.py", "test_stream_watch.py", "test_map.py", "test_last.py", "test_delete.py")
    run("test_retention.py", "test_usage.py", "test_slices.py", "test_async.py")

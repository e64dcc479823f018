"""The demo of a cluster finds nothing lost, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from topicdb import _core

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster.py"

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def test_the_demo_loses_nothing() -> None:
    command = [sys.executable, str(EXAMPLE), "--kills", "2", "--seconds", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 lost, 0 twice") == 3
    assert "nothing was lost, nothing is there twice" in done.stdout
    assert "leaders killed: 2" in " ".join(done.stdout.split())

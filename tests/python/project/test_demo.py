"""The demo succeeds at its small size of one month; it checks its counts itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import topicdb

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights.py"


@pytest.mark.spark
def test_the_small_demo_succeeds(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, str(EXAMPLE), "--small", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flight/+/+/+/+/departure: 26,483 stored, 26,483 in the source" in done.stdout
    assert (output / "delay_by_wind.png").read_bytes().startswith(b"\x89PNG")
    with topicdb.open(output / "flights.db", mode="r") as db:
        assert db.scan("airport/JFK/weather/wind_speed").count() > 700

"""Tests of the connector in Java with other versions of Spark than the one that is installed.

``scripts/spark_versions.sh`` installs them, each into a folder of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "spark_version_program.py"
# Each folder has one version, and what Spark Connect needs beside it.
VERSIONS = sorted(Path(os.environ.get("TOPICDB_SPARK_VERSIONS", "")).glob("pyspark-*"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_reads_and_writes(tmp_path: Path, folder: Path, kind: str) -> None:
    version = folder.name.removeprefix("pyspark-")
    if kind == "connect" and version.startswith("3."):
        pytest.skip("Spark Connect of 3.5 is not among PySpark's JARs")
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, PROGRAM, kind, tmp_path],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"{run.stdout[-500:]}\n{run.stderr[-4000:]}"
    assert run.stdout.splitlines()[-1] == f"Spark {version} {kind}"

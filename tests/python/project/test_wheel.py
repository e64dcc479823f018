"""Tests of the repaired wheel in an environment of its own; `make wheel` runs them."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif("TOPICDB_WHEEL" not in os.environ, reason="'make wheel' names the wheel"),
    pytest.mark.timeout(1800),
]

BUNDLED = re.compile(r"lib(rocksdb|zstd|lz4|deflate|xxhash)\b")
LICENCES = {
    "LICENSE",
    "grpc-java.txt",
    "libdeflate.txt",
    "lz4.txt",
    "rocksdb.txt",
    "xxhash.txt",
    "zstd.txt",
}

# Appends, closes, reopens and scans; then prints what it has loaded, and from where.
SMOKE = """
import json, sys
import topicdb
rows = [("a/b", 2, b"two"), ("a/c", 1, b"\\x00" * 100_000), ("$x", 0, b"")]
with topicdb.open(sys.argv[1], shards=2) as db:
    db.append(rows)
    db.flush()
with topicdb.open(sys.argv[1], mode="r") as db:
    found = sorted((m.topic, m.timestamp, len(m.value)) for m in db.scan("#"))
maps = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
print(json.dumps({
    "found": found,
    "file": topicdb.__file__,
    "maps": sorted(maps),
}))
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    return Path(os.environ["TOPICDB_WHEEL"])


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    return folder


@pytest.fixture(scope="module")
def smoke(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("wheel") / "smoke.db"
    output = run(environment / "bin" / "python", "-I", "-c", SMOKE, database)
    result: dict[str, Any] = json.loads(output)
    return result


def run(*command: str | Path) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env=clean
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_messages_survive_reopening(smoke: dict[str, Any], environment: Path) -> None:
    # "$x" is stored, but "#" does not match topics that begin with "$".
    assert smoke["found"] == [["a/b", 2, 3], ["a/c", 1, 100_000]]
    assert Path(smoke["file"]).is_relative_to(environment)


def test_the_suite_of_engines_runs_from_the_wheel(environment: Path) -> None:
    command = ("-I", "-m", "topicdb.conformance", "topicdb.conformance.ours:COLUMNAR", "-k", "log.")
    output = run(environment / "bin" / "python", *command)
    found = re.fullmatch(r"columnar: (\d+) kept, 0 broken, 0 not checked", output.splitlines()[-1])
    assert found is not None and int(found[1]) > 10, output


def test_every_library_comes_from_the_wheel(smoke: dict[str, Any], environment: Path) -> None:
    loaded = [path for path in smoke["maps"] if BUNDLED.search(Path(path).name)]
    assert loaded, "at least libzstd is a shared library of the wheel"
    outside = [path for path in loaded if not Path(path).is_relative_to(environment)]
    assert outside == []


def test_only_numpy_is_needed(environment: Path) -> None:
    listed = json.loads(run(environment / "bin" / "python", "-m", "pip", "list", "--format=json"))
    assert {package["name"] for package in listed} - {"pip", "setuptools"} == {"topicdb", "numpy"}


def test_no_symbol_but_the_module_entry_leaves_the_extension(environment: Path) -> None:
    (extension,) = environment.glob("lib/python*/site-packages/topicdb/_core*.so")
    lines = run("nm", "--dynamic", "--defined-only", extension).splitlines()
    names = {line.split()[-1] for line in lines}
    assert names == {"PyInit__core"}


def test_wheel_is_portable_and_brings_its_licences(wheel: Path) -> None:
    assert "-manylinux_2_" in wheel.name
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).name for name in names if "/licenses/" in name} >= LICENCES
    assert "topicdb/py.typed" in names
    assert [n for n in names if n.endswith((".a", ".h", ".cc")) or "__pycache__" in n] == []

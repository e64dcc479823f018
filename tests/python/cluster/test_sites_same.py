"""Runs tests of local databases again, with databases on three sites."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topicdb import _core

TESTS = Path(__file__).parents[1]
LIST = TESTS / "sites_local.txt"

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def run(kind: str, *files: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sites_plugin", "--sites", kind]
    command += ["-m", "not slow and not long", "-p", "no:cacheprovider", "--timeout", "300"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    result = subprocess.run(
        [*command, *(str(TESTS / file) for file in files)],
        capture_output=True,
        text=True,
        cwd=TESTS,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8_000:] + result.stderr[-2_000:]


@pytest.mark.parametrize("kind", ["embedded", "connected"])
@pytest.mark.parametrize(
    "file",
    [
        "messages/test_iterators.py",
        pytest.param("messages/test_delete.py", marks=pytest.mark.long),
        pytest.param("messages/test_map.py", marks=pytest.mark.long),
        pytest.param("messages/test_tail.py", marks=pytest.mark.long),
    ],
)
def test_it_is_the_same_on_three_sites(file: str, kind: str) -> None:
    run(kind, file)


def names_in(file: Path) -> set[str]:
    """Returns the names of the tests in a file, with their classes."""
    found = set()
    for item in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            found.add(item.name)
        if isinstance(item, ast.ClassDef):
            inside = (one.name for one in item.body if isinstance(one, ast.FunctionDef))
            found |= {f"{item.name}.{name}" for name in inside}
    return found


def test_what_is_left_out_is_there() -> None:
    listed = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert len(set(listed)) == len(listed)
    for name in listed:
        folder, _, rest = name.partition(".")
        file, _, test = rest.partition(".")
        assert (TESTS / folder).is_dir(), name
        if file:
            assert (TESTS / folder / f"{file}.py").exists(), name
        if test:
            assert test in names_in(TESTS / folder / f"{file}.py"), name

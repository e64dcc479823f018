"""`make test` names what failed at its end, and runs all that can run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = ("setup.sh", "cpp.sh", "wheel.sh", "pytest.sh")
# Each part notes that it ran, and fails if it was asked to.
PART = """#!/usr/bin/env bash
name=$(basename "$0")
echo "$name $*" >>ran
case " $FAILING " in *" ${name%.sh} "*|*" ${name%.sh}-$1 "*) ;; *) exit 0 ;; esac
case $name in
  cpp.sh)
    logs=build/$1/Testing/Temporary
    mkdir -p "$logs"
    echo '3:share_2_of_16' >"$logs/LastTestsFailed.log"
    echo '[  FAILED  ] All/Trie.Learns/1, where GetParam() = 2 (1 ms)' >"$logs/LastTest.log" ;;
  pytest.sh)
    for last; do :; done
    mkdir -p build/logs
    echo '<testsuite><testcase classname="test_a" name="test_b"><failure/></testcase>
      <testcase classname="test_a" name="test_c"/></testsuite>' >build/logs/pytest.xml ;;
esac
exit 1
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the real `test.sh`, and stand-ins for its parts that take no time."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name in ("test.sh", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    for name in PARTS:
        (scripts / name).write_text(PART)
        (scripts / name).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def run(tree: Path, failing: str) -> tuple[int, str, list[str]]:
    """Runs `test.sh`; returns its exit code, its stderr, and the parts that ran."""
    done = subprocess.run(
        ["bash", "scripts/test.sh"],
        cwd=tree,
        env={**os.environ, "FAILING": failing},
        capture_output=True,
        text=True,
    )
    ran = [" ".join(line.split()[:2]) for line in (tree / "ran").read_text().splitlines()]
    return done.returncode, done.stderr, ran


ALL = ["setup.sh test", "cpp.sh asan", "wheel.sh", "pytest.sh -n"]


def test_all_parts_pass(tree: Path) -> None:
    code, said, ran = run(tree, "")
    assert (code, ran) == (0, ALL)
    assert "all parts passed" in said


@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ("cpp-asan", ["C++ tests under ASan and UBSan:", "share_2_of_16", "All/Trie.Learns/1"]),
        ("wheel", ["release wheel:"]),
        ("pytest", ["Python tests:", "test_a::test_b"]),
        ("cpp-asan wheel pytest", ["ASan", "release wheel:", "test_b"]),
    ],
)
def test_what_fails_is_named_and_the_rest_runs(tree: Path, failing: str, named: list[str]) -> None:
    code, said, ran = run(tree, failing)
    assert (code, ran) == (1, ALL)
    summary = said[said.index("these parts failed") :]
    for word in named:
        assert word in summary
    assert "test_c" not in summary


def test_names_of_an_earlier_run_are_not_told_again(tree: Path) -> None:
    run(tree, "cpp-asan pytest")
    code, said, _ = run(tree, "wheel")
    assert code == 1
    assert "Trie.Learns" not in said and "test_b" not in said


def test_without_a_wheel_the_core_is_tested(tree: Path) -> None:
    code, said, ran = run(tree, "setup")
    assert (code, ran) == (1, ["setup.sh test", "cpp.sh asan"])
    assert "not run, since the set-up failed" in said

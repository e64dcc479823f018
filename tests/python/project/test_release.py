"""A release: the changelog has its section, and ``scripts/release.sh`` makes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "release.sh"
VERSION_FILE = "python/topicdb/__init__.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the tests run without the repository")


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def version_of(tree: Path) -> str:
    found = re.search(r'^__version__ = "(.+)"$', (tree / VERSION_FILE).read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def section_of(changelog: str, name: str) -> str:
    """Returns the text below ``## [name]``, and nothing if there is no such section."""
    found = re.search(
        rf"^## \[{re.escape(name)}\].*\n((?:(?!## ).*\n)*)", changelog, flags=re.MULTILINE
    )
    return found[1].strip() if found else ""


def test_the_changelog_has_the_version_or_says_that_it_is_unreleased() -> None:
    changelog = text_of("CHANGELOG.md")
    version = version_of(ROOT)
    assert section_of(changelog, version) or f"This will be {version}" in section_of(
        changelog, "Unreleased"
    )


def git(tree: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the real script and changelog; its `make wheel` and CI take no time."""
    tree = tmp_path / "tree"
    for name in ("scripts/release.sh", "scripts/lib.sh", VERSION_FILE, "CHANGELOG.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / ".ci").mkdir()
    (tree / ".ci" / "run").write_text("echo ran >>ran; exit ${CI_STATUS:-0}\n")
    (tree / "Makefile").write_text(
        "wheel:\n"
        "\tmkdir -p dist\n"
        "\ttouch dist/topicdb-$$(scripts/release.sh --version).tar.gz"
        " dist/topicdb-$$(scripts/release.sh --version)-cp312.whl\n"
    )
    (tree / ".gitignore").write_text("dist\nran\n")
    git(tree, "init", "--quiet", "-b", "main")
    git(tree, "add", "-A")
    git(tree, "commit", "--quiet", "-m", "Begin")
    return tree


def release(tree: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Runs the script; returns its exit code, stdout and stderr."""
    identity = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "T"), ("EMAIL", "t@example.org"))
    }
    done = subprocess.run(
        ["bash", "scripts/release.sh", *arguments],
        cwd=tree,
        env={**os.environ, **identity, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def is_untouched(tree: Path) -> bool:
    """Returns whether there is one commit, no tag and no change."""
    commits = git(tree, "rev-list", "--count", "HEAD").strip()
    return (commits, git(tree, "tag"), git(tree, "status", "--porcelain")) == ("1", "", "")


def test_a_dry_run_shows_what_would_change_and_changes_nothing(tree: Path) -> None:
    code, shown, said = release(tree, "7.1.0", "--dry-run")
    assert (code, is_untouched(tree)) == (0, True), said
    assert '+__version__ = "7.1.0"' in shown
    assert re.search(r"^\+## \[7\.1\.0\] - \d{4}-\d\d-\d\d$", shown, re.MULTILINE)
    assert "tag it v7.1.0" in said
    assert not (tree / "ran").exists()


def test_a_release_is_committed_and_tagged(tree: Path) -> None:
    code, _, said = release(tree, "7.1.0")
    assert code == 0, said
    assert (tree / "ran").read_text() == "ran\n"
    assert git(tree, "tag").split() == ["v7.1.0"]
    assert git(tree, "log", "-1", "--format=%s").strip() == "Version 7.1.0"
    assert git(tree, "status", "--porcelain") == ""
    assert version_of(tree) == "7.1.0"
    changelog = (tree / "CHANGELOG.md").read_text()
    assert section_of(changelog, "Unreleased") == ""
    assert section_of(changelog, "7.1.0").startswith("### Added")
    assert "### Added" in release(tree, "--notes", "7.1.0")[1]

    code, _, said = release(tree, "7.2.0", "--dry-run")
    assert (code, "[Unreleased] of CHANGELOG.md is empty" in said) == (1, True)


def test_the_version_of_the_tree_can_be_its_first_release(tree: Path) -> None:
    version = version_of(tree)
    assert release(tree, version, "--ci-passed")[0] == 0
    assert git(tree, "tag").split() == [f"v{version}"]
    assert not (tree / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "make release VERSION=0.2.0"),
        (("0.2",), "'0.2' is no version"),
        (("v0.2.0",), "'v0.2.0' is no version"),
        (("0.0.9",), "0.0.9 comes before 0.1.0"),
        (("0.1.0rc1",), "0.1.0rc1 comes before 0.1.0"),
        (("0.2.0", "--dry"), "unknown option --dry"),
        (("--notes",), "release.sh --notes 0.2.0"),
    ],
)
def test_a_wrong_version_or_option_is_refused(
    tree: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tree / VERSION_FILE).write_text('__version__ = "0.1.0"\n')
    git(tree, "commit", "--quiet", "--amend", "--allow-empty", "-am", "Begin")
    code, _, error = release(tree, *arguments)
    assert (code, said in error, is_untouched(tree)) == (1, True, True), error


def test_changes_that_are_not_committed_are_refused_and_kept(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("mine")
    code, _, said = release(tree, "7.1.0")
    assert (code, "not committed" in said) == (1, True)
    assert (tree / "CHANGELOG.md").read_text() == "mine"


def test_a_tag_that_exists_is_refused(tree: Path) -> None:
    git(tree, "tag", "v7.1.0")
    code, _, said = release(tree, "7.1.0")
    assert (code, "tag v7.1.0 exists already" in said) == (1, True)


def test_where_ci_fails_nothing_is_changed(tree: Path) -> None:
    code, _, _ = release(tree, "7.1.0", CI_STATUS="3")
    assert (tree / "ran").exists()
    assert (code, is_untouched(tree)) == (3, True)


def test_where_the_wheel_has_another_version_nothing_is_changed(tree: Path) -> None:
    (tree / "Makefile").write_text("wheel:\n\tmkdir -p dist\n\ttouch dist/topicdb-6.0.0.tar.gz\n")
    git(tree, "commit", "--quiet", "--amend", "-am", "Begin")
    code, _, said = release(tree, "7.1.0")
    assert (code, "no dist/topicdb-7.1.0.tar.gz" in said) == (1, True)
    assert is_untouched(tree)

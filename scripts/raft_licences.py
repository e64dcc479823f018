"""Writes licenses/raft_crates.txt: the crates that raft/ links, and the texts of their licences.

``raft_licences.py`` asks Cargo which crates those are, on Linux, and reads the texts from their
sources, which Cargo has fetched. Texts that are the same are written once. ``--check`` writes
nothing, and exits with 1 if the file is not what it would be.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "licenses" / "raft_crates.txt"
TARGET = "x86_64-unknown-linux-gnu"
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
HEAD = "The crates that are linked into builds with raft/, and the texts of their licences.\n"


def cargo(*arguments: str) -> str:
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(
        command, cwd=ROOT / "raft", check=True, capture_output=True, text=True
    ).stdout


def linked() -> set[tuple[str, str]]:
    """Returns the names and versions of the crates that are linked, without our own."""
    tree = cargo("tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--target", TARGET)
    found = {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines()}
    return {crate for crate in found if crate[0] != "topicdb_raft"}


def texts_of(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(NAMES))
    return [path.read_text(errors="replace").strip() for path in files if path.is_file()]


def licences() -> str:
    crates = linked()
    packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    lines = []
    texts: dict[str, str] = {}  # by their words, since some differ in spaces only
    users: dict[str, list[str]] = defaultdict(list)
    for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
        if (package["name"], package["version"]) not in crates:
            continue
        title = f"{package['name']} {package['version']}"
        lines.append(f"{title}: {package['license'] or 'see its text'}")
        for text in texts_of(Path(package["manifest_path"]).parent):
            words = " ".join(text.split())
            texts.setdefault(words, text)
            users[words].append(title)
    parts = [HEAD + "\n" + "\n".join(lines)]
    for words, text in texts.items():
        parts.append(f"{'-' * 80}\n{', '.join(users[words])}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    text = licences()
    if "--check" not in sys.argv[1:]:
        PLACE.write_text(text)
    elif not PLACE.exists() or PLACE.read_text() != text:
        sys.exit(f"{PLACE.relative_to(ROOT)} is out of date: run scripts/raft_licences.py")


if __name__ == "__main__":
    main()

"""Runs clang-tidy over the sources that changed since they passed it.

``clang_tidy.py COMPILE_COMMANDS_DIRECTORY SOURCE...`` checks a source again if it, a header of this
project that it includes, or the configuration of clang-tidy has changed. It takes a minute or more
for all sources, and a few seconds for one.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from includes import ROOT, included_names, text_of

STAMPS = ROOT / "build" / "clang-tidy"
CLANG_TIDY = Path(sys.executable).parent / "clang-tidy"
INCLUDE_ROOTS = [
    ROOT / "cpp" / "include",
    ROOT / "cpp" / "src",
    ROOT / "bindings",
    ROOT / "bindings_java",
]
CONFIGURATION = [ROOT / ".clang-tidy", ROOT / "pyproject.toml"]  # the latter has its version
CHATTER = re.compile(r"^(\d+ warnings? (treated|generated)|Suppressed|Use -header-filter)")


@cache
def includes_of(file: Path) -> list[Path]:
    """Returns the headers of this project that the file itself includes."""
    found = []
    for name in included_names(file):
        places = [root / name for root in (file.parent, *INCLUDE_ROOTS)]
        found += [place for place in places if place.is_file()][:1]
    return found


def files_of(source: Path) -> set[Path]:
    """Returns the source and all headers of this project that it includes, directly or not."""
    files = {source}
    waiting = [source]
    while waiting:
        more = set(includes_of(waiting.pop())) - files
        files |= more
        waiting += more
    return files


def digest_of(source: Path) -> str:
    digest = hashlib.sha256()
    for file in [*CONFIGURATION, *sorted(files_of(source))]:
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + text_of(file).encode() + b"\0")
    return digest.hexdigest()


def stamp_of(source: Path) -> Path:
    return STAMPS / source.relative_to(ROOT).with_suffix(".passed")


def has_passed(source: Path) -> bool:
    stamp = stamp_of(source)
    return stamp.is_file() and stamp.read_text() == digest_of(source)


def check(source: Path, commands: Path) -> bool:
    """Runs clang-tidy and prints its findings; returns whether the source passes."""
    ran = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", commands, source],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    findings = [line for line in ran.stdout.splitlines() if not CHATTER.match(line)]
    if findings:
        print("\n".join(findings), flush=True)
    if ran.returncode != 0:
        return False
    stamp = stamp_of(source)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest_of(source))
    return True


def main(arguments: list[str]) -> None:
    commands = Path(arguments[0])
    sources = [Path(name).resolve() for name in arguments[1:]]
    changed = [source for source in sources if not has_passed(source)]
    print(f"clang-tidy: {len(changed)} of {len(sources)} sources to check", file=sys.stderr)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        passed = list(threads.map(lambda source: check(source, commands), changed))
    if not all(passed):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

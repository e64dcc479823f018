"""Runs clang-tidy over the sources that have not passed it as they are.

``clang_tidy.py COMPILE_COMMANDS_DIRECTORY SOURCE...`` checks a source again if it, a header of this
project that it includes, or the configuration of clang-tidy has changed. It takes some minutes for
all sources, and a few seconds for one. All checkouts of a user share what has passed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from includes import ROOT, included_names, text_of

# Has an empty file for each text that has passed, named by its digest, while it is of use.
STAMPS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "topicdb" / "clang-tidy"
STAMP_DAYS = 60
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
    return STAMPS / digest_of(source)


def has_passed(source: Path) -> bool:
    stamp = stamp_of(source)
    if not stamp.is_file():
        return False
    stamp.touch()
    return True


def forget_unused() -> None:
    """Removes the stamps that no checkout has used for ``STAMP_DAYS``."""
    oldest = time.time() - STAMP_DAYS * 24 * 3600
    for stamp in STAMPS.iterdir():
        with suppress(FileNotFoundError):  # another run removes it
            if stamp.stat().st_mtime < oldest:
                stamp.unlink()


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
    stamp_of(source).touch()
    return True


def main(arguments: list[str]) -> None:
    commands = Path(arguments[0])
    sources = [Path(name).resolve() for name in arguments[1:]]
    STAMPS.mkdir(parents=True, exist_ok=True)
    forget_unused()
    changed = [source for source in sources if not has_passed(source)]
    print(f"clang-tidy: {len(changed)} of {len(sources)} sources to check", file=sys.stderr)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        passed = list(threads.map(lambda source: check(source, commands), changed))
    if not all(passed):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

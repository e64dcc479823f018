"""Checks how the tree is divided: which way includes point, and how large files and folders are.

``check_structure.py`` prints what breaks a rule, and exits with 1 if anything does. An exception
that is not needed any more breaks a rule as well.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from includes import ROOT, included_names, text_of

CORE = ROOT / "cpp" / "src"

# The folders of cpp/src and what each may include: the core points one way.
MAY_INCLUDE = {
    "arrow": set[str](),
    "base": set[str](),
    "topic": {"base"},
    "envelope": {"base"},
    "rocks": {"base"},
    "commit": {"base"},
    "segment": {"base"},
    "structure": {"base", "topic"},
    # layout.cc makes the layouts that there are.
    "layout": {"base", "structure", "layout/columnar", "layout/skipstream"},
    "layout/columnar": {"base", "layout", "rocks"},
    "layout/skipstream": {"base", "layout", "rocks"},
    "store": {"base", "commit", "layout", "rocks", "structure"},
    "subscribe": {"base", "store"},
    "queue": {"base", "segment"},
}
# Headers of the whole database, which its lower parts do without.
FACADES = {"database.h", "queue.h", "subscription.h"}
FACADE_USERS = {
    "queue",
    "store",
    "subscribe",
    "commit",  # for the types of values in database.h, as the next one
    "layout",
}

FILE_LINES_MAX = 500
# Larger than they should be, as they are today: they may not grow.
FILE_EXCEPTIONS = {
    "python/topicdb/_core.pyi": 588,
    "python/topicdb/database.py": 512,
}
FOLDER_FILES_MAX = 20
FOLDER_EXCEPTIONS = {
    "bindings": 29,
    "cpp/src/base": 35,
    "cpp/src/layout/columnar": 73,
    "cpp/src/rocks": 31,
    "cpp/src/store": 108,
    "python/topicdb": 42,
    "python/topicdb/cli": 24,
    "python/topicdb/remote": 25,
    "python/topicdb/replay": 33,
}
SOURCE_TREES = ["bindings", "cpp/include", "cpp/src", "python"]
SUFFIXES = {".cc", ".h", ".py", ".pyi"}


def sources(tree: str) -> list[Path]:
    return sorted(path for path in (ROOT / tree).rglob("*") if path.suffix in SUFFIXES)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def include_faults() -> Iterator[str]:
    for file in sources("cpp/src"):
        folder = str(file.parent.relative_to(CORE))
        if folder not in MAY_INCLUDE:
            yield f"{folder}: MAY_INCLUDE says nothing of this folder"
            continue
        for included in included_names(file):
            if included.startswith("topicdb/"):
                header = included.removeprefix("topicdb/")
                if header in FACADES and folder not in FACADE_USERS:
                    yield f"{name_of(file)} includes {included}, which stands above it"
                continue
            room = str(Path(included).parent)
            if room != folder and room not in MAY_INCLUDE[folder]:
                yield f"{name_of(file)} includes {included}: {folder} may not include {room}"


def unused_headers() -> Iterator[str]:
    used: set[str] = set()
    for tree in [*SOURCE_TREES, "tests/cpp", "bench/cpp"]:
        for file in sources(tree):
            if file.suffix != ".py":
                used.update(included_names(file))
    names = {Path(name).name for name in used}
    for tree, root in (("cpp/src", CORE), ("bindings", ROOT / "bindings")):
        for file in sources(tree):
            if file.suffix == ".h" and str(file.relative_to(root)) not in used | names:
                yield f"{name_of(file)}: nothing includes it"


def uncompiled_sources() -> Iterator[str]:
    lists = "".join((ROOT / name / "CMakeLists.txt").read_text() for name in ("cpp", "bindings"))
    for tree in ("cpp/src", "bindings"):
        for file in sources(tree):
            if file.suffix == ".cc" and file.name not in lists:
                yield f"{name_of(file)}: no CMakeLists.txt names it"


def size_faults(
    sizes: dict[str, int], size_max: int, exceptions: dict[str, int], unit: str
) -> Iterator[str]:
    for name, size in sorted(sizes.items()):
        allowed = exceptions.get(name, size_max)
        if size > allowed:
            yield f"{name}: {size} {unit}, at most {allowed} are allowed"
    for name in exceptions:
        if sizes.get(name, 0) <= size_max:
            yield f"{name}: needs no exception any more: at most {size_max} {unit}"


def faults() -> Iterator[str]:
    yield from include_faults()
    yield from unused_headers()
    yield from uncompiled_sources()
    files = [file for tree in SOURCE_TREES for file in sources(tree)]
    lines = {name_of(file): len(text_of(file).splitlines()) for file in files}
    yield from size_faults(lines, FILE_LINES_MAX, FILE_EXCEPTIONS, "lines")
    folders = Counter(name_of(file.parent) for file in files)
    yield from size_faults(dict(folders), FOLDER_FILES_MAX, FOLDER_EXCEPTIONS, "files")


def main() -> None:
    found = list(dict.fromkeys(faults()))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

"""Checks the structure of the tree.

It checks which way includes point, how large files, folders and functions are, whether tests stand
where the code is, whether documents name files that exist, and whether a formatter broke comments.

``check_structure.py`` prints everything that breaks a rule, and then exits with 1. An exception
that is no longer needed also breaks a rule.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from includes import ROOT, included_names, text_of

CORE = ROOT / "cpp" / "src"
PUBLIC = ROOT / "cpp" / "include" / "topicdb"
CPP_TESTS = ROOT / "tests" / "cpp"
TOGETHER = "together"  # the folder of CPP_TESTS for tests of several parts

# The parts of cpp/src and the parts that each may include: includes in the core point one way.
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
    "replication": {"base", "rocks", "store"},
    "subscribe": {"base", "store"},
    "queue": {"base", "segment"},
}
# The C interface of raft/, and the only folder that uses it.
CONSENSUS = "topicdb_raft.h"
CONSENSUS_USER = "replication/raft"
# The rooms of a part, which are folders, the lowest first: each may include those before it. "." is
# the part's own folder.
ROOMS = {
    "base": ["bytes", "thread", "memory", "file", "."],
    "replication": [
        ".",
        "digest",
        "snapshot",
        "forward",
        "raft",  # needs the consensus
        "state",
        "replica",
        "jobs",
        "cluster",
    ],
    "rocks": ["log", "files", "."],
    "layout/columnar": ["format", "block", "select", "merge", "read", "seal", "care", "."],
    "store": [
        "catalog",  # the data on disk of a database and its shards beside the messages
        "job",  # the data on disk of jobs
        "slab",  # the slabs of a shard
        "view",  # what readers see of a shard
        "read",
        "shard/state",  # the state of a shard, and the one way to write it
        "shard/replay",  # what another process writes to a shard
        "shard/upkeep",  # sealing, and the work that sealing leaves
        "shard/commit",  # appends, transactions, deletes, jobs
        "shard/generation",  # making, merging and dropping slabs
        "shard",  # the class that owns all of these
        "care",  # verify, repair, copy
        "upload",  # a database in an object store
        "database",  # the open database
        "cursor",  # reading step by step
        "transaction",
        ".",
    ],
}

# Headers of a whole database or queue. Lower parts do without them, since the arguments and results
# of calls have headers of their own.
FACADES = {
    "database.h",
    "database/site.h",
    "database/subscriptions.h",
    "database/upkeep.h",
    "queue.h",
    "subscription.h",
}
BINDINGS = ("bindings", "bindings_java")
FACADE_USERS = {"queue", "replication/cluster", "store", "subscribe"}

FILE_LINES_MAX = 500
# Files that are too large, with their size of today: they may not grow.
FILE_EXCEPTIONS = {
    "python/topicdb/_core.pyi": 1001,
}
FUNCTION_LINES_MAX = 60  # in the body of a Python function
# What a ShardLog writes with.
LOGS = {"local_log.cc", "unlogged_rocks.cc"}
PAST_THE_LOG = re.compile(r"\bdb_?(\.get\(\))?->(Write|Put|Delete|DeleteRange|Merge)\(")
LONG_COLUMNS = 88  # a line of a comment with at least this many is about full
SHORT_COLUMNS = 12  # a text of at most this many is a word or two
FOLDER_FILES_MAX = 20
FOLDER_EXCEPTIONS: dict[str, int] = {}
SOURCE_TREES = ["bindings", "bindings_java", "cpp/include", "cpp/src", "python", "spark"]
SUFFIXES = {".cc", ".h", ".java", ".py", ".pyi"}
# The packages of the Spark connector, the lowest first: each may import those before it.
JAVA = ROOT / "spark" / "src"
JAVA_PACKAGES = [
    "io.topicdb.spark.types",
    "io.topicdb.spark.core",
    "io.topicdb.spark.functions",
    "io.topicdb.spark.select",
    "io.topicdb.spark.remote",
    "io.topicdb.spark.grpc",
    "io.topicdb.spark.place",
    "io.topicdb.spark.stream",
    "io.topicdb.spark.summary",
    "io.topicdb.spark.vectors",
    "io.topicdb.spark.write",
    "io.topicdb.spark",
]
JAVA_LIBRARIES = ("java.", "org.apache.hadoop.", "org.apache.spark")
JAVA_GRPC = "io.topicdb.spark.grpc"  # left out of a JAR without gRPC, so nobody may import it
JAVA_GRPC_LIBRARIES = "io.topicdb.spark.shaded."


def sources(tree: str) -> list[Path]:
    return sorted(path for path in (ROOT / tree).rglob("*") if path.suffix in SUFFIXES)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def part_of(folder: str) -> str | None:
    """Returns the part of cpp/src that a folder belongs to, or None."""
    found = [part for part in MAY_INCLUDE if folder == part or folder.startswith(part + "/")]
    return max(found, key=len, default=None)


def room_number(part: str, folder: str) -> int | None:
    """Returns how high a folder stands among the rooms of its part, or None if it is no room."""
    rooms = ROOMS.get(part, ["."])
    room = "." if folder == part else folder.removeprefix(part + "/")
    return rooms.index(room) if room in rooms else None


def may_include(folder: str, other: str) -> bool:
    part, other_part = part_of(folder), part_of(other)
    if part is None or other_part is None:
        return False
    if part != other_part:
        return other_part in MAY_INCLUDE[part]
    room, other_room = room_number(part, folder), room_number(part, other)
    return room is not None and other_room is not None and other_room <= room


def include_faults() -> Iterator[str]:
    for file in sources("cpp/src"):
        folder = str(file.parent.relative_to(CORE))
        part = part_of(folder)
        if part is None or room_number(part, folder) is None:
            yield f"{folder}: neither MAY_INCLUDE nor ROOMS has this folder"
            continue
        for included in included_names(file):
            if included.startswith("topicdb/"):
                header = included.removeprefix("topicdb/")
                if header in FACADES and folder not in FACADE_USERS:
                    yield f"{name_of(file)} includes {included}, which stands above it"
                continue
            if included == CONSENSUS:
                if folder != CONSENSUS_USER:
                    yield f"{name_of(file)} includes {included}, which only {CONSENSUS_USER} may"
                continue
            if not may_include(folder, str(Path(included).parent)):
                yield f"{name_of(file)} includes {included}, which stands above it"


def writes_past_the_log() -> Iterator[str]:
    """Finds writes to RocksDB past ShardLog: a log other than RocksDB's own would miss them."""
    for file in sources("cpp/src"):
        if file.name in LOGS:
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if PAST_THE_LOG.search(line):
                yield f"{name_of(file)}:{number} writes to RocksDB past ShardLog"


def unused_headers() -> Iterator[str]:
    used: set[str] = set()
    for tree in [*SOURCE_TREES, "tests/cpp", "bench/cpp"]:
        for file in sources(tree):
            if file.suffix in {".cc", ".h"}:
                used.update(included_names(file))
    names = {Path(name).name for name in used}
    roots = {"cpp/src": CORE, **{name: ROOT / name for name in BINDINGS}}
    for tree, root in roots.items():
        for file in sources(tree):
            if file.suffix == ".h" and str(file.relative_to(root)) not in used | names:
                yield f"{name_of(file)}: nothing includes it"


def tests_elsewhere() -> Iterator[str]:
    """Finds C++ tests that do not stand where the code that they test does."""
    for file in sources("tests/cpp"):
        place = file.relative_to(CPP_TESTS)
        if not file.name.endswith("_test.cc") or place.parts[0] == TOGETHER:
            continue
        unit = place.parent / file.name.removesuffix("_test.cc")
        if not any(
            (root / unit).with_suffix(suffix).exists()
            for root in (CORE, PUBLIC)
            for suffix in (".cc", ".h")
        ):
            yield f"{name_of(file)}: neither cpp/src nor cpp/include/topicdb has {unit}"


def uncompiled_sources() -> Iterator[str]:
    for tree in ("cpp/src", *BINDINGS):
        listed = (ROOT / tree.removesuffix("/src") / "CMakeLists.txt").read_text()
        for file in sources(tree):
            if file.suffix == ".cc" and file.name not in listed:
                yield f"{name_of(file)}: no CMakeLists.txt names it"


IMPORT_IN_JAVA = re.compile(r"^import (?:static )?([\w.]+)\.\w+;$", re.MULTILINE)


def java_import_faults() -> Iterator[str]:
    """Finds imports of other libraries, and of packages that stand above."""
    for file in sources("spark"):
        package = str(file.parent.relative_to(JAVA)).replace("/", ".")
        if package not in JAVA_PACKAGES:
            yield f"{name_of(file)}: JAVA_PACKAGES does not have {package}"
            continue
        allowed = JAVA_PACKAGES[: JAVA_PACKAGES.index(package)]
        for imported in IMPORT_IN_JAVA.findall(text_of(file)):
            if imported.startswith(JAVA_LIBRARIES):
                continue
            if imported in allowed and imported != JAVA_GRPC:
                continue
            if package == JAVA_GRPC and imported.startswith(JAVA_GRPC_LIBRARIES):
                continue
            yield f"{name_of(file)} imports {imported}, which it may not"


def long_functions(file: Path) -> Iterator[str]:
    """Finds Python functions whose body, without the docstring, is too long."""
    for node in ast.walk(ast.parse(text_of(file))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        has_docstring = ast.get_docstring(node) is not None and len(node.body) > 1
        first = node.body[1 if has_docstring else 0]
        size = (node.end_lineno or first.lineno) - first.lineno + 1
        if size > FUNCTION_LINES_MAX:
            place = f"{name_of(file)}:{node.lineno}"
            yield f"{place}: {node.name} has {size} lines, at most {FUNCTION_LINES_MAX} are allowed"


PATH_IN_DOCS = re.compile(
    r"`((?:bench|bindings|bindings_java|cpp|examples|python|scripts|spark|tests)/[\w/.]+\.\w+)`"
)


def stale_paths() -> Iterator[str]:
    """Finds files that a document names and that do not exist."""
    for document in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]:
        for path in PATH_IN_DOCS.findall(text_of(document)):
            if not (ROOT / path).exists():
                yield f"{name_of(document)} names {path}, which is not there"


COMMENT = re.compile(r"^\s*(?:// ?|# )(.*)$")


def broken_comments(file: Path) -> Iterator[str]:
    """Finds comments that a formatter has broken: a word or two alone between full lines."""
    lines = text_of(file).splitlines()
    for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        found = [COMMENT.match(text) for text in (before, line, after)]
        if not all(found) or len(before) < LONG_COLUMNS:
            continue
        _, words, rest = (match.group(1).strip() for match in found if match is not None)
        if 0 < len(words) <= SHORT_COLUMNS and words[-1] not in ".:;)" and rest[:1].islower():
            yield f"{name_of(file)}:{number + 2}: a comment that the formatter broke: {words!r}"


def size_faults(
    sizes: dict[str, int], size_max: int, exceptions: dict[str, int], unit: str
) -> Iterator[str]:
    """Finds sizes that are too large, and exceptions that are no longer needed."""
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
    yield from writes_past_the_log()
    yield from uncompiled_sources()
    yield from java_import_faults()
    yield from tests_elsewhere()
    yield from stale_paths()
    files = [file for tree in SOURCE_TREES for file in sources(tree)]
    for file in files:
        yield from broken_comments(file)
        if file.suffix == ".py":
            yield from long_functions(file)
    lines = {name_of(file): len(text_of(file).splitlines()) for file in files}
    yield from size_faults(lines, FILE_LINES_MAX, FILE_EXCEPTIONS, "lines")
    folders = Counter(name_of(file.parent) for file in [*files, *sources("tests/cpp")])
    yield from size_faults(dict(folders), FOLDER_FILES_MAX, FOLDER_EXCEPTIONS, "files")


def main() -> None:
    found = list(dict.fromkeys(faults()))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

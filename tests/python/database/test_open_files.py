"""A database with many generations has few files open, and works under a low limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Child, run_child, wait_until

import topicdb

SHARDS = 4
GENERATIONS = 40
TOPICS = [f"metrics/h{i}" for i in range(16)]

# Code of a process that may have few files open, and cannot raise that limit.
LIMITED = """
import resource, sys
import topicdb
path, limit = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
"""


def fill(path: Path, generations: int = GENERATIONS) -> None:
    with topicdb.open(path, shards=SHARDS, maintenance_interval=None) as db:
        for generation in range(generations):
            db.append([(topic, generation, b"%d" % generation) for topic in TOPICS])
            db.rotate()
        db.flush()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.db"
    fill(path)
    # There are more files than the limited processes may have open.
    assert len(list(path.rglob("*.sst"))) > 2 * SHARDS * GENERATIONS
    return path


def test_a_reader_reads_all(path: Path) -> None:
    out = run_child(
        LIMITED
        + """
with topicdb.open(path, mode="r") as db:
    print(db.scan().count(), db.scan(order="time").count(), db.verify(deep=True).ok)
    streams = db.streams("metrics/h1")
    pages = [db.next(db.iterator(stream, "metrics/h1"), 10) for stream in streams]
    print(sum(len(page.batch) for page in pages))
""",
        path,
        128,
    )
    count = len(TOPICS) * GENERATIONS
    assert out.split() == [str(count), str(count), "True", str(GENERATIONS)]


def test_a_writer_makes_more_generations_than_it_may_have_files(tmp_path: Path) -> None:
    """RocksDB holds the directory of a shard open for each generation that it makes."""
    out = run_child(
        LIMITED
        + """
with topicdb.open(path, shards=4, maintenance_interval=None) as db:
    for generation in range(60):
        db.append([(f"metrics/h{i}", generation, b"") for i in range(16)])
        db.rotate()
    print(db.scan().count())
""",
        tmp_path / "x.db",
        128,
    )
    assert out == f"{60 * 16}\n"


def test_a_writer_writes_rotates_and_drops(path: Path) -> None:
    """Retention works under the limit, too: it is the way out of too many generations."""
    out = run_child(
        LIMITED
        + """
with topicdb.open(path) as db:
    for generation in range(1000, 1010):
        db.append([(f"metrics/h{i}", generation, b"") for i in range(16)])
        db.rotate()
    for slab in db.slabs():
        if slab.generation <= 10:
            db.drop_slab(slab)
    db.flush()
    db.maintain()
    print(db.scan().count())
with topicdb.open(path) as db:
    print(db.scan().count())
""",
        path,
        160,
    )
    assert out.split() == [str(len(TOPICS) * GENERATIONS)] * 2


def test_the_soft_limit_is_raised_as_far_as_it_may(tmp_path: Path) -> None:
    out = run_child(
        """
import resource, sys
import topicdb
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
topicdb.open(sys.argv[1]).close()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
""",
        tmp_path / "x.db",
    )
    assert out.split() == ["300", "300"]


def test_the_error_names_the_limit(path: Path) -> None:
    """Other code has taken all file descriptors."""
    out = run_child(
        LIMITED
        + """
import os
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    topicdb.open(path)
except topicdb.StorageError as error:
    print(error)
for fd in taken:
    os.close(fd)
with topicdb.open(path) as db:
    print(db.scan().count())
""",
        path,
        200,
    )
    message, count = out.splitlines()
    assert "200 files open" in message and "ulimit -n" in message, message
    assert int(count) == len(TOPICS) * GENERATIONS


READER = (
    LIMITED
    + """
def read(what):
    try:
        return what()
    except topicdb.CorruptionError as error:
        return str(error)

db = topicdb.open(path, mode="r", cache_bytes=1 << 20)
streams = db.streams("metrics/h1")
print("open", flush=True)
sys.stdin.readline()
print(read(lambda: len(db.scan().to_list())), flush=True)
print(read(lambda: len(db.next(db.iterator(streams[0], "metrics/h1"), 10).batch)), flush=True)
db.refresh()
print(db.scan().count(), flush=True)
"""
)


def test_what_a_writer_removes_under_a_reader_is_an_error_and_no_end(path: Path) -> None:
    """The reader cannot reopen files that were removed; the error says so and what to do."""
    with Child(READER, path, 128) as reader:
        reader.expect("open")
        before = set(path.rglob("*.sst"))
        with topicdb.open(path, maintenance_interval=None) as db:
            for slab in db.slabs():
                if slab.generation <= GENERATIONS // 2:
                    db.drop_slab(slab)
            wait_until(lambda: len(before - set(path.rglob("*.sst"))) >= SHARDS * GENERATIONS // 2)
        reader.send()
        for what in ("a scan", "an iterator"):
            message = reader.read_line()
            assert "refresh()" in message and "generation 1 " in message, (what, message)
        reader.expect(str(len(TOPICS) * (GENERATIONS - GENERATIONS // 2)))

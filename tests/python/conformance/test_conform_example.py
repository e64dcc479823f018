"""The example of an engine in plain Python keeps the promises without TopicDB's own storage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conforming import WITHOUT_A_SHARD, check

import topicdb
from examples.memory_engine import open_journal, open_memory
from examples.memory_engine.journal import JournalEngine
from topicdb.conformance import Promise, Subject, promises

LACKS = frozenset({"directory", "retention", "snapshots", "jobs"})
UNABLE = WITHOUT_A_SHARD | {"keeping.a_reader_beside_sees_and_may_not_write"}
"""The example has no handle to read alone, and none without a shard."""


@pytest.mark.parametrize("promise", promises(), ids=str)
def test_messages_in_dicts(promise: Promise) -> None:
    check(promise, Subject("memory", open_memory), LACKS | {"persistence"})


@pytest.mark.parametrize("promise", promises(), ids=str)
def test_with_a_journal(promise: Promise) -> None:
    check(promise, Subject("journal", open_journal), LACKS, UNABLE)


def test_a_record_that_is_cut_off_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with topicdb.Database.over(open_journal(str(path))) as db:
        db.append([("a", 1, b"whole")])
        whole = path.stat().st_size
        db.append([("a", 2, b"cut off")])
    os.truncate(path, path.stat().st_size - 3)
    with topicdb.Database.over(open_journal(str(path))) as db:
        assert [m.value for m in db.scan("a")] == [b"whole"]
        assert path.stat().st_size == whole


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with topicdb.Database.over(open_journal(str(path))) as db:
        db.append([("a", 1, b"one"), ("a", 2, b"two")])
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(topicdb.CorruptionError, match="damaged"):
        JournalEngine(str(path), 2)

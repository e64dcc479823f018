"""What is there when an engine is opened again: after it was closed, and after it was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.expect import NotCheckedError
from topicdb.conformance.lab import Lab, plain, read
from topicdb.conformance.promise import promise
from topicdb.conformance.subject import environment

KILLED_AFTER = 60  # appends


@promise("persistence")
def everything_is_there_afterwards(lab: Lab) -> None:
    """What was acknowledged with any durability is there, in its order, when the engine was closed
    and opened again; so is the schema."""
    rows = [(f"k/{n % 7}", (5 * n) % 50, b"%d" % n) for n in range(200)]
    for first, durability in ((0, "none"), (50, "os"), (100, "disk"), (150, None)):
        lab.engine.append_rows(rows[first : first + 50], durability)
    everything, schema = lab.everything(), lab.engine.schema
    by_stream = {topic: lab.messages(topic) for topic in {row[0] for row in rows}}
    newest = read(lab.engine.last("#", None, None))
    for _ in range(2):
        lab.reopen()
        expect.equal(lab.everything(), everything, "what is there")
        expect.equal(lab.engine.schema, schema, "the schema")
        for topic, wanted in by_stream.items():
            expect.equal(lab.messages(topic), wanted, f"the messages of {topic!r}, in their order")
        expect.equal(read(lab.engine.last("#", None, None)), newest, "the newest messages")


@promise("persistence")
def serials_and_timestamps_go_on(lab: Lab) -> None:
    """After the engine was opened again serials and assigned timestamps are later than before."""
    topic = lab.topic_in(0)
    serial = lab.append((topic, None, b"0")).serials[0]
    for n in range(1, 4):
        lab.reopen()
        later = lab.append((topic, None, b"%d" % n)).serials[0]
        expect.true(later > serial, f"serial {later} is behind {serial}")
        serial = later
    found = lab.messages(topic)
    expect.equal([v for _, _, v in found], [b"%d" % n for n in range(4)], "the order of timestamps")
    expect.equal(len({t for _, t, _ in found}), 4, "how many different timestamps there are")


@promise("persistence")
def a_flush_changes_nothing_on_the_way(lab: Lab) -> None:
    """What was flushed and what was not are both there afterwards."""
    lab.append(("a", 1, b"flushed"))
    lab.engine.flush()
    lab.append(("a", 2, b"not flushed"))
    lab.reopen()
    expect.equal(
        lab.everything(), [("a", 1, b"flushed"), ("a", 2, b"not flushed")], "what is there"
    )


@promise("persistence")
def nothing_acknowledged_is_lost_by_a_kill(lab: Lab) -> None:
    """When a process is killed with its handle open, what it was acknowledged with "os" or "disk"
    is there afterwards, each commit of a shard wholly or not at all, and serials go on."""
    if lab.subject.reference is None:
        raise NotCheckedError("another process cannot open it: give it by the name of a function")
    lab.close()
    told = _killed(lab)
    lab.reopen()
    found = lab.everything()
    by_append: dict[int, int] = {}
    for _, timestamp, _ in found:
        by_append[timestamp] = by_append.get(timestamp, 0) + 1
    for number, serials in told:
        expect.equal(
            by_append.get(number, 0),
            10,
            f"messages of append {number}, acknowledged with {serials}",
        )
    for topic, timestamp, value in found:
        expect.equal(value, f"{topic}:{timestamp}".encode(), "the value of a message")
    for shard in range(lab.shards):
        mine = [t for topic, t, _ in found if lab.shard_of(topic) == shard]
        per_append = sum(lab.shard_of(f"killed/{n}") == shard for n in range(10))
        for timestamp in set(mine):
            expect.equal(
                mine.count(timestamp),
                per_append,
                f"messages of append {timestamp} in shard {shard}",
            )
    receipt = lab.append(*[(f"killed/{n}", 9_999, b"") for n in range(10)])
    for shard, serial in receipt.serials.items():
        last = max((s[shard] for _, s in told if shard in s), default=0)
        expect.true(serial > last, "serials go on")


def _killed(lab: Lab) -> list[tuple[int, dict[int, int]]]:
    """Returns the appends that a process made before it was killed: number and serials of each."""
    command = [
        sys.executable,
        "-m",
        "topicdb.conformance.writer",
        str(lab.subject.reference),
        lab.path,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    told: list[tuple[int, dict[int, int]]] = []
    try:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            number, serials = json.loads(line)
            told.append((number, {int(shard): serial for shard, serial in serials.items()}))
            if len(told) == KILLED_AFTER:
                break
    finally:
        process.kill()
        _, errors = process.communicate()
    expect.equal(
        len(told), KILLED_AFTER, f"how many appends another process made, which said {errors}"
    )
    return told


@promise("persistence")
def nothing_durable_is_acknowledged_elsewhere(lab: Lab) -> None:
    """When the data of an open engine is taken from its path, it acknowledges nothing with "disk"
    any more, but raises a StorageError; what it has acknowledged is where the data is now."""
    topic, there = lab.topic_in(0), Path(lab.path)
    lab.engine.append_rows([(topic, 1, b"kept")], "disk")
    if not there.exists():
        return  # it keeps its data elsewhere
    away = there.rename(f"{lab.path}-away")
    for _ in range(2):
        with expect.raises(_core.StorageError, "an append with 'disk'"):
            lab.engine.append_rows([(topic, 2, b"elsewhere")], "disk")
    with suppress(_core.StorageError):
        lab.close()
    expect.equal(there.exists(), False, "that something is at its path again")
    away.rename(there)
    lab.reopen()
    expect.equal(lab.messages(topic, 1, 2), [(topic, 1, b"kept")], "what is there afterwards")
    expect.equal(lab.append((topic, 3, b"more")).count, 1, "the count of an append afterwards")


@promise("persistence")
def a_reader_beside_sees_and_may_not_write(lab: Lab) -> None:
    """An engine that is open to read sees what was written when it was opened, and after refresh()
    what was written since. To write through it is a ReadOnlyError."""
    lab.append(("a", 1, b"1"))
    with lab.reader() as reader:
        expect.equal(
            read(reader.scan("#", None, None, "stream", None)), [("a", 1, b"1")], "at first"
        )
        lab.append(("a", 2, b"2"))
        reader.refresh()
        wanted = [("a", 1, b"1"), ("a", 2, b"2")]
        expect.equal(read(reader.scan("#", None, None, "stream", None)), wanted, "after refresh()")
        if lab.has("steps"):
            step = reader.next_of_scan(lab.engine.scan_iterator("a", None, None), 10, 1 << 20)
            expect.equal(plain(step.batch), wanted, "a scan in steps that the writer has begun")
        with lab.nothing_changes("writing"):
            with expect.raises(_core.ReadOnlyError, "append_rows"):
                reader.append_rows([("b", 1, b"")], None)
            if lab.has("quota"):
                with expect.raises(_core.ReadOnlyError, "set_quota"):
                    reader.set_quota(1, None)
            if lab.has("deletes"):
                with expect.raises(_core.ReadOnlyError, "delete"):
                    reader.delete("a", None, None, None)
            if lab.has("transactions"):
                with expect.raises(_core.ReadOnlyError, "begin"):
                    reader.begin(0, None, None)
            if lab.has("generations"):
                with expect.raises(_core.ReadOnlyError, "rotate"):
                    reader.rotate(None)
    expect.equal(lab.everything(), [("a", 1, b"1"), ("a", 2, b"2")], "the writer goes on")

"""Members of a group run in processes that are killed at each step: no message is left out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from served import Process
from settling import batches_of_member
from support import PATIENCE_S, Child

import topicdb

MESSAGES = 2_000
# Commands come line by line, so that a test knows at which step it kills the process.
WORKER = """
    import sys, topicdb
    db = topicdb.connect(sys.argv[1])
    member = None
    for line in sys.stdin:
        command = line.strip()
        if command == "join":
            member = db.group("g", "jobs/#").join()
            print("joined", flush=True)
        elif command == "poll":
            batch = member.poll(rows=7, timeout=250)
            print("polled", *(int(value) for value in batch.values), flush=True)
        elif command == "ack":
            member.ack(batch)
            print("acked", flush=True)
        elif command == "wait":  # in the midst of a call
            print("waiting", flush=True)
            while len(member.poll(rows=1_000_000, timeout=250)):
                pass
        elif command == "leave":
            member.close()
            print("left", flush=True)
            break
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path / "db", "--shards", "2") as process:
        yield process
        code, errors = process.stop()
        assert (code, errors) == (0, "")


def polled(child: Child) -> list[int]:
    child.send("poll")
    word, *values = child.read_line().split()
    assert word == "polled"
    return [int(value) for value in values]


def joined(server: Process) -> Child:
    child = Child(WORKER, server.url)
    child.send("join")
    child.expect("joined")
    return child


def parts_are_disjoint(group: topicdb.Group) -> bool:
    lent = list(itertools.chain.from_iterable(group.members().values()))
    return len(lent) == len(set(lent))


STEPS = ("joined", "polled", "acking", "acked", "waiting", "left")


def work_until(step: str, child: Child, given: set[int], acked: list[int]) -> None:
    """Has a member work up to ``step``, at which the test kills it."""
    if step == "joined":
        return
    batch = polled(child)
    given.update(batch)
    if step == "polled":
        return
    child.send("ack")
    if step == "acking":
        return  # the acknowledgement may be stored or not
    child.expect("acked")
    acked += batch
    if step in ("waiting", "left"):
        child.send(step.replace("waiting", "wait").replace("left", "leave"))
        child.expect(step)


def test_members_are_killed_at_each_step(server: Process) -> None:
    with topicdb.connect(server.url) as db, ExitStack() as children:
        db.append([(f"jobs/{i % 50}", None, b"%d" % i) for i in range(MESSAGES)])
        group = db.group("g", "jobs/#", parts=16, member_timeout=PATIENCE_S)
        calm = children.enter_context(joined(server))
        acked: list[int] = []
        on_their_way: set[int] = set()  # their acknowledgement may be stored or not
        for step in STEPS * 2:
            child = children.enter_context(joined(server))
            mine: set[int] = set()
            done: list[int] = []
            work_until(step, child, mine, done)
            assert parts_are_disjoint(group)
            child.kill()
            if step == "acking":
                on_their_way |= mine
            acked += done
            batch = polled(calm)
            assert parts_are_disjoint(group)
            calm.send("ack")
            calm.expect("acked")
            acked += batch
        end = time.monotonic() + PATIENCE_S
        while group.lag() > 0:
            acked += polled(calm)
            calm.send("ack")
            calm.expect("acked")
            assert time.monotonic() < end
        calm.send("leave")
        calm.expect("left")
        assert calm.finish()[0] == 0
        # Members that were killed in a call may have got batches that nobody saw.
        again = [value for value in set(acked) if acked.count(value) > 1]
        missing = set(range(MESSAGES)) - set(acked)
        assert missing <= on_their_way, "what was given and not acknowledged comes again"
        assert not again, "what was acknowledged does not come again"
        assert group.lag() == 0


def test_a_group_goes_on_when_its_server_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "db"
    acked: list[int] = []
    with topicdb.open(path) as database:
        database.append([(f"jobs/{i % 50}", None, b"%d" % i) for i in range(300)])
    for _ in range(4):
        with Process(path) as process, topicdb.connect(process.url) as db:
            member = db.group("g", "jobs/#", parts=8).join()
            for _ in range(10):
                batch = member.poll(rows=5, timeout=1)
                if len(batch) == 0:
                    break
                member.ack(batch)
                acked += [int(value) for value in batch.values]
            unacknowledged = member.poll(rows=5, timeout=1)
            process.kill()
            if len(unacknowledged):
                with pytest.raises(topicdb.UnavailableError):
                    member.ack(unacknowledged)
    with topicdb.open(path) as database, database.group("g", "jobs/#").join() as rest:
        for batch in batches_of_member(rest):
            rest.ack(batch)
            acked += [int(value) for value in batch.values]
    assert sorted(acked) == list(range(300)), "each once: each acknowledgement was told"

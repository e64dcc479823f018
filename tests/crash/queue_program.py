"""The buffer queue as a program for the simulator, and its checks (docs/concepts/queue.md)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import topicdb
from crash.programs import Checker, Crash, Mark

STEPS = 120
NEVER = 1 << 60


def item(number: int) -> bytes:
    """Makes an item, which tells its number and is hard to compress."""
    chance = random.Random(number)
    return b"%d." % number + chance.randbytes(chance.randrange(300))


@dataclass(frozen=True)
class QueueProgram:
    """Appends, pops and acknowledges; now and then it flushes, or closes and opens the queue."""

    ignore: Sequence[str] = ()
    clock_ahead_s: int = 0
    segment_bytes: int = 4096

    @property
    def settings(self) -> dict[str, Any]:
        return {"segment_bytes": self.segment_bytes, "flush_interval": 0.005}

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        chance = random.Random(seed)
        mark({"creates": True})
        queue = topicdb.Queue.open(root / "queue", **self.settings)
        mark({"open": True})
        number = 0
        for step in range(STEPS):
            count = chance.randint(1, 6)
            durability: Literal["none", "os", "disk"] = chance.choice(("none", "os", "os", "disk"))
            mark({"begin": [number, number + count], "durability": durability})
            items = [item(one) for one in range(number, number + count)]
            receipt = queue.append(items, durability=durability)
            mark({"end": [number, number + count], "last": receipt.sequences[-1]})
            number += count
            if chance.random() < 0.6:
                _consume(queue, chance, mark)
            if step % 25 == 12:
                queue.flush()
                mark({"safe": True})
            if step % 40 == 30:
                queue.close()
                mark({"safe": True})
                queue = topicdb.Queue.open(root / "queue", **self.settings)
        queue.close()
        mark({"safe": True})

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        return QueueChecker(marks, self.settings)


def _consume(queue: topicdb.Queue, chance: random.Random, mark: Mark) -> None:
    popped = queue.pop(chance.randint(1, 6))
    if popped.ref is None:
        return
    if chance.random() < 0.15:
        queue.nack(popped.ref)
        return
    mark({"done": [_number(one) for one in popped.items]})
    queue.ack(popped.ref)
    mark({"acknowledged": True})


def _number(content: bytes) -> int:
    number = int(content.split(b".", 1)[0])
    assert content == item(number), f"item {number} is damaged"
    return number


@dataclass(slots=True)
class _Append:
    numbers: range
    durability: str
    begun: int
    ended: int = NEVER
    last: int = 0


@dataclass(slots=True)
class _Past:
    """What the marks of a trace tell; numbers of marks say when."""

    created: int = NEVER
    appends: list[_Append] = field(default_factory=list)
    done: list[tuple[list[int], int]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    safe: list[int] = field(default_factory=list)


class QueueChecker:
    """Checks states of one trace."""

    def __init__(self, marks: list[dict[str, Any]], settings: dict[str, Any]) -> None:
        self._settings = settings
        self._past = _Past()
        for at, mark in enumerate(marks):
            self._read(at, mark)

    def _read(self, at: int, mark: dict[str, Any]) -> None:
        past = self._past
        match mark:
            case {"open": True}:
                past.created = min(past.created, at)
            case {"begin": [first, end]}:
                past.appends.append(_Append(range(first, end), mark["durability"], at))
            case {"end": _}:
                past.appends[-1].ended = at
                past.appends[-1].last = mark["last"]
            case {"done": numbers}:
                past.done.append((numbers, at))
            case {"acknowledged": True}:
                past.acknowledged.append(at)
            case {"safe": True}:
                past.safe.append(at)

    def check(self, crash: Crash) -> None:
        """Raises AssertionError, or an error of TopicDB, if a promise is broken."""
        path = crash.directory / "queue"
        if self._past.created < crash.marks:
            assert (path / "QUEUE").exists(), "the queue is gone"
        with topicdb.Queue.open(path, **self._settings) as queue:
            popped = queue.pop(1_000_000, 1 << 40)
            numbers = [_number(one) for one in popped.items]
            damage = queue.stats().damage
            if not crash.is_power_cut:
                assert all("no whole append" in one.what for one in damage), damage
            self._check_items(numbers, crash)
            queue.nack(popped.ref) if popped.ref is not None else None
            after = queue.append([item(-1)], durability="disk").sequences[0]
            last = max(
                (one.last for one in self._past.appends if one.ended < crash.marks), default=0
            )
            assert after > last, f"number {after} was used, as {last} was"
        with topicdb.Queue.open(path, **self._settings) as queue:
            again = [_number(one) for one in queue.pop(1_000_000, 1 << 40).items]
            assert again == [*numbers, -1], "it is not the same when it is reopened"

    def _is_promised(self, one: _Append, crash: Crash) -> bool:
        if one.ended >= crash.marks:
            return False
        if one.durability == "disk" or (one.durability == "os" and not crash.is_power_cut):
            return True
        return self._is_safe(one.ended, crash)

    def _is_safe(self, since: int, crash: Crash) -> bool:
        return any(since < safe < crash.marks for safe in self._past.safe)

    def _check_items(self, numbers: list[int], crash: Crash) -> None:
        assert numbers == sorted(set(numbers)), "items are doubled, or out of order"
        there = set(numbers)
        done = {n for some, at in self._past.done if at < crash.marks for n in some}
        saved = self._saved(crash)
        assert not there & saved, f"{sorted(there & saved)[:9]} were done, and come again"
        lost_before = None
        for one in self._past.appends:
            left = [n for n in one.numbers if n not in done]
            here = [n for n in left if n in there]
            assert one.begun < crash.marks or not here, f"{one.numbers} were not appended yet"
            assert here in ([], left), f"{one.numbers} are there in part"
            if left and not here:
                assert not self._is_promised(one, crash), f"{one.numbers} are lost"
                lost_before = one.numbers
            elif here and not crash.is_power_cut:
                assert lost_before is None, f"{lost_before} are lost, {one.numbers} are there"

    def _saved(self, crash: Crash) -> set[int]:
        """Returns the items whose acknowledgement is safe: these must not come again."""
        found = set()
        for (numbers, _), at in zip(self._past.done, self._past.acknowledged, strict=False):
            if at < crash.marks and self._is_safe(at, crash):
                found |= set(numbers)
        return found


disk = QueueProgram()
small_segments = QueueProgram(segment_bytes=256)

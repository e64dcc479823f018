"""Compares random histories of a queue in every mode with the model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import topicdb
from model.queue import ModelCursor, ModelQueue
from topicdb.queue.consumer import Consumer, Ref
from topicdb.queue.records import Drop

ITEM = st.one_of(
    st.binary(max_size=8),
    st.integers(0, 3000).map(lambda n: bytes([n % 251]) * n),
)
LIMIT = 9000
ITEM_BYTES_MAX = 43  # what an item takes in addition: frame header, padding and length
NAMES = st.sampled_from(["default", "second"])


def weigh(item: bytes) -> int:
    return len(item) // 7


class QueueMachine(RuleBasedStateMachine):
    mode = "disk"
    segment_bytes = 4096
    may_weigh = False  # whether it is opened with a sizer, now and then
    refs: Bundle[tuple[str, Ref, list[int]]] = Bundle("refs")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.model = ModelQueue()
        self.epoch = 0
        self.sizer = weigh if self.may_weigh else None
        self.open()

    def open(self) -> None:
        path = None if self.mode == "memory" else self.directory / "q"
        mode: Any = self.mode
        self.queue = topicdb.Queue.open(
            path,
            mode=mode,
            segment_bytes=self.segment_bytes,
            flush_interval=0.01,
            sizer=self.sizer,
            **self.limits(),
        )

    def limits(self) -> dict[str, Any]:
        return {}

    def teardown(self) -> None:
        self.queue.close()
        shutil.rmtree(self.directory)

    def consumer(self, name: str) -> Consumer:
        return self.queue if name == "default" else self.queue.cursor(name)

    @rule(items=st.lists(ITEM, max_size=8), durability=st.sampled_from([None, "none", "os"]))
    def append(self, items: list[bytes], durability: Any) -> None:
        if self.mode in ("memory", "volatile"):
            durability = None
        receipt = self.queue.append(items, durability=durability)
        assert receipt.sequences == self.model.append(items, self.sizer)

    @rule()
    def make_cursor(self) -> None:
        if "second" not in self.model.cursors:
            self.queue.cursor("second", start="newest")
            self.model.cursors["second"] = ModelCursor(self.model.next)

    @rule()
    def remove_cursor(self) -> None:
        if "second" in self.model.cursors:
            self.queue.remove_cursor("second")
            del self.model.cursors["second"]
            self.epoch += 1

    @rule(
        target=refs,
        name=NAMES,
        count=st.integers(1, 12),
        limit=st.integers(1, 5000),
        how=st.sampled_from(["at_most", "at_least"]),
        stop=st.one_of(st.none(), st.integers(0, 250)),
    )
    def pop(self, name: str, count: int, limit: int, how: Any, stop: int | None) -> Any:
        if name not in self.model.cursors:
            name = "default"
        stop_before = None if stop is None else lambda item: bool(item) and item[0] == stop
        expected = self.model.pop(name, count, limit, how, stop_before)
        items, ref = self.consumer(name).pop(count, limit, how, stop_before)
        assert items == [self.model.items[number] for number in expected]
        assert ([] if ref is None else ref.sequences) == expected
        return (name, ref, expected, self.epoch)

    @rule(popped=consumes(refs))
    def ack(self, popped: Any) -> None:
        name, ref, numbers, epoch = popped
        if epoch == self.epoch:
            self.consumer(name).ack(ref)
            self.model.ack(name, numbers)

    @rule(popped=refs)
    def nack(self, popped: Any) -> None:
        name, ref, numbers, epoch = popped
        if epoch == self.epoch:
            self.consumer(name).nack(ref)
            self.model.nack(name, numbers)

    @rule()
    def purge(self) -> None:
        self.queue.purge()
        self.model.purge()

    @rule()
    def flush(self) -> None:
        self.queue.flush()

    @rule(weighs=st.booleans())
    def reopen(self, weighs: bool) -> None:
        if self.mode in ("memory", "volatile"):
            return
        self.queue.close()
        self.sizer = weigh if self.may_weigh and weighs else None
        self.open()
        self.model.reopen()
        self.epoch += 1

    @invariant()
    def same(self) -> None:
        stats = self.queue.stats()
        assert stats.damage == []
        assert stats.cursors.keys() == self.model.cursors.keys()
        for name, cursor in self.model.cursors.items():
            consumer = self.consumer(name)
            waiting = self.model.waiting(name)
            assert len(consumer) == len(waiting)
            assert stats.cursors[name].in_flight == len(cursor.in_flight)
            assert consumer.peek() == (self.model.items[waiting[0]] if waiting else None)
            kept = [*waiting, *cursor.in_flight]
            least = sum(map(self.model.size, kept))
            plain = sum(number not in self.model.weights for number in kept)
            assert least <= stats.cursors[name].bytes <= least + ITEM_BYTES_MAX * plain


class LimitedMachine(QueueMachine):
    """A queue with little room: the oldest items go; those in flight and the newest one stay."""

    overflow = "drop_oldest"

    def limits(self) -> dict[str, Any]:
        self.drops: list[Drop] = []
        return {
            "max_total_bytes": LIMIT,
            "overflow": self.overflow,
            "block_timeout": 0,
            "on_drop": self.drops.append,
        }

    @rule(items=st.lists(ITEM, max_size=8), durability=st.none())
    def append(self, items: list[bytes], durability: Any) -> None:
        before = self.queue.stats()
        self.drops.clear()
        try:
            receipt = self.queue.append(items, durability=durability)
        except topicdb.QuotaError:
            assert self.drops == [] and self.queue.stats() == before
            assert self.needed(items) > LIMIT
            return
        assert receipt.sequences == self.model.append(items, self.sizer)
        after = self.queue.stats()
        for name, cursor in self.model.cursors.items():
            dropped = [n for d in self.drops if d.cursor == name for n in d.sequences]
            if dropped:
                # It drops no more items than needed.
                left = before.cursors[name].bytes - sum(
                    d.bytes for d in self.drops if d.cursor == name
                )
                assert left + self.counted(dropped[-1:]) + self.counted_of(items) > LIMIT
            assert not cursor.in_flight.intersection(dropped)
            assert not items or receipt.sequences[-1] not in dropped
            self.model.drop(name, dropped)
            is_alone = not cursor.in_flight and len(self.model.waiting(name)) == 1
            assert after.cursors[name].bytes <= LIMIT or is_alone

    def needed(self, items: list[bytes]) -> int:
        """Returns how many bytes, at most, the queue would have with what it may not drop."""
        most = 0
        drops = self.overflow == "drop_oldest"
        for name, cursor in self.model.cursors.items():
            kept = set(cursor.in_flight)
            if not drops:
                kept.update(self.model.waiting(name))
            most = max(most, self.counted(list(kept)))
        assert most > 0 or not drops, "an append is taken while nothing is in flight"
        return most + self.counted_of(items[-1:] if drops else items)

    def counted(self, numbers: list[int]) -> int:
        """Returns at least as much as these items count if each is an append of its own."""
        plain = sum(number not in self.model.weights for number in numbers)
        return sum(map(self.model.size, numbers)) + ITEM_BYTES_MAX * plain

    def counted_of(self, items: list[bytes]) -> int:
        """Returns what ``counted`` says of items that are appended now."""
        if self.sizer is not None:
            return sum(map(self.sizer, items))
        return sum(len(item) + ITEM_BYTES_MAX for item in items)


def machine(
    mode: str, base: type[QueueMachine] = QueueMachine, overflow: str = "", **options: Any
) -> Any:
    class Machine(base):  # type: ignore[misc, valid-type]
        pass

    Machine.mode = mode
    if overflow:
        Machine.overflow = overflow
    for name, value in options.items():
        setattr(Machine, name, value)
    Machine.TestCase.settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return Machine.TestCase


TestDisk = machine("disk")
TestOffload = machine("offload")
TestVolatile = machine("volatile")
TestMemory = machine("memory")
TestDiskDropping = machine("disk", LimitedMachine, "drop_oldest")
TestMemoryDropping = machine("memory", LimitedMachine, "drop_oldest")
TestOffloadDropping = machine("offload", LimitedMachine, "drop_oldest")
TestDiskRejecting = machine("disk", LimitedMachine, "reject")
TestVolatileBlocking = machine("volatile", LimitedMachine, "block")
TestDiskSmallSegments = machine("disk", segment_bytes=256)
TestOffloadSmallSegments = machine("offload", segment_bytes=256)
TestDiskWeighing = machine("disk", segment_bytes=1024, may_weigh=True)
TestOffloadWeighing = machine("offload", segment_bytes=512, may_weigh=True)
TestMemoryWeighing = machine("memory", may_weigh=True)
TestDiskWeighingDropping = machine("disk", LimitedMachine, "drop_oldest", may_weigh=True)
TestVolatileWeighingRejecting = machine("volatile", LimitedMachine, "reject", may_weigh=True)

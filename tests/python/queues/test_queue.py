"""Tests of the buffer queue: what its calls do, its limits, its errors."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, fork_and_run, wait_until

import topicdb
from topicdb.queue.records import Drop

MODES = ("memory", "disk", "offload", "volatile")


def open_queue(path: Path, mode: Any = "disk", **options: Any) -> topicdb.Queue:
    return topicdb.Queue.open(None if mode == "memory" else path, mode=mode, **options)


def numbered(begin: int, end: int, size: int = 0) -> list[bytes]:
    return [str(i).encode().ljust(size, b".") for i in range(begin, end)]


def drain(queue: Any) -> list[bytes]:
    return list(queue)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q"


@pytest.fixture
def queue(path: Path) -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(path, segment_bytes=4096) as queue:
        yield queue


class TestCalls:
    @pytest.mark.parametrize("mode", MODES)
    def test_items_come_in_order_and_once(self, path: Path, mode: str) -> None:
        with open_queue(path, mode, segment_bytes=4096) as queue:
            assert queue.append(numbered(0, 300)).sequences == range(1, 301)
            assert queue.append([]).count == 0
            assert queue.append([b"last", b""]).sequences == range(301, 303)
            assert len(queue) == 302
            items, ref = queue.pop(10)
            assert items == numbered(0, 10)
            assert ref is not None and ref.sequences == list(range(1, 11))
            assert len(queue) == 292 and queue.peek() == b"10"
            queue.ack(ref)
            assert drain(queue) == [*numbered(10, 300), b"last", b""]
            assert queue.pop() == ([], None)
            queue.ack(None)
            assert queue.bytes == 0

    def test_bytes_like_items(self, queue: topicdb.Queue) -> None:
        queue.append([b"a", bytearray(b"b"), memoryview(b"c")])
        queue.append(item for item in (b"d",))
        assert drain(queue) == [b"a", b"b", b"c", b"d"]

    def test_limits_of_a_pop(self, queue: topicdb.Queue) -> None:
        queue.append([b"x" * 100] * 10)
        assert len(queue.pop(bytes=250).items) == 2
        assert len(queue.pop(bytes=250, rule="at_least").items) == 3
        assert len(queue.pop(bytes=1).items) == 1  # at least one item
        assert len(queue.pop(2).items) == 2
        assert queue.pop(stop_before=lambda item: True) == ([], None)
        assert len(queue) == 2

    def test_stop_before_leaves_the_rest(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(0, 5))
        queue.append(numbered(5, 10))
        seen = []

        def stop(item: bytes) -> bool:
            seen.append(item)
            return item == b"7"

        items, ref = queue.pop(stop_before=stop)
        assert items == numbered(0, 7) and seen == numbered(0, 8)
        assert queue.pop().items == numbered(7, 10)
        queue.nack(ref)
        assert queue.pop().items == numbered(0, 7)

    def test_what_stop_before_raises_loses_nothing(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(0, 5))
        with pytest.raises(ZeroDivisionError):
            queue.pop(stop_before=lambda item: 1 // (item != b"3") == 0)
        assert drain(queue) == numbered(0, 5)

    def test_acks_in_any_order(self, path: Path) -> None:
        with topicdb.Queue.open(path) as queue:
            queue.append(numbered(0, 30))
            refs = [queue.pop(5).ref for _ in range(6)]
            for index in (4, 1, 1, 5):
                queue.ack(refs[index])
            queue.nack(refs[2])
            queue.nack(refs[1])  # an acknowledged item stays acknowledged
            assert queue.pop().items == numbered(10, 15)
        with topicdb.Queue.open(path) as queue:
            expected = [*numbered(0, 5), *numbered(10, 20)]
            assert len(queue) == len(expected)
            assert drain(queue) == expected

    def test_iteration_gives_back_what_it_broke_off_at(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(0, 3))
        for item in queue:
            if item == b"1":
                break
        del item
        assert drain(queue) == numbered(1, 3)

    def test_pop_waits_for_items(self, queue: topicdb.Queue) -> None:
        assert queue.pop(timeout=0.01) == ([], None)
        thread = threading.Timer(0.05, queue.append, ([b"late"],))
        thread.start()
        assert queue.pop(timeout=PATIENCE_S).items == [b"late"]
        thread.join()

    def test_closing_ends_what_waits(self, path: Path) -> None:
        queue = topicdb.Queue.open(path)
        thread = threading.Timer(0.05, queue.close)
        thread.start()
        with pytest.raises(topicdb.ClosedError):
            queue.pop(timeout=None)
        thread.join()

    def test_cursors_read_independently(self, path: Path) -> None:
        with topicdb.Queue.open(path, segment_bytes=4096) as queue:
            queue.append(numbered(0, 10))
            archive = queue.cursor("archive")
            live = queue.cursor("live", start="newest")
            for i in range(10, 20):
                queue.append(numbered(i, i + 1, 500))
            assert len(archive) == 20 and len(live) == 10
            assert drain(live) == numbered(10, 20, 500)
            assert drain(queue) == numbered(0, 10) + numbered(10, 20, 500)
            assert queue.stats().segments > 1  # the archive needs them
        with topicdb.Queue.open(path, segment_bytes=4096) as queue:
            assert list(queue.stats().cursors) == ["archive", "default", "live"]
            archive = queue.cursor("archive")
            assert len(drain(archive)) == 20
            queue.flush()  # flush_interval would do this later
            assert queue.stats().segments <= 1
            queue.remove_cursor("live")
            with pytest.raises(topicdb.NotFoundError):
                queue.remove_cursor("live")
            with pytest.raises(ValueError, match="default"):
                queue.remove_cursor("default")

    def test_a_queue_that_is_opened_again_goes_on_with_its_segment(self, path: Path) -> None:
        for i in range(4):
            with topicdb.Queue.open(path) as queue:
                queue.append(numbered(i, i + 1))
                assert queue.stats().segments == 1
                assert len(queue) == i + 1
        with topicdb.Queue.open(path) as queue:
            assert drain(queue) == numbered(0, 4)

    def test_a_removed_cursor_is_gone(self, queue: topicdb.Queue) -> None:
        cursor = queue.cursor("x")
        queue.remove_cursor("x")
        with pytest.raises(topicdb.NotFoundError, match="'x'"):
            cursor.pop()
        assert len(queue.cursor("x")) == 0

    def test_purge(self, path: Path) -> None:
        with topicdb.Queue.open(path) as queue:
            queue.append(numbered(0, 10))
            ref = queue.pop(3).ref
            queue.purge()
            queue.nack(ref)
            assert len(queue) == 0 and queue.bytes == 0
            assert queue.append([b"next"]).sequences == range(11, 12)
            assert queue.stats().cursors["default"].dropped_items["purge"] == 10
        with topicdb.Queue.open(path) as queue:
            assert drain(queue) == [b"next"]

    def test_threads_share_the_work(self, path: Path) -> None:
        with topicdb.Queue.open(path, segment_bytes=1 << 16) as queue:
            got: list[bytes] = []

            def produce(name: int) -> None:
                for i in range(500):
                    queue.append([b"%d %d" % (name, i), b"%d %d." % (name, i)])

            def consume() -> None:
                while len(got) < 4000:
                    items = queue.pop(7, timeout=0.1)
                    if items.ref is not None:
                        queue.ack(items.ref)
                        got.extend(items.items)

            threads = [threading.Thread(target=produce, args=(i,)) for i in range(4)]
            threads += [threading.Thread(target=consume) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(got) == len(set(got)) == 4000
            assert queue.bytes == 0

    def test_asyncio(self, queue: topicdb.Queue) -> None:
        async def run() -> None:
            waiting = asyncio.create_task(queue.pop_await(timeout=PATIENCE_S))
            await asyncio.sleep(0.01)
            receipt = await queue.append_await([b"a", b"b"])
            assert receipt.count == 2
            assert (await waiting).items == [b"a", b"b"]
            cancelled = asyncio.create_task(queue.pop_await(timeout=0.2))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await queue.append_await([b"c"])
            await asyncio.sleep(0.3)  # items that the cancelled call took come back

        asyncio.run(run())
        assert queue.pop(timeout=PATIENCE_S).items == [b"c"]


class TestDurability:
    def test_levels(self, path: Path) -> None:
        with topicdb.Queue.open(path) as queue:
            assert queue.append([b"a"]).durability == "os"
            assert queue.append([b"b"], durability="none").durability == "none"
            assert queue.append([b"c"], durability="disk").durability == "disk"
            assert queue.pop().items == [b"a", b"b", b"c"]
        with topicdb.Queue.open(path) as queue:
            assert drain(queue) == [b"a", b"b", b"c"]

    def test_offload_is_in_memory_until_it_is_asked_for_more(self, path: Path) -> None:
        with open_queue(path, "offload") as queue:
            assert queue.append([b"a"]).durability == "none"
            assert not queue.stats().on_disk
            assert queue.append([b"b"], durability="os").durability == "os"
            assert queue.stats().on_disk
            assert drain(queue) == [b"a", b"b"]
            assert queue.append([b"c"]).durability == "none"
            assert not queue.stats().on_disk
            queue.flush()
            assert queue.stats().on_disk
            assert drain(queue) == [b"c"]

    def test_offload_spills_in_order(self, path: Path) -> None:
        with open_queue(path, "offload", segment_bytes=4096) as queue:
            for i in range(100):
                queue.append(numbered(i, i + 1, 100))
            assert queue.stats().on_disk and queue.stats().segments > 1
            assert drain(queue) == numbered(0, 100, 100)

    def test_volatile_keeps_nothing(self, path: Path) -> None:
        with open_queue(path, "volatile", segment_bytes=4096) as queue:
            queue.append(numbered(0, 100, 100))
            assert queue.stats().on_disk
        assert sorted(p.name for p in path.iterdir()) == ["QUEUE", "QUEUE.lock"]
        with open_queue(path, "disk") as queue:
            queue.append([b"kept"])
        with open_queue(path, "volatile") as queue:
            assert len(queue) == 0

    @pytest.mark.parametrize("mode", ["memory", "volatile"])
    def test_what_is_kept_nowhere_is_not_durable(self, path: Path, mode: str) -> None:
        with open_queue(path, mode) as queue:
            with pytest.raises(ValueError, match="durability"):
                queue.append([b"a"], durability="disk")
            assert len(queue) == 0


class TestOverload:
    @pytest.mark.parametrize("mode", MODES)
    def test_the_oldest_items_go_but_never_what_is_in_flight(self, path: Path, mode: str) -> None:
        drops: list[Drop] = []
        with open_queue(path, mode, max_total_bytes=2000, on_drop=drops.append) as queue:
            for i in range(10):
                queue.append(numbered(i, i + 1, 100))
            in_flight = queue.pop(3)
            for i in range(10, 40):
                queue.append(numbered(i, i + 1, 100))
                assert queue.bytes <= 2000 and queue.overflow <= 0
            queue.nack(in_flight.ref)
            left = drain(queue)
            assert left[:3] == in_flight.items
            assert left[-1] == numbered(39, 40, 100)[0]
            dropped = [n - 1 for drop in drops for n in drop.sequences]
            assert {drop.reason for drop in drops} == {"overflow"}
            assert sorted(dropped + [int(item.rstrip(b".")) for item in left]) == list(range(40))
            stats = queue.stats().cursors["default"]
            assert stats.dropped_items["overflow"] == len(dropped) > 10
            assert stats.dropped_bytes["overflow"] == sum(drop.bytes for drop in drops)

    def test_an_append_that_cannot_fit_drops_nothing(self, path: Path) -> None:
        with topicdb.Queue.open(path, max_total_bytes=1000) as queue:
            queue.append(numbered(0, 4, 100))
            kept = queue.pop()
            for size in (800, 2000):
                with pytest.raises(topicdb.QuotaError, match=r"1000 bytes.*in flight.*newest item"):
                    queue.append([b"x" * size])
            queue.nack(kept.ref)
            assert drain(queue) == numbered(0, 4, 100)

    @pytest.mark.parametrize("mode", MODES)
    def test_an_append_above_the_limit_is_taken_and_trimmed(self, path: Path, mode: str) -> None:
        drops: list[Drop] = []
        with open_queue(path, mode, max_total_bytes=1000, on_drop=drops.append) as queue:
            queue.append(numbered(0, 5, 100))
            receipt = queue.append(numbered(5, 45, 100))
            assert receipt.sequences == range(6, 46)
            assert queue.bytes <= 1000
            assert {(drop.reason, drop.cursor) for drop in drops} == {("overflow", "default")}
            left = drain(queue)
            assert left == numbered(45 - len(left), 45, 100) and len(left) == 9
            gone = [n for drop in drops for n in drop.sequences]
            assert gone == list(range(1, 46 - len(left)))
            stats = queue.stats().cursors["default"]
            assert stats.dropped_items["overflow"] == len(gone)
            assert stats.dropped_bytes["overflow"] == sum(drop.bytes for drop in drops)
            assert queue.append([b"next"]).sequences == range(46, 47)

    @pytest.mark.parametrize("mode", MODES)
    def test_at_least_one_item_stays(self, path: Path, mode: str) -> None:
        with open_queue(path, mode, max_total_bytes=1000) as queue:
            queue.append(numbered(0, 4, 100))
            queue.append([b"a" * 3000, b"b" * 2000])
            assert len(queue) == 1 and queue.overflow > 0
            assert queue.peek() == b"b" * 2000
            queue.append([b"small"])  # the large one goes, as it is the oldest
            assert drain(queue) == [b"small"]
            queue.append([b"c" * 2000])
            kept = queue.pop()
            assert kept.items == [b"c" * 2000]
            with pytest.raises(topicdb.QuotaError, match="in flight"):
                queue.append([b"d"])
            queue.ack(kept.ref)
            queue.append([b"d"])
            assert drain(queue) == [b"d"]

    def test_each_cursor_is_trimmed(self, path: Path) -> None:
        """A cursor with items in flight keeps fewer of those that wait."""
        with topicdb.Queue.open(path, max_total_bytes=2000) as queue:
            slow = queue.cursor("slow")
            queue.append(numbered(0, 5, 100))
            held = slow.pop()
            queue.append(numbered(5, 50, 100))
            assert queue.bytes <= 2000
            fast_left, slow_left = drain(queue), drain(slow)
            assert fast_left == numbered(50 - len(fast_left), 50, 100)
            assert slow_left == numbered(50 - len(slow_left), 50, 100)
            assert len(fast_left) > len(slow_left) > 5
            slow.nack(held.ref)
            assert drain(slow) == numbered(0, 5, 100)

    def test_what_was_trimmed_stays_gone_when_it_is_reopened(self, path: Path) -> None:
        with topicdb.Queue.open(path, max_total_bytes=1000, segment_bytes=4096) as queue:
            queue.append(numbered(0, 100, 100))
            left = len(queue)
        with topicdb.Queue.open(path) as queue:
            assert drain(queue) == numbered(100 - left, 100, 100)

    def test_reject(self, path: Path) -> None:
        with topicdb.Queue.open(path, max_total_bytes=1000, overflow="reject") as queue:
            queue.append([b"x" * 800])
            with pytest.raises(topicdb.QuotaError, match="max_total_bytes"):
                queue.append([b"x" * 800])
            assert len(drain(queue)) == 1
            queue.append([b"x" * 800])

    def test_block(self, path: Path) -> None:
        with topicdb.Queue.open(
            path, max_total_bytes=1000, overflow="block", block_timeout=60
        ) as queue:
            queue.append([b"x" * 800])
            ref = queue.pop().ref
            thread = threading.Timer(0.05, queue.ack, (ref,))
            thread.start()
            assert queue.append([b"y" * 800]).count == 1
            thread.join()
        with (
            topicdb.Queue.open(
                path, max_total_bytes=1000, overflow="block", block_timeout=0.05
            ) as queue,
            pytest.raises(topicdb.QuotaError, match="in time"),
        ):
            queue.append([b"y" * 800])

    def test_a_slow_cursor_loses_its_own(self, path: Path) -> None:
        with topicdb.Queue.open(path, max_total_bytes=1000) as queue:
            slow = queue.cursor("slow")
            got = []
            for i in range(20):
                queue.append(numbered(i, i + 1, 100))
                got += drain(queue)
            assert got == numbered(0, 20, 100)
            assert drain(slow) == numbered(20 - len(got[-7:]), 20, 100)

    def test_queues_share_a_budget(self, path: Path) -> None:
        budget = topicdb.QueueBudget(2000)
        assert budget.share(4) == 500
        path.mkdir()
        one = topicdb.Queue.open(path / "1", budget=budget)
        two = topicdb.Queue.open(path / "2", budget=budget)
        with one, two:
            one.append(numbered(0, 10, 100))
            assert budget.bytes == one.bytes
            for i in range(20):
                two.append(numbered(i, i + 1, 100))
                assert budget.bytes == one.bytes + two.bytes <= 2000
            assert len(one) == 10 and 0 < len(two) < 10
            drain(one)
            for i in range(20):
                two.append(numbered(i, i + 1, 100))
            assert len(two) > 10
        assert budget.bytes == 0

    @pytest.mark.parametrize("overflow", ["drop_oldest", "reject", "block"])
    def test_the_limit_that_is_reached_is_named(self, path: Path, overflow: str) -> None:
        """The error also says who holds the bytes of the limit."""
        budget = topicdb.QueueBudget(2000)
        path.mkdir()

        def opened(name: str, **options: Any) -> topicdb.Queue:
            limits = {"overflow": overflow, "block_timeout": 0.01, "max_total_bytes": 3000}
            return topicdb.Queue.open(path / name, **{**limits, "budget": budget, **options})

        with opened("1") as one, opened("2") as two, opened("3", max_total_bytes=100) as small:
            one.append([b"x" * 1900])
            with pytest.raises(topicdb.QuotaError) as caught:
                two.append([b"y" * 500])
            said = str(caught.value)
            assert "QueueBudget" in said and "2000 bytes" in said
            assert f"other queues hold {one.bytes}" in said
            assert "max_total_bytes" not in said and "in flight" not in said
            assert "nothing was appended" in said
            ref = one.pop().ref
            with pytest.raises(topicdb.QuotaError, match="QueueBudget") as caught:
                one.append([b"x" * 500])
            assert ("in flight" in str(caught.value)) == (overflow == "drop_oldest")
            assert "other queues hold 0" in str(caught.value)
            one.ack(ref)
            if overflow == "drop_oldest":  # one item may be larger
                small.append([b"z" * 400, b"z" * 500])
                ref = small.pop().ref
            with pytest.raises(topicdb.QuotaError, match=r"100 bytes \(max_total_bytes\)"):
                small.append([b"z" * 500])
            two.append([b"y" * 500])
            assert (len(one), len(two)) == (0, 1)

    def test_a_budget_takes_one_item_that_is_larger_than_it(self, path: Path) -> None:
        budget = topicdb.QueueBudget(1000)
        path.mkdir()
        one = topicdb.Queue.open(path / "1", budget=budget)
        two = topicdb.Queue.open(path / "2", budget=budget)
        with one, two:
            one.append([b"a" * 2000, b"b" * 1500])
            assert (len(one), one.peek()) == (1, b"b" * 1500) and budget.bytes == one.bytes
            with pytest.raises(topicdb.QuotaError, match="other queues hold"):
                two.append([b"small"])
            one.append([b"small"])
            two.append([b"small"] * 300)
            assert len(one) == 1 and len(two) > 10 and budget.bytes <= 1000

    def test_what_no_waiting_makes_fit_is_refused_at_once(self, path: Path) -> None:
        with (
            topicdb.Queue.open(path, overflow="block", budget=topicdb.QueueBudget(1000)) as queue,
            pytest.raises(topicdb.QuotaError, match=r"QueueBudget.*1000 bytes.*append less"),
        ):
            queue.append([b"x" * 2000])  # would wait for ever

    @pytest.mark.parametrize("durability", ["none", "os", "disk"])
    def test_the_files_of_what_is_dropped_are_removed(self, path: Path, durability: Any) -> None:
        """Nobody acknowledges anything."""
        with topicdb.Queue.open(
            path, segment_bytes=4096, max_total_bytes=4096, flush_interval=0.01
        ) as queue:
            for i in range(300):
                queue.append(numbered(i, i + 1, 100), durability=durability)
            wait_until(lambda: len(list(path.glob("*.segment"))) <= 3)
            assert queue.stats().segments <= 3
            assert drain(queue)[-1] == numbered(299, 300, 100)[0]

    def test_dropping_when_memory_is_short(self, path: Path) -> None:
        short = False
        drops: list[Drop] = []
        with open_queue(
            path, "memory", drop_if_highmem=lambda: short, on_drop=drops.append
        ) as queue:
            queue.append(numbered(0, 10, 100))
            short = True
            queue.append(numbered(10, 12, 100))
            assert drops[0].reason == "memory" and sum(len(d.sequences) for d in drops) >= 2
            assert len(queue) in (9, 10)
        with open_queue(path, "memory", drop_if_highmem=True) as queue:
            queue.append([b"a"])  # asks the system about its memory


class TestErrors:
    def test_bad_items_change_nothing(self, queue: topicdb.Queue) -> None:
        for bad in ([b"a", "text"], [b"a", None], [b"a", 3]):
            with pytest.raises(TypeError, match="item 1 is"):
                queue.append(bad)
        for single in (b"abc", "abc", bytearray(b"a")):
            with pytest.raises(TypeError, match=r"write \[item\]"):
                queue.append(single)
        with pytest.raises(ValueError, match="durability"):
            queue.append([b"a"], durability="maybe")  # type: ignore[arg-type]
        assert len(queue) == 0 and queue.stats().next_sequence == 1

    def test_items_over_the_limit(self, path: Path) -> None:
        with topicdb.Queue.open(path, item_bytes_max=10) as queue:
            with pytest.raises(ValueError, match="item 1 has 11 bytes, more than item_bytes_max"):
                queue.append([b"a", b"x" * 11])
            assert len(queue) == 0

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"mode": "ram"}, "mode: expected one of 'memory'"),
            ({"overflow": "explode"}, "overflow: expected one of 'drop_oldest'"),
            ({"durability": "full"}, "durability"),
            ({"segment_bytes": 255}, "segment_bytes must be at least 256"),
            ({"segment_bytes": -1}, "segment_bytes"),
            ({"max_total_bytes": 0}, "max_total_bytes"),
            ({"flush_interval": 0}, "flush_interval"),
            ({"block_timeout": -1}, "block_timeout"),
        ],
    )
    def test_options(self, path: Path, options: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            topicdb.Queue.open(path, **options)
        assert not path.exists()

    def test_paths(self, path: Path) -> None:
        with pytest.raises(ValueError, match="needs a path"):
            topicdb.Queue.open()
        with pytest.raises(ValueError, match="no files"):
            topicdb.Queue.open(path, mode="memory")
        path.write_text("no directory")
        with pytest.raises(topicdb.StorageError, match="q/no: Not a directory"):
            topicdb.Queue.open(path / "no/such")

    def test_a_directory_that_is_no_queue(self, path: Path) -> None:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
        with pytest.raises(topicdb.CorruptionError, match="is no queue"):
            topicdb.Queue.open(path)
        assert [p.name for p in path.iterdir()] == ["notes.txt"]

    def test_pop_arguments(self, queue: topicdb.Queue) -> None:
        bad: list[dict[str, Any]] = [{"count": 0}, {"bytes": 0}, {"rule": "most"}, {"timeout": -1}]
        for arguments in bad:
            with pytest.raises(ValueError, match=next(iter(arguments))):
                queue.pop(**arguments)

    def test_names_of_cursors(self, queue: topicdb.Queue) -> None:
        for name in ("", ".x", "a/b", "x" * 65, "ä"):
            with pytest.raises(ValueError, match="cursor's name"):
                queue.cursor(name)
        with pytest.raises(ValueError, match="start"):
            queue.cursor("a", start="middle")  # type: ignore[arg-type]

    def test_a_ref_of_another_cursor(self, queue: topicdb.Queue) -> None:
        queue.append([b"a"])
        with pytest.raises(ValueError, match="another cursor"):
            queue.cursor("x").ack(queue.pop().ref)

    def test_a_second_handle(self, path: Path) -> None:
        with (
            topicdb.Queue.open(path),
            pytest.raises(topicdb.LockedError, match=f"pid {os.getpid()}"),
        ):
            topicdb.Queue.open(path)

    def test_a_second_process(self, path: Path) -> None:
        with topicdb.Queue.open(path):
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                assert pool.apply(_open_elsewhere, (path,)) == f"locked by pid {os.getpid()}"
                pool.close()
                pool.join()

    def test_a_closed_queue(self, path: Path) -> None:
        queue = topicdb.Queue.open(path)
        queue.append([b"a"])
        ref = queue.pop().ref
        queue.close()
        queue.close()
        assert queue.closed and "closed" in repr(queue)
        for call in (
            lambda: queue.append([b"a"]),
            queue.pop,
            lambda: queue.ack(ref),
            lambda: queue.nack(ref),
            queue.peek,
            queue.flush,
            queue.purge,
            queue.stats,
            lambda: len(queue),
            lambda: queue.cursor("x"),
        ):
            with pytest.raises(topicdb.ClosedError):
                call()

    def test_a_forked_child(self, path: Path) -> None:
        with topicdb.Queue.open(path) as queue:
            queue.append([b"a"])
            calls: list[Callable[[], object]] = [
                lambda: queue.append([b"b"]),
                queue.pop,
                queue.peek,
                queue.flush,
                queue.stats,
                queue.close,
            ]

            def check() -> int:
                refused = 0
                for call in calls:
                    try:
                        call()
                    except topicdb.ForkedError:
                        refused += 1
                return refused

            assert fork_and_run(check) == str(len(calls))
            assert drain(queue) == [b"a"]


def _open_elsewhere(path: Path) -> str:
    try:
        topicdb.Queue.open(path)
    except topicdb.LockedError as error:
        text = str(error)
        return text[text.index("locked by") :].split(";")[0]
    return "opened"

"""Tests of a queue in event loops: who waits keeps nobody else from running, and loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from support import PATIENCE_S, fork_and_run, wait_until

import topicdb

MANY = 50  # more than the threads of any executor here
Result = TypeVar("Result")


@pytest.fixture
def queue() -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(mode="memory") as queue:
        yield queue


async def soon(call: Awaitable[Result]) -> Result:
    return await asyncio.wait_for(call, PATIENCE_S)


async def until_waiting(queue: topicdb.Queue, calls: int) -> None:
    def waiting() -> int:
        return sum(len(line.calls) for line in queue._awaiting._lines.values())

    async def look() -> None:
        while waiting() != calls:
            await asyncio.sleep(0.001)

    await soon(look())


def few_threads() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


class Gate:
    """A ``stop_before`` that waits for ``open``, and then says whether it stops."""

    def __init__(self, *, stops: bool = False) -> None:
        self._stops = stops
        self._begun = threading.Event()
        self._open = threading.Event()

    def __call__(self, item: bytes) -> bool:
        self._begun.set()
        assert self._open.wait(PATIENCE_S)
        return self._stops

    async def begun(self) -> None:
        async def look() -> None:
            while not self._begun.is_set():
                await asyncio.sleep(0.001)

        await soon(look())

    def open(self) -> None:
        self._open.set()


def test_calls_that_wait_for_items_hold_up_nobody(queue: topicdb.Queue) -> None:
    async def run() -> None:
        few_threads()
        try:
            waiting = [asyncio.create_task(queue.pop_await(1, timeout=None)) for _ in range(MANY)]
            await asyncio.sleep(0)  # all have begun
            for _ in range(MANY):
                receipt = await soon(queue.append_await([b"x"]))
                assert receipt.count == 1
            found = await soon(asyncio.gather(*waiting))
            assert [popped.items for popped in found] == [[b"x"]] * MANY
            assert await soon(asyncio.to_thread(len, queue)) == 0
        finally:
            queue.close()  # ends calls that wait in threads

    asyncio.run(run())


def test_calls_whose_time_is_over_hold_up_nobody(queue: topicdb.Queue) -> None:
    async def run() -> None:
        few_threads()
        try:
            for _ in range(MANY):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(queue.pop_await(timeout=None), 0.001)
            assert (await soon(queue.append_await([b"x"]))).count == 1
            assert (await soon(queue.pop_await(timeout=None))).items == [b"x"]
            assert await soon(queue.pop_await(timeout=0.001)) == ([], None)
        finally:
            queue.close()

    asyncio.run(run())


def test_appends_that_wait_for_room_do_not_hold_up_who_makes_it() -> None:
    async def run(queue: topicdb.Queue) -> None:
        few_threads()
        try:
            appends = [asyncio.create_task(queue.append_await([b"x" * 800])) for _ in range(MANY)]
            for _ in range(MANY):
                items, ref = await soon(queue.pop_await(timeout=None))
                assert items == [b"x" * 800]
                queue.ack(ref)
            assert len(await soon(asyncio.gather(*appends))) == MANY
        finally:
            queue.close()

    asyncio.run(run(topicdb.Queue.open(mode="memory", max_total_bytes=1000, overflow="block")))


def test_one_append_serves_all_that_wait(queue: topicdb.Queue) -> None:
    async def run() -> None:
        other = queue.cursor("other")
        waiting = [
            asyncio.create_task(consumer.pop_await(1, timeout=None))
            for consumer in (queue, other)
            for _ in range(MANY)
        ]
        await until_waiting(queue, 2 * MANY)
        waiting.pop(0).cancel()  # maybe just when it is woken
        queue.append([b"x"] * MANY)
        found = await soon(asyncio.gather(*waiting))
        assert {tuple(popped.items) for popped in found} == {(b"x",)}
        assert len(other) == 0
        wait_until(lambda: len(queue) == 1)

    asyncio.run(run())


def test_a_cancelled_call_gives_items_back_to_one_that_waits(queue: topicdb.Queue) -> None:
    async def run() -> None:
        gate = Gate()
        queue.append([b"x"])
        first = asyncio.create_task(queue.pop_await(stop_before=gate, timeout=None))
        await gate.begun()  # it has taken the item
        second = asyncio.create_task(queue.pop_await(timeout=None))
        await until_waiting(queue, 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.open()
        assert (await soon(second)).items == [b"x"]

    asyncio.run(run())


def test_a_call_that_outlives_its_event_loop_gives_items_back(queue: topicdb.Queue) -> None:
    gate = Gate()

    async def run() -> None:
        queue.append([b"x"])
        call = asyncio.create_task(queue.pop_await(stop_before=gate, timeout=None))
        await gate.begun()
        call.cancel()

    asyncio.run(run())
    gate.open()
    wait_until(lambda: len(queue) == 1)


def test_items_that_another_pop_leaves_go_to_one_that_waits(queue: topicdb.Queue) -> None:
    async def run() -> None:
        gate = Gate(stops=True)
        queue.append([b"x"])
        other = threading.Thread(target=queue.pop, kwargs={"stop_before": gate})
        other.start()
        await gate.begun()
        waiting = asyncio.create_task(queue.pop_await(timeout=None))
        await until_waiting(queue, 1)
        gate.open()
        items, ref = await soon(waiting)
        assert items == [b"x"]
        other.join()
        queue.nack(ref)
        assert await soon(queue.pop_await(stop_before=bool, timeout=None)) == ([], None)

    asyncio.run(run())


def test_event_loops_share_the_work(queue: topicdb.Queue) -> None:
    found: list[bytes] = []

    async def consume() -> None:
        for _ in range(MANY):
            items, ref = await soon(queue.pop_await(1, timeout=None))
            queue.ack(ref)
            found.extend(items)

    threads = [threading.Thread(target=asyncio.run, args=(consume(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    wanted = [b"%d" % number for number in range(3 * MANY)]
    for item in wanted:
        queue.append([item])
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(wanted) and queue.bytes == 0


@pytest.mark.parametrize("how", ["close", "remove"])
def test_what_ends_a_cursor_ends_its_waits(queue: topicdb.Queue, how: str) -> None:
    async def run() -> None:
        cursor = queue.cursor("c")
        waiting = [asyncio.create_task(cursor.pop_await(timeout=None)) for _ in range(MANY)]
        await until_waiting(queue, MANY)
        error: type[Exception] = topicdb.ClosedError
        if how == "close":
            queue.close()
        else:
            queue.remove_cursor("c")
            error = topicdb.NotFoundError
        found = await soon(asyncio.gather(*waiting, return_exceptions=True))
        assert {type(one) for one in found} == {error}
        with pytest.raises(error):
            await soon(cursor.pop_await())

    asyncio.run(run())


def test_a_closed_queue_takes_no_append(queue: topicdb.Queue) -> None:
    async def run() -> None:
        assert (await soon(queue.append_await([b"x"]))).count == 1
        queue.close()
        with pytest.raises(topicdb.ClosedError):
            await soon(queue.append_await([b"x"]))

    asyncio.run(run())


def test_a_forked_child_is_told_so(queue: topicdb.Queue) -> None:
    async def use() -> None:
        await queue.append_await([b"x"])
        await queue.pop_await()

    def refused() -> list[str]:
        calls: list[Any] = [queue.append_await([b"x"]), queue.pop_await(timeout=None)]
        names = []
        for call in calls:
            with pytest.raises(topicdb.Error) as caught:
                asyncio.run(call)
            names.append(type(caught.value).__name__)
        return names

    asyncio.run(use())  # starts the threads that the child does not have
    assert fork_and_run(refused) == "['ForkedError', 'ForkedError']"

"""Tests of the forwarder with sinks that do whatever a sink may do, and with a database."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forwarding import QUICK, Held, Recorder, first_arrivals, numbered, waiting
from keys import values_by_shard
from support import wait_until

import topicdb
from topicdb.forward import CallableSink, DatabaseSink, Forwarder, PermanentError


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(tmp_path / "queue") as opened:
        yield opened


class TestDelivery:
    def test_every_item_once_in_batches_and_in_order(self, queue: topicdb.Queue) -> None:
        items = numbered(25)
        queue.append(items)
        sink = Recorder()
        Forwarder(queue, sink, batch_count=10).run(until_empty=True)
        assert sink.batches == [items[:10], items[10:20], items[20:]]
        assert (sink.opened, sink.closed) == (1, 1)
        assert queue.stats().bytes == 0

    def test_a_batch_ends_before_it_has_too_many_bytes(self, queue: topicdb.Queue) -> None:
        queue.append([b"aaa", b"bbb", b"c" * 20, b"d"])
        sink = Recorder()
        Forwarder(queue, sink, batch_bytes=6).run(until_empty=True)
        assert sink.batches == [[b"aaa", b"bbb"], [b"c" * 20], [b"d"]]

    def test_a_function_is_a_sink(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(3))
        seen: list[list[bytes]] = []
        Forwarder(queue, seen.append).run(until_empty=True)
        Forwarder(queue, CallableSink(seen.append)).run(until_empty=True)
        assert seen == [numbered(3)]

    def test_what_is_appended_while_it_runs(self, queue: topicdb.Queue) -> None:
        sink = Recorder()
        with Forwarder(queue, sink) as forwarder:
            for number in range(20):
                queue.append(numbered(5, 5 * number))
            wait_until(lambda: len(sink.items) == 100)
            wait_until(lambda: forwarder.health.state == "idle")
            queue.append([b"later"])
            wait_until(lambda: len(sink.items) == 101)
        assert sink.items == [*numbered(100), b"later"]
        assert waiting(queue) == []

    def test_of_a_cursor_each_gets_all(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(4))
        by_name, by_cursor = Recorder(), Recorder()
        Forwarder(queue, by_name, cursor="one").run(until_empty=True)
        Forwarder(queue.cursor("two"), by_cursor).run(until_empty=True)
        assert by_name.items == by_cursor.items == waiting(queue) == numbered(4)

    def test_several_on_one_cursor_share_the_items(self, queue: topicdb.Queue) -> None:
        sinks = [Recorder(), Recorder()]
        forwarders = [Forwarder(queue, sink, batch_count=3) for sink in sinks]
        for forwarder in forwarders:
            forwarder.start()
        queue.append(numbered(500))
        wait_until(lambda: sum(len(sink.items) for sink in sinks) == 500)
        assert all(forwarder.stop() for forwarder in forwarders)
        assert sorted(sinks[0].items + sinks[1].items) == sorted(numbered(500))

    def test_it_can_be_started_again(self, queue: topicdb.Queue) -> None:
        sink = Recorder()
        forwarder = Forwarder(queue, sink)
        for number in range(3):
            queue.append([b"%d" % number])
            forwarder.start()
            with pytest.raises(RuntimeError, match="runs already"):
                forwarder.start()
            with pytest.raises(RuntimeError, match="runs already"):
                forwarder.run()
            assert forwarder.stop(drain=True)
        assert sink.items == numbered(3)
        assert (sink.opened, sink.closed) == (3, 3)

    def test_into_a_database(self, queue: topicdb.Queue, tmp_path: Path) -> None:
        def decode(item: bytes) -> tuple[str, int, bytes]:
            topic, timestamp, value = item.split(b" ")
            return topic.decode(), int(timestamp), value

        queue.append([b"m/a 1 x", b"m/+ 2 no", b"m/b 3 y", b"what?", b"m/c 4 z"])
        refused: list[bytes] = []
        with topicdb.open(tmp_path / "db") as db:
            sink = DatabaseSink(db, decode, durability="disk")
            Forwarder(queue, sink, poison=lambda items, error: refused.extend(items)).run(
                until_empty=True
            )
            found = [(m.topic, m.timestamp, m.value) for m in db.scan(order="time")]
        assert list(dict.fromkeys(found)) == [("m/a", 1, b"x"), ("m/b", 3, b"y"), ("m/c", 4, b"z")]
        assert refused == [b"m/+ 2 no", b"what?"]

    def test_into_a_database_that_shards_by_key(self, queue: topicdb.Queue, tmp_path: Path) -> None:
        def key(item: bytes) -> bytes | None:
            return None if item == b"nobody" else item.split(b" ")[1]

        queue.append([b"1 client", b"2 client", b"nobody", b"what?", b"3 other"])
        refused: list[bytes] = []
        with topicdb.open(tmp_path / "db", shards=5, shard_by="key") as db:
            sink = DatabaseSink(db, lambda item: ("t", None, item), key=key)
            Forwarder(queue, sink, poison=lambda items, error: refused.extend(items)).run(
                until_empty=True
            )
            expected: dict[int, list[bytes]] = {}
            for item in (b"1 client", b"2 client", b"nobody", b"3 other"):
                found = key(item)
                shard = (
                    topicdb.shard_of("t", 5) if found is None else topicdb.shard_of_key(found, 5)
                )
                expected.setdefault(shard, []).append(item)
            assert {s: sorted(set(v)) for s, v in values_by_shard(db).items()} == expected
        assert refused == [b"what?"]


class TestFailures:
    def test_a_batch_is_sent_until_it_is_taken(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(40))
        left = {"open": 3, "deliver": 5}
        errors: list[Exception] = []

        def fail(what: str) -> None:
            if left[what] > 0:
                left[what] -= 1
                raise ConnectionError(f"{what} {left[what]}")

        class Fails(Recorder):
            def open(self) -> None:
                super().open()
                fail("open")

        sink = Fails(lambda items: fail("deliver") if b"15" in items else None)
        forwarder = Forwarder(queue, sink, batch_count=10, on_error=errors.append, **QUICK)
        forwarder.run(until_empty=True)
        assert sink.items == numbered(40)
        assert sink.opened == sink.closed == 9  # opened anew after each failed attempt
        assert [str(error) for error in errors] == [
            *("open 2", "open 1", "open 0"),
            *("deliver 4", "deliver 3", "deliver 2", "deliver 1", "deliver 0"),
        ]
        metrics = forwarder.metrics()
        assert (metrics.items, metrics.bytes, metrics.batches) == (40, 70, 4)
        assert (metrics.failures, metrics.retries, metrics.dropped_items) == (8, 5, 0)
        assert (metrics.in_flight, metrics.waiting) == (0, 0)
        assert forwarder.health.error is errors[-1]

    def test_pauses_double_up_to_the_longest_and_begin_anew(self, queue: topicdb.Queue) -> None:
        options = Forwarder(
            queue, print, retry_min=0.5, retry_max=timedelta(seconds=3), retry_jitter=0
        )._options
        assert [options.pause(n) for n in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1, 2, 3, 3, 3]
        jittered = Forwarder(queue, print, retry_min=1.0, retry_max=8.0)._options
        pauses = [jittered.pause(3) for _ in range(1000)]
        assert 0 < min(pauses) < 0.5 and 3.5 < max(pauses) <= 4

    def test_a_confirmation_ends_a_row_of_failures(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(5))
        failures = 0

        def fail(items: list[bytes]) -> None:
            nonlocal failures
            if failures < 12 * (int(items[0]) + 1):
                failures += 1
                raise OSError("again")

        sink = Recorder(fail)
        forwarder = Forwarder(queue, sink, batch_count=1, retry_min=1e-6, retry_max=1e6)
        forwarder.run(until_empty=True)  # the pauses of 60 failures in a row would take years
        assert sink.items == numbered(5)
        assert forwarder.metrics().failures == 60

    def test_a_long_pause_ends_with_stop(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(5))
        forwarder = Forwarder(queue, Recorder(lambda items: 1 // 0), retry_min=1e6, retry_max=1e6)
        forwarder.start()
        wait_until(lambda: forwarder.health.state == "retrying")
        assert isinstance(forwarder.health.error, ZeroDivisionError)
        assert forwarder.metrics().in_flight == 5
        assert not forwarder.stop()
        assert not forwarder.stop(drain=True)  # the forwarder has stopped already
        assert forwarder.health.state == "stopped"
        # There is no TimeoutError, because the thread has ended.
        assert isinstance(forwarder.health.error, ZeroDivisionError)
        assert waiting(queue) == numbered(5)

    def test_an_error_in_on_error_changes_nothing(
        self, queue: topicdb.Queue, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue.append(numbered(5))
        left = [OSError("once")]

        def fail(items: list[bytes]) -> None:
            if left:
                raise left.pop()

        sink = Recorder(fail)
        forwarder = Forwarder(queue, sink, on_error=lambda error: 1 // 0, **QUICK)
        forwarder.run(until_empty=True)
        assert sink.items == numbered(5)
        assert "on_error of a forwarder" in caplog.text

    def test_an_error_in_close_changes_nothing(
        self, queue: topicdb.Queue, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Fails(Recorder):
            def close(self) -> None:
                raise OSError("cannot close")

        queue.append(numbered(5))
        sink = Fails()
        Forwarder(queue, sink).run(until_empty=True)
        assert sink.items == numbered(5)
        assert "cannot close" in caplog.text

    @pytest.mark.parametrize("seed", range(10))
    def test_a_sink_that_fails_at_random_loses_and_reorders_nothing(
        self, queue: topicdb.Queue, seed: int
    ) -> None:
        """An attempt that fails may deliver a part of its items, which then only come again."""
        chance = random.Random(seed)
        arrived: list[bytes] = []

        class Flaky(Held):
            """Confirms batches later and in any order; delivers until something fails."""

            def __init__(self) -> None:
                super().__init__()
                self.open_futures: list[tuple[Future[None], OSError | None]] = []
                self.broken = False

            def open(self) -> None:
                if chance.random() < 0.2:
                    raise OSError("cannot open")
                self.broken = False

            def begin(self, items: list[bytes]) -> Future[None]:
                if chance.random() < 0.1:
                    raise OSError("cannot begin")
                future: Future[None] = Future()
                taken = len(items)
                if self.broken or chance.random() < 0.1:
                    taken = 0 if self.broken else chance.randrange(len(items) + 1)
                    self.broken = True
                arrived.extend(items[:taken])
                self.open_futures.append((future, OSError("broken") if self.broken else None))
                return future

            def poll(self, timeout: float) -> None:
                if chance.random() < 0.05:
                    raise OSError("lost")
                chance.shuffle(self.open_futures)
                for _ in range(chance.randrange(3)):
                    if self.open_futures:
                        future, error = self.open_futures.pop()
                        if error is None:
                            future.set_result(None)
                        else:
                            future.set_exception(error)

            def close(self) -> None:
                self.open_futures.clear()

        items = numbered(300)
        queue.append(items)
        forwarder = Forwarder(queue, Flaky(), batch_count=7, in_flight_max=3, **QUICK)
        forwarder.run(until_empty=True)
        assert first_arrivals(arrived) == items
        assert len(arrived) > len(items)
        assert forwarder.metrics().items == len(items)
        assert queue.stats().bytes == 0


class TestWindow:
    def test_batches_are_sent_ahead_and_acknowledged_in_order(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(50))
        sink = Held()
        with Forwarder(queue, sink, batch_count=10, in_flight_max=3) as forwarder:
            wait_until(lambda: len(sink.begun) == 3)
            assert [items[0] for items, _ in sink.begun] == [b"0", b"10", b"20"]
            metrics = forwarder.metrics()
            assert (metrics.in_flight, metrics.waiting, metrics.items) == (30, 20, 0)
            assert forwarder.health.state == "forwarding"
            sink.begun[1][1].set_result(None)
            sink.begun[0][1].set_result(None)
            wait_until(lambda: len(sink.begun) == 5)
            assert forwarder.metrics().items == 20
            for _, future in sink.begun[2:]:
                future.set_result(None)
            wait_until(lambda: forwarder.health.state == "idle")
        assert [items for items, _ in sink.begun] == [
            numbered(10, start) for start in range(0, 50, 10)
        ]
        assert queue.stats().bytes == 0

    def test_what_is_confirmed_behind_something_older_is_not_acknowledged(
        self, queue: topicdb.Queue
    ) -> None:
        queue.append(numbered(30))
        sink = Held()
        forwarder = Forwarder(queue, sink, batch_count=10)
        forwarder.start()
        wait_until(lambda: len(sink.begun) == 3)
        sink.begun[1][1].set_result(None)
        assert not forwarder.stop(timeout=0)
        assert waiting(queue) == numbered(30)

    def test_after_a_failure_it_and_everything_behind_it_is_sent_again(
        self, queue: topicdb.Queue
    ) -> None:
        queue.append(numbered(40))
        sink = Held()
        with Forwarder(queue, sink, batch_count=10, **QUICK) as forwarder:
            wait_until(lambda: len(sink.begun) == 4)
            sink.begun[2][1].set_result(None)
            sink.begun[1][1].set_exception(OSError("lost"))
            sink.begun[0][1].set_result(None)
            wait_until(lambda: len(sink.begun) == 7)
            assert [items[0] for items, _ in sink.begun[4:]] == [b"10", b"20", b"30"]
            assert (sink.opened, sink.closed) == (2, 1)
            sink.begun[3][1].set_result(None)  # belongs to the attempt that failed
            for _, future in sink.begun[4:]:
                future.set_result(None)
            wait_until(lambda: forwarder.health.state == "idle")
            metrics = forwarder.metrics()
        assert (metrics.items, metrics.failures, metrics.retries) == (40, 1, 3)

    def test_a_future_that_is_cancelled_has_failed(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(3))
        sink = Held()
        with Forwarder(queue, sink, **QUICK):
            wait_until(lambda: len(sink.begun) == 1)
            sink.begun[0][1].cancel()
            wait_until(lambda: len(sink.begun) == 2)
            sink.begun[1][1].set_result(None)
            wait_until(lambda: waiting(queue) == [] and queue.stats().bytes == 0)

    def test_what_is_never_confirmed_is_sent_again(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(3))
        sink = Held()
        with Forwarder(queue, sink, confirm_timeout=0.05, **QUICK) as forwarder:
            wait_until(lambda: len(sink.begun) >= 3)
            assert isinstance(forwarder.health.error, TimeoutError)
        assert {tuple(items) for items, _ in sink.begun} == {tuple(numbered(3))}

    def test_it_counts_from_the_last_confirmation(
        self, queue: topicdb.Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0

        class Slow(Held):
            """Each batch takes less than ``confirm_timeout``, but all together take longer."""

            def poll(self, timeout: float) -> None:
                nonlocal now
                now += 0.6
                if self.begun:
                    self.begun.pop(0)[1].set_result(None)

        clock = SimpleNamespace(monotonic=lambda: now)
        monkeypatch.setattr("topicdb.forward.pump.time", clock)
        queue.append(numbered(12))
        forwarder = Forwarder(queue, Slow(), batch_count=1, in_flight_max=4, confirm_timeout=1.0)
        forwarder.run(until_empty=True)
        assert (forwarder.metrics().items, forwarder.metrics().failures) == (12, 0)


class TestPoison:
    @staticmethod
    def refuse(*bad: bytes) -> Callable[[list[bytes]], None]:
        def check(items: list[bytes]) -> None:
            if found := [item for item in items if item in bad]:
                raise PermanentError(f"refused: {found[0]!r}")

        return check

    def test_by_default_the_forwarder_fails_and_the_items_stay(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(40))
        sink = Recorder(self.refuse(b"15"))
        forwarder = Forwarder(queue, sink, batch_count=10)
        forwarder.start()
        wait_until(lambda: forwarder.health.state == "failed")
        assert isinstance(forwarder.health.error, PermanentError)
        assert not forwarder.stop()
        assert forwarder.health.state == "failed"
        assert sink.items == numbered(10)
        assert waiting(queue) == numbered(30, 10)
        with pytest.raises(PermanentError, match="15"):
            forwarder.run()
        assert waiting(queue) == numbered(30, 10)

    @pytest.mark.parametrize("in_flight_max", [1, 4])
    @pytest.mark.parametrize("batch_count", [1, 7, 100])
    def test_only_the_poison_is_dropped(
        self, queue: topicdb.Queue, batch_count: int, in_flight_max: int
    ) -> None:
        queue.append(numbered(100))
        bad = [b"0", b"41", b"42", b"77", b"99"]
        sink = Recorder(self.refuse(*bad))
        forwarder = Forwarder(
            queue, sink, batch_count=batch_count, in_flight_max=in_flight_max, poison="drop"
        )
        forwarder.run(until_empty=True)
        good = [item for item in numbered(100) if item not in bad]
        assert sink.items == good
        assert forwarder.metrics().dropped_items == len(bad)
        assert forwarder.metrics().items == len(good)
        assert queue.stats().bytes == 0

    def test_it_may_be_put_elsewhere_and_that_is_retried(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(10))
        letters: list[tuple[list[bytes], str]] = []
        fails = [OSError("no room"), PermanentError("no way")]

        def put_elsewhere(items: list[bytes], error: PermanentError) -> None:
            if fails:
                raise fails.pop()
            letters.append((items, str(error)))

        sink = Recorder(self.refuse(b"4"))
        Forwarder(queue, sink, poison=put_elsewhere, **QUICK).run(until_empty=True)
        assert letters == [([b"4"], "refused: b'4'")]
        assert sink.items == [item for item in numbered(10) if item != b"4"]

    def test_afterwards_batches_are_sent_ahead_again(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(20))
        sink = Held()
        options: dict[str, Any] = {"batch_count": 1, "in_flight_max": 3, "stop_timeout": 0.0}
        with Forwarder(queue, sink, poison="drop", **options):
            wait_until(lambda: len(sink.begun) == 3)
            for sent in (3, 4):  # fails once among other batches, once alone
                sink.begun[-1 if sent == 4 else 0][1].set_exception(PermanentError("no"))
                wait_until(lambda sent=sent: len(sink.begun) == sent + 1)  # type: ignore[misc]
            assert [items for items, _ in sink.begun[3:]] == [[b"0"], [b"1"]]
            sink.begun[4][1].set_result(None)
            wait_until(lambda: len(sink.begun) == 8)
            assert [items for items, _ in sink.begun[5:]] == [[b"2"], [b"3"], [b"4"]]

    def test_a_sink_that_cannot_tell_which_batch_it_was_costs_no_other_item(
        self, queue: topicdb.Queue
    ) -> None:
        """All batches on their way fail, as when a broker closes the connection."""
        arrived: list[bytes] = []

        class Connection(Held):
            def begin(self, items: list[bytes]) -> Future[None]:
                future = super().begin(items)
                if b"5" not in items:
                    arrived.extend(items)
                return future

            def poll(self, timeout: float) -> None:
                bad = any(b"5" in items for items, _ in self.begun)
                for _, future in self.begun:
                    if bad:
                        future.set_exception(PermanentError("one of them"))
                    else:
                        future.set_result(None)
                self.begun.clear()

            def close(self) -> None:
                self.begun.clear()

        queue.append(numbered(12))
        forwarder = Forwarder(queue, Connection(), batch_count=1, poison="drop")
        forwarder.run(until_empty=True)
        assert first_arrivals(arrived) == [item for item in numbered(12) if item != b"5"]
        assert forwarder.metrics().dropped_items == 1

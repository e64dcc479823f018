"""Tests of how a forwarder is stopped and ends, of its health, and of its options."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest
from forwarding import QUICK, Held, Recorder, numbered, waiting
from support import PATIENCE_S, Child, run_child, wait_until

import topicdb
from topicdb.forward import (
    AsyncSink,
    DatabaseSink,
    Forwarder,
    KafkaSink,
    MqttSink,
    PermanentError,
    PolledSink,
    Sink,
)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(tmp_path / "queue") as opened:
        yield opened


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``stop`` wait longer for a thread that gets no turn on a loaded machine."""
    monkeypatch.setattr("topicdb.forward.forwarder.GRACE_SECONDS", PATIENCE_S)


class TestStop:
    def test_it_waits_for_what_is_in_flight_and_takes_nothing_more(
        self, queue: topicdb.Queue
    ) -> None:
        queue.append(numbered(50))
        sink = Held()
        forwarder = Forwarder(queue, sink, batch_count=10, in_flight_max=2)
        forwarder.start()
        wait_until(lambda: len(sink.begun) == 2)
        results: list[bool] = []
        stopper = threading.Thread(target=lambda: results.append(forwarder.stop(timeout=100)))
        stopper.start()
        wait_until(lambda: forwarder._pump is not None and forwarder._pump._stop is not None)
        for _, future in sink.begun:
            future.set_result(None)
        stopper.join()
        assert results == [True]
        assert len(sink.begun) == 2 and sink.closed == 1
        assert waiting(queue) == numbered(30, 20)
        assert forwarder.health.state == "stopped"

    def test_what_is_not_confirmed_in_time_goes_back(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(50))
        sink = Held()
        forwarder = Forwarder(queue, sink, batch_count=10, in_flight_max=3)
        forwarder.start()
        wait_until(lambda: len(sink.begun) == 3)
        sink.begun[0][1].set_result(None)
        wait_until(lambda: len(sink.begun) == 4)
        assert not forwarder.stop(timeout=0.01)
        assert waiting(queue) == numbered(40, 10)
        assert forwarder.metrics().in_flight == 0

    def test_drain_delivers_what_waits(self, queue: topicdb.Queue) -> None:
        items = numbered(1000)
        left = [OSError("first"), OSError("second")]

        def fail(items: list[bytes]) -> None:
            if left and b"500" in items:
                raise left.pop()

        sink = Recorder(fail)
        forwarder = Forwarder(queue, sink, batch_count=10, **QUICK)
        forwarder.start()
        queue.append(items)
        assert forwarder.stop(timeout=100, drain=True)
        assert sink.items == items

    @pytest.mark.usefixtures("patient")
    def test_drain_ends_at_its_timeout(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(5))
        forwarder = Forwarder(queue, Recorder(lambda items: 1 // 0), retry_min=1e6, retry_max=1e6)
        forwarder.start()
        wait_until(lambda: forwarder.health.error is not None)
        assert not forwarder.stop(timeout=0.05, drain=True)
        # There is no TimeoutError, because the thread has ended.
        assert isinstance(forwarder.health.error, ZeroDivisionError)
        assert waiting(queue) == numbered(5)

    @pytest.mark.usefixtures("patient")
    def test_drain_says_when_something_still_waits(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(10_000))
        forwarder = Forwarder(queue, lambda items: time.sleep(0.01), batch_count=1)
        forwarder.start()
        assert not forwarder.stop(timeout=0.05, drain=True)
        assert forwarder.metrics().items + len(waiting(queue)) == 10_000
        assert (forwarder.health.state, forwarder.health.error) == ("stopped", None)

    def test_a_sink_that_hangs_is_left_behind(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(5))
        entered, release = threading.Event(), threading.Event()

        def hang(items: list[bytes]) -> None:
            entered.set()
            release.wait()

        sink = Recorder(hang)
        forwarder = Forwarder(queue, sink, stop_timeout=0.01)
        forwarder.start()
        entered.wait()
        assert not forwarder.stop()
        assert forwarder.health.state == "stopped"
        assert isinstance(forwarder.health.error, TimeoutError)
        taken = queue.pop()
        assert taken.items == numbered(5)
        with pytest.raises(RuntimeError, match="hangs"):
            forwarder.start()
        release.set()
        assert not forwarder.stop(timeout=100)  # the thread has ended now
        queue.nack(taken.ref)
        assert waiting(queue) == numbered(5)  # it has acknowledged nothing that is not its own
        forwarder.start()
        assert forwarder.stop(timeout=100, drain=True)
        assert sink.items == 2 * numbered(5)

    def test_from_its_own_thread_it_only_asks(self, queue: topicdb.Queue) -> None:
        queue.append(numbered(30))
        told: list[bool] = []
        seen: list[bytes] = []

        def sink(items: list[bytes]) -> None:
            told.append(forwarder.stop())
            seen.extend(items)

        forwarder = Forwarder(queue, sink, batch_count=10)
        forwarder.run()
        assert told == [False]
        assert seen == numbered(10)
        assert waiting(queue) == numbered(20, 10)

    def test_before_it_was_started(self, queue: topicdb.Queue) -> None:
        forwarder = Forwarder(queue, print)
        assert forwarder.health.state == "stopped" and forwarder.health.error is None
        assert forwarder.stop()

    def test_by_a_signal(self, queue: topicdb.Queue) -> None:
        forwarder = Forwarder(queue, print)
        previous = signal.signal(signal.SIGUSR1, lambda *_: forwarder.stop())
        try:

            def runs() -> bool:
                pump = forwarder._pump
                return pump is not None and pump._thread is not None

            def send() -> None:
                wait_until(runs)
                signal.raise_signal(signal.SIGUSR1)

            sender = threading.Thread(target=send)
            sender.start()
            forwarder.run()
            sender.join()
        finally:
            signal.signal(signal.SIGUSR1, previous)
        assert (forwarder.health.state, forwarder.health.error) == ("stopped", None)

    def test_by_ctrl_c(self, tmp_path: Path) -> None:
        code = """
            import sys, threading, topicdb
            with topicdb.Queue.open(sys.argv[1]) as queue:
                queue.append([b"%d" % i for i in range(5)])
                forwarder = topicdb.Forwarder(
                    queue, lambda items: 1 // 0, retry_min=1e6, retry_max=1e6,
                    on_error=lambda error: print("waiting"))
                try:
                    forwarder.run()
                except KeyboardInterrupt:
                    print(forwarder.health.state, len(queue))
        """
        with Child(code, tmp_path / "q") as child:
            child.expect("waiting")
            child.interrupt()
            child.expect("stopped 5")
            assert child.finish() == (0, "", "")

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("call", ["pop", "ack"])
    def test_by_a_signal_while_it_takes_or_acknowledges(
        self, queue: topicdb.Queue, number: signal.Signals, call: str
    ) -> None:
        """No item remains in flight, and no acknowledged item comes again."""

        class Interrupted:
            """Raises the signal when a call of the queue has its result, before the caller does."""

            def __len__(self) -> int:
                return len(queue)

            def __getattr__(self, name: str) -> object:
                def called(*args: object, **options: object) -> object:
                    result = getattr(queue, name)(*args, **options)
                    if name == call:
                        signal.raise_signal(number)
                    return result

                return called

        class ConfirmsTheOneBefore(Held):
            def begin(self, items: list[bytes]) -> Future[None]:
                future = super().begin(items)
                for _, earlier in self.begun[:-1]:
                    if not earlier.done():
                        earlier.set_result(None)
                return future

        def leave(*_: object) -> None:
            raise KeyboardInterrupt

        queue.append(numbered(30))
        sink = ConfirmsTheOneBefore()
        previous = signal.signal(number, leave)
        try:
            interrupted = cast(topicdb.Queue, Interrupted())
            forwarder = Forwarder(interrupted, sink, batch_count=10, **QUICK)
            with pytest.raises(KeyboardInterrupt):
                forwarder.run(until_empty=True)
            assert signal.getsignal(number) is leave
        finally:
            signal.signal(number, previous)
        assert forwarder.health.state == "stopped"
        delivered = 10 if call == "ack" else 0
        metrics = forwarder.metrics()
        assert (metrics.items, metrics.in_flight, metrics.waiting) == (delivered, 0, 30 - delivered)
        assert waiting(queue) == numbered(30 - delivered, delivered)
        assert queue.stats().cursors["default"].in_flight == 0

    def test_a_program_that_ends_without_stop(self, tmp_path: Path) -> None:
        """The batch in flight is delivered before the program ends."""
        code = """
            import sys, threading, time, topicdb
            queue = topicdb.Queue.open(sys.argv[1])
            queue.append([b"%d" % i for i in range(50)])
            entered = threading.Event()
            def sink(items):
                entered.set()
                threading.main_thread().join()  # until the program has ended
                print("delivered", len(items))
            topicdb.Forwarder(queue, sink, batch_count=5).start()
            entered.wait()
            print("end")
        """
        assert run_child(code, tmp_path / "q").splitlines() == ["end", "delivered 5"]
        with topicdb.Queue.open(tmp_path / "q") as opened:
            assert len(opened) == 45

    def test_the_queue_is_closed_underneath(self, queue: topicdb.Queue, tmp_path: Path) -> None:
        queue.append(numbered(5))
        sink = Held()
        forwarder = Forwarder(queue, sink, batch_count=2, in_flight_max=2)
        idle = Forwarder(queue, print, cursor="other")
        queue.cursor("other").ack(queue.cursor("other").pop().ref)
        forwarder.start()
        idle.start()
        wait_until(lambda: len(sink.begun) == 2)
        queue.close()
        sink.begun[0][1].set_result(None)
        for one in (forwarder, idle):
            wait_until(lambda one=one: one.health.state == "stopped")  # type: ignore[misc]
            assert one.health.error is None
            assert one.metrics().waiting is None
        assert sink.closed == 1
        assert not forwarder.stop() and idle.stop()
        with topicdb.Queue.open(tmp_path / "queue") as opened:
            assert waiting(opened) == numbered(5)

    def test_the_cursor_is_removed_underneath(self, queue: topicdb.Queue) -> None:
        forwarder = Forwarder(queue, print, cursor="gone")
        forwarder.start()
        queue.remove_cursor("gone")
        wait_until(lambda: forwarder.health.state == "failed")
        assert isinstance(forwarder.health.error, topicdb.NotFoundError)

    def test_a_sink_with_a_closed_queue_of_its_own_is_retried(
        self, queue: topicdb.Queue, tmp_path: Path
    ) -> None:
        with topicdb.Queue.open(tmp_path / "other") as other:
            pass
        queue.append(numbered(2))
        with Forwarder(queue, other.append, **QUICK) as forwarder:
            wait_until(lambda: forwarder.metrics().failures > 2)
            assert forwarder.health.state == "retrying"
            assert isinstance(forwarder.health.error, topicdb.ClosedError)
        assert waiting(queue) == numbered(2)


class TestHealth:
    def test_states_and_since_when(self, queue: topicdb.Queue) -> None:
        broken = threading.Event()

        def fail(items: list[bytes]) -> None:
            if broken.is_set():
                raise OSError("broken")

        forwarder = Forwarder(queue, Recorder(fail), **QUICK)
        made = forwarder.health
        assert made.state == "stopped" and made.since.tzinfo is not None
        forwarder.start()
        wait_until(lambda: forwarder.health.state == "idle")
        idle = forwarder.health
        assert idle.since >= made.since and idle.error is None
        broken.set()
        queue.append(numbered(1))
        wait_until(lambda: forwarder.metrics().failures > 3)
        retrying = forwarder.health
        assert retrying.state == "retrying" and str(retrying.error) == "broken"
        wait_until(lambda: forwarder.metrics().failures > 5)
        assert forwarder.health.since == retrying.since  # since the first failure
        broken.clear()
        wait_until(lambda: forwarder.health.state == "idle")
        assert str(forwarder.health.error) == "broken"  # the last error stays
        assert forwarder.stop()
        assert repr(forwarder) == f"<topicdb.Forwarder of {queue!r}: stopped>"

    def test_a_sink_is_opened_before_there_is_anything_and_again_when_it_is_lost(
        self, queue: topicdb.Queue
    ) -> None:
        class Loses(Held):
            lost = False

            def poll(self, timeout: float) -> None:
                if self.lost:
                    self.lost = False
                    raise ConnectionError("lost")

        sink = Loses()
        with Forwarder(queue, sink, **QUICK) as forwarder:
            wait_until(lambda: sink.opened == 1)
            sink.lost = True
            wait_until(lambda: sink.opened == 2)
            wait_until(lambda: forwarder.health.state == "idle")
            assert str(forwarder.health.error) == "lost"

    def test_nothing_is_opened_to_find_the_queue_empty(self, queue: topicdb.Queue) -> None:
        sink = Recorder()
        Forwarder(queue, sink).run(until_empty=True)
        assert sink.opened == 0


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            {"batch_count": 0},
            {"batch_bytes": 0},
            {"batch_bytes": 1 << 63},
            {"in_flight_max": 0},
            {"retry_min": 0},
            {"retry_min": 2.0, "retry_max": 1.0},
            {"retry_jitter": 1.5},
            {"confirm_timeout": -1},
            {"stop_timeout": None},
            {"poison": "eat"},
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_refused(
        self, queue: topicdb.Queue, options: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError, match=next(iter(options))):
            Forwarder(queue, print, **options)

    @pytest.mark.parametrize(
        "options",
        [{"batch_count": 1.5}, {"batch_bytes": "5"}, {"in_flight_max": True}, {"on_error": 5}],
        ids=str,
    )
    def test_options_of_a_wrong_kind(self, queue: topicdb.Queue, options: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match=f"{next(iter(options))}: expected"):
            Forwarder(queue, print, **options)

    def test_arguments_of_a_wrong_kind(self, queue: topicdb.Queue) -> None:
        with pytest.raises(TypeError, match="got int"):
            Forwarder(queue, 5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no queue"):
            Forwarder(queue.cursor("a"), print, cursor="b")

    def test_the_protocols(self) -> None:
        assert isinstance(Recorder(), Sink) and not isinstance(Recorder(), AsyncSink)
        assert isinstance(Held(), AsyncSink) and not isinstance(Held(), PolledSink)

    def test_clients_are_imported_when_they_are_needed(self) -> None:
        code = """
            import sys, topicdb, topicdb.forward
            assert not {"paho", "confluent_kafka"} & set(sys.modules)
            sys.modules.update({"paho": None, "confluent_kafka": None})
            for make, extra in [
                (lambda: topicdb.forward.MqttSink("localhost", topic="t"), "topicdb[mqtt]"),
                (lambda: topicdb.forward.KafkaSink("localhost", topic="t"), "topicdb[kafka]"),
            ]:
                try:
                    make()
                except ImportError as error:
                    assert f"pip install {extra}" in str(error), error
                else:
                    raise AssertionError(extra)
        """
        run_child(code)

    @pytest.mark.parametrize(
        "options",
        [
            {"qos": 3},
            {"protocol": "3.1"},
            {"unconfirmed_max": 0},
            {"clean_start": False},
            {"clean_start": False, "client_id": "c", "qos": 2},
            {"keepalive": -1},
            {"keepalive": 65_536},
            {"topic": "plant/#"},
            {"topic": ""},
        ],
        ids=str,
    )
    def test_options_of_mqtt(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(options))):
            MqttSink("localhost", **{"topic": "t", **options})

    def test_options_of_a_wrong_kind_are_no_fault_of_the_items(self, tmp_path: Path) -> None:
        wrong: Any = b"t"
        with topicdb.open(tmp_path / "db") as db:
            with pytest.raises(ValueError, match=r"durability: expected 'none'.*got 'dsk'"):
                DatabaseSink(db, lambda item: ("a", None, item), durability="dsk")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="decode: expected a function"):
                DatabaseSink(db, wrong)
            with pytest.raises(TypeError, match="key: expected a function or None"):
                DatabaseSink(db, lambda item: ("a", None, item), key=wrong)
            with pytest.raises(topicdb.SchemaError, match=r"key: .* is sharded by topic"):
                DatabaseSink(db, lambda item: ("a", None, item), key=lambda item: item)
        with pytest.raises(TypeError, match="topic: expected"):
            MqttSink("localhost", topic=wrong)
        with pytest.raises(TypeError, match="topic: expected"):
            KafkaSink("localhost", topic=wrong)
        with pytest.raises(TypeError, match="key: expected"):
            KafkaSink("localhost", topic="t", key=wrong)

    @pytest.mark.parametrize(
        "routed", ["", "a/#", None, 5, ("a", None), ("a", 5), ("a", {}), ("a", "\ud800"), ("a",)]
    )
    def test_what_mqtt_cannot_publish_is_permanent(self, routed: Any) -> None:
        sink = MqttSink("localhost", topic=lambda item: routed)
        with pytest.raises(PermanentError, match="no topic or payload"):
            sink._message(b"item")

    @pytest.mark.parametrize("payload", [b"v", "v", bytearray(b"v"), memoryview(b"v")])
    def test_payloads_of_mqtt(self, payload: Any) -> None:
        assert MqttSink("localhost", topic=lambda _: ("a", payload))._message(b"") == ("a", b"v")

    @pytest.mark.parametrize(
        ("topic", "key"),
        [("a\0b", None), ("a" * 100_000, None), (b"a", None), ("a", 5), ("a", "\ud800")],
        ids=["nul", "long", "bytes", "key", "surrogate"],
    )
    def test_what_kafka_cannot_produce_is_permanent(self, topic: Any, key: Any) -> None:
        sink = KafkaSink("127.0.0.1:1", topic=lambda item: topic, key=lambda item: key)
        sink.open()
        try:
            with pytest.raises(PermanentError):
                sink.begin([b"item"])
        finally:
            sink.close()

    def test_options_of_kafka(self) -> None:
        for name in ("acks", "enable.idempotence"):
            config: dict[str, Any] = {name: "0"}
            with pytest.raises(ValueError, match=name):
                KafkaSink("localhost", topic="t", **config)


def test_wait_for_looks_again_after_each_change(queue: topicdb.Queue) -> None:
    sink = Held()
    with Forwarder(queue, sink, stop_timeout=0) as forwarder:
        assert forwarder.wait_for(lambda: True, timeout=0)
        assert not forwarder.wait_for(lambda: False, timeout=0.001)
        queue.append(numbered(1))
        found: list[bool] = []
        waiter = threading.Thread(
            target=lambda: found.append(forwarder.wait_for(lambda: queue.stats().bytes == 0))
        )
        waiter.start()
        wait_until(lambda: len(sink.begun) == 1)
        assert not found
        sink.begun[0][1].set_result(None)
        waiter.join()
        assert found == [True]
    with pytest.raises(ValueError, match=r"timeout"):
        forwarder.wait_for(lambda: True, timeout=-1)

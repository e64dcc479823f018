"""After kill -9 of the bridge or the broker, all that a publisher saw acknowledged is stored."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support import PATIENCE_S, Child, wait_until

import topicdb

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")

SEED = 20_261_123
IN_FLIGHT = 20
ENOUGH = 100  # the least number of messages that a test checks

_BRIDGE = """
import sys
import topicdb
from topicdb.bridge import Bridge

path, port, names = sys.argv[1:]
with topicdb.open(path, shards=2) as db:
    bridge = Bridge(db, "127.0.0.1", int(port), deduplicate_by=names or None)
    bridge.start()
    print("started", flush=True)
    while (line := sys.stdin.readline()):
        if line.strip() == "status":
            print(bridge.status().connections, bridge.status().received, flush=True)
        elif line.strip() == "stop":
            break
    bridge.stop()
    print(bridge.status().duplicates, flush=True)
"""


class Publisher:
    """Publishes numbers with QoS 1 and 2 in turn, and notes which ones the broker acknowledged.

    When it loses its connection it makes another one, and publishes again what had not been
    acknowledged, as new messages: the broker may know nothing of them. If only the bridge is
    killed, no connection is lost and no message is published twice.
    """

    def __init__(self, port: int) -> None:
        self.acknowledged: set[int] = set()
        self._port = port
        self._next = 0
        self._left: list[int] = []  # to be published again
        self._ending = threading.Event()
        self.paused = threading.Event()
        self.is_idle = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._connection()
            except OSError:
                time.sleep(0.05)

    def _connection(self) -> None:
        pending: dict[int, int] = {}
        lost = threading.Event()
        confirmed: list[int] = []
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5, reconnect_on_failure=False)
        client.max_inflight_messages_set(0)

        def note(client: object, data: object, mid: int, reason: object, more: object) -> None:
            confirmed.append(mid)  # perhaps before `publish` has returned

        client.on_publish = note
        client.on_disconnect = lambda *arguments: lost.set()
        client.connect("127.0.0.1", self._port)
        client.loop_start()
        try:
            while not self._ending.is_set() and not lost.is_set():
                for mid in [mid for mid in confirmed if mid in pending]:
                    confirmed.remove(mid)
                    self.acknowledged.add(pending.pop(mid))
                if len(pending) >= IN_FLIGHT or self.paused.is_set():
                    if not pending and self.paused.is_set():
                        self.is_idle.set()
                    time.sleep(0.001)
                    continue
                # This is slower than the bridge, as a killed broker forgets what it has queued.
                time.sleep(0.0005)
                number = self._left.pop() if self._left else self._take_next()
                properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
                properties.UserProperty = [("id", str(number))]
                info = client.publish(
                    topic_of(number), b"%d" % number, qos_of(number), False, properties
                )
                pending[info.mid] = number
        finally:
            client.on_publish = None
            client.disconnect()
            client.loop_stop()
            self._left += pending.values()

    def _take_next(self) -> int:
        self._next += 1
        return self._next - 1

    def quiet(self) -> None:
        """Pauses, and waits until everything is acknowledged."""
        self.is_idle.clear()
        self.paused.set()
        assert self.is_idle.wait(PATIENCE_S)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()


def qos_of(number: int) -> int:
    return number % 2 + 1


def topic_of(number: int) -> str:
    return f"t/{number % 7}"


class Trial:
    """A broker, a bridge in a process of its own, and a publisher."""

    def __init__(self, tmp_path: Path, names: str) -> None:
        self.path = tmp_path / "bridge.db"
        self.names = names
        self.random = random.Random(SEED)
        # Otherwise the broker would forget the bridge's session and confirm messages for nobody.
        lines = "autosave_interval 1", "autosave_on_changes true"
        self.broker: Broker = mosquitto(tmp_path / "broker", *lines)
        self.broker.start()
        self.start_bridge()
        self.publisher = Publisher(self.broker.port)

    def start_bridge(self) -> None:
        self.bridge = Child(_BRIDGE, self.path, self.broker.port, self.names)
        self.bridge.expect("started")
        self.wait_until_connected(1)

    def status(self) -> tuple[int, int]:
        """Returns how often the bridge has connected, and how many messages it has received."""
        self.bridge.send("status")
        connections, received = self.bridge.read_line().split()
        return int(connections), int(received)

    def drain(self) -> None:
        """Waits until the bridge has stored all messages that the broker has acknowledged."""
        wait_until(lambda: self.publisher.acknowledged <= self.stored().keys())

    def wait_until_connected(self, times: int) -> None:
        wait_until(lambda: self.status()[0] >= times)

    def kill_bridge(self) -> None:
        time.sleep(self.random.uniform(0.05, 0.3))
        self.bridge.__exit__(None, None, None)  # kill -9
        time.sleep(self.random.uniform(0, 0.1))
        self.start_bridge()

    def kill_broker(self) -> None:
        """Kills the broker once the bridge has what the broker had queued, and would forget."""
        self.publisher.quiet()
        self.drain()
        self.publisher.paused.clear()
        time.sleep(self.random.uniform(0.05, 0.3))
        before = self.status()[0]
        self.broker.kill_when_sent()
        self.broker.start()
        self.wait_until_connected(before + 1)

    def finish(self) -> None:
        wait_until(lambda: len(self.publisher.acknowledged) > ENOUGH)
        self.publisher.quiet()
        self.publisher.close()
        self.drain()
        self.bridge.send("stop")
        self.bridge.read_line()
        self.bridge.__exit__(None, None, None)
        self.broker.kill()

    def stored(self) -> Counter[int]:
        found: Counter[int] = Counter()
        with topicdb.open(self.path, mode="r") as db:
            for message in db.scan("t/#"):
                found[int(message.value)] += 1
        return found


def check(acknowledged: set[int], stored: Counter[int]) -> None:
    assert len(acknowledged) > ENOUGH
    missing = [number for number in acknowledged if number not in stored]
    assert missing == []
    twice = [number for number, count in stored.items() if count > 1 and qos_of(number) == 2]
    assert twice == []


def test_a_killed_bridge_stores_qos_2_once_and_qos_1_at_least_once(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "")
    for _ in range(4):
        trial.kill_bridge()
    trial.finish()
    check(trial.publisher.acknowledged, trial.stored())


def test_bridge_and_broker_killed_in_turn(tmp_path: Path) -> None:
    run(tmp_path, 2)


@pytest.mark.crash
def test_bridge_and_broker_killed_in_turn_again_and_again(tmp_path: Path) -> None:
    run(tmp_path, int(os.environ.get("TOPICDB_CRASH_ROUNDS", "50")))


def run(tmp_path: Path, rounds: int) -> None:
    trial = Trial(tmp_path, "id")
    for _ in range(rounds):
        trial.kill_bridge()
        trial.kill_broker()
    trial.finish()
    stored = trial.stored()
    print(
        f"{rounds} rounds: {len(trial.publisher.acknowledged):,} acknowledged, {len(stored):,} "
        f"stored, {sum(count > 1 for count in stored.values())} of QoS 1 more than once"
    )
    check(trial.publisher.acknowledged, stored)

"""Measures topicdb.Publisher beside paho-mqtt alone: messages a second, and CPU time of a message.

python bench/python/publisher_bench.py [--size small|normal] [--rounds 5] [--json FILE]

Each side publishes the same messages one by one with QoS 1, and is done when the broker has
acknowledged all of them. The sides take turns, each with a Mosquitto of its own and at most 20
messages on their way. A mosquitto_sub reads afterwards what has arrived; the benchmark stops if a
side does not deliver each message once, in order. The CPU time is that of the publishing process.
The benchmark needs Debian's mosquitto and mosquitto-clients.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))

from brokers import MOSQUITTO, mosquitto
from measure import ROUNDS, Timing, once
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

import topicdb

SEED = 20261127
COUNTS = {"small": 300, "normal": 5_000}
PAYLOAD_BYTES = (100, 1_000, 10_000)
TOPIC = "bench/publisher"
IN_FLIGHT_MAX = 20
DURABILITIES: tuple[Any, ...] = ("memory", "os", "disk")
UNAVAILABLE = 75

Publish: TypeAlias = Callable[[int, list[str], Path], object]


def payloads_of(size: int, count: int) -> list[str]:
    choose = random.Random(SEED)
    return [choose.randbytes(size // 2).hex() for _ in range(count)]


def with_paho(port: int, payloads: list[str], path: Path) -> None:
    """Publishes without a file: what is not acknowledged is lost with the process."""
    left = threading.Semaphore(0)
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.max_inflight_messages_set(IN_FLIGHT_MAX)
    client.on_publish = lambda *_: left.release()
    client.connect("127.0.0.1", port)
    client.loop_start()
    for payload in payloads:
        client.publish(TOPIC, payload, 1)
    for _ in payloads:
        left.acquire()
    client.disconnect()
    client.loop_stop()


def with_publisher(port: int, payloads: list[str], path: Path, durability: Any) -> None:
    with topicdb.Publisher(path, f"mqtt://127.0.0.1:{port}", durability=durability) as publisher:
        for payload in payloads:
            publisher.publish(TOPIC, payload)
        assert publisher.wait()


def many_at_once(port: int, payloads: list[str], path: Path) -> None:
    with topicdb.Publisher(path, f"mqtt://127.0.0.1:{port}", durability="disk") as publisher:
        for first in range(0, len(payloads), 100):
            publisher.publish_many((TOPIC, one) for one in payloads[first : first + 100])
        assert publisher.wait()


SIDES: dict[str, Publish] = {
    "paho-mqtt alone": with_paho,
    **{
        f"Publisher, {durability}": partial(with_publisher, durability=durability)
        for durability in DURABILITIES
    },
    "Publisher, disk, publish_many of 100": many_at_once,
}


def digest_of(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def turn(publish: Publish, payloads: list[str], timing: Timing, place: Path) -> None:
    """Runs one side with a new broker, and checks what has arrived."""
    subscriber = ["mosquitto_sub", "-t", TOPIC, "-q", "1", "-i", "bench", "-c"]
    with mosquitto(place / "mosquitto") as broker:
        subscriber += ["-p", str(broker.port)]
        subprocess.run([*subscriber, "-E"], check=True)  # subscribes, and leaves
        once(lambda: publish(broker.port, payloads, place / "out.q"), timing)
        count = ["-C", str(len(payloads))]
        ended = subprocess.run([*subscriber, *count], capture_output=True, timeout=300, check=True)
    found = ended.stdout.decode().splitlines()
    assert digest_of(found) == digest_of(payloads), f"{len(found)} of {len(payloads)} messages"


def measure(size: int, count: int, rounds: int) -> dict[str, Timing]:
    payloads = payloads_of(size, count)
    timings = {name: Timing() for name in SIDES}
    names = list(SIDES)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            with tempfile.TemporaryDirectory(dir=".") as place:
                turn(SIDES[name], payloads, timings[name], Path(place).resolve())
    print(f"{size} B: {count} messages, digest {digest_of(payloads)}", flush=True)
    return timings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=COUNTS, default="normal")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if MOSQUITTO is None or shutil.which("mosquitto_sub") is None:
        print("it needs mosquitto and mosquitto-clients")
        return UNAVAILABLE
    count = COUNTS[options.size]
    rows = []
    for size in PAYLOAD_BYTES:
        for name, timing in measure(size, count, options.rounds).items():
            per_s, cpu_us = count / timing.wall, timing.cpu / count * 1e6
            rows.append({"bytes": size, "side": name, "messages_s": per_s, "cpu_us": cpu_us})
            print(f"  {name:<38} {per_s:>9,.0f} messages/s {cpu_us:>8.1f} µs CPU a message")
    if options.json is not None:
        options.json.write_text(json.dumps({"results": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

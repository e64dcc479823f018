"""Measures the MQTT bridge beside mosquitto_sub that writes a file: rows B1 and B2.

python bench/python/bridge_bench.py [--size small|normal] [--only B1,B2] [--json FILE]

B1  QoS 1: messages wait in a session at a Mosquitto. The time ends when the bridge has stored
    them all (committed and acknowledged), or mosquitto_sub has written them to a file.
B2  QoS 0: mosquitto_pub publishes as fast as it can, for each side in its own turn.

The sides take turns, each with a broker and a process of its own. The benchmark needs Debian's
mosquitto and mosquitto-clients.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))

import workloads
from brokers import Broker, mosquitto
from measure import ROUNDS
from report import Report

import topicdb

# If more than 65,535 messages wait in a session, Mosquitto 2.0.11 hands out only some of them.
SIZES = {"small": 2_000, "normal": 50_000}
TOPIC = "bench/bridge"
UNAVAILABLE = 75

_BRIDGE = """
import sys, time
import topicdb
from topicdb.bridge import Bridge

path, port, count, qos = sys.argv[1], *map(int, sys.argv[2:])
with topicdb.open(path) as db:
    bridge = Bridge(db, "127.0.0.1", port, qos=qos, filters="bench/#", name="bridge")
    wall, cpu = time.perf_counter(), time.process_time()
    bridge.start()
    while not count and bridge.status().state != "connected":
        time.sleep(0.01)
    if not count or qos == 0:
        time.sleep(0.2)
        print("subscribed", flush=True)
    while count and bridge.status().stored == 0:
        time.sleep(0.001)
        if qos == 0:
            wall, cpu = time.perf_counter(), time.process_time()
    while bridge.status().stored < count:
        time.sleep(0.001)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    bridge.stop()
print(wall, cpu, flush=True)
"""


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float


def publish(port: int, messages: list[bytes], qos: int) -> None:
    command = ["mosquitto_pub", "-p", str(port), "-t", TOPIC, "-q", str(qos), "-l"]
    subprocess.run(command, input=b"\n".join(messages) + b"\n", check=True)


def start_bridge(path: Path, port: int, count: int, qos: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _BRIDGE, str(path), str(port), str(count), str(qos)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def cost_of(process: subprocess.Popen[str]) -> Cost:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    wall_s, cpu_s = map(float, out.split()[-2:])
    return Cost(wall_s, cpu_s)


def bridge_side(broker: Broker, messages: list[bytes], qos: int, path: Path) -> Cost:
    if qos == 0:
        process = start_bridge(path, broker.port, len(messages), qos)
        assert process.stdout is not None and process.stdout.readline() == "subscribed\n"
        publish(broker.port, messages, qos)
        return cost_of(process)
    cost_of(start_bridge(path, broker.port, 0, qos))  # makes the session, and leaves
    publish(broker.port, messages, qos)
    return cost_of(start_bridge(path, broker.port, len(messages), qos))


def file_side(broker: Broker, messages: list[bytes], qos: int, path: Path) -> Cost:
    common = ["mosquitto_sub", "-p", str(broker.port), "-t", "bench/#", "-q", str(qos)]
    if qos > 0:
        common += ["-i", "file", "-c"]
        subprocess.run([*common, "-E"], check=True)  # subscribes, and leaves
        publish(broker.port, messages, qos)
    with path.open("wb") as file:
        began = time.perf_counter()
        process = subprocess.Popen([*common, "-C", str(len(messages)), "-F", "%t %p"], stdout=file)
        if qos == 0:
            time.sleep(0.3)
            began = time.perf_counter()
            publish(broker.port, messages, qos)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def digest_of(payloads: Iterable[bytes]) -> str:
    total = hashlib.blake2b(digest_size=8)
    for payload in sorted(payloads):
        total.update(payload + b"\n")
    return total.hexdigest()


def stored(path: Path) -> list[bytes]:
    with topicdb.open(path, mode="r") as db:
        return [message.value for message in db.scan("bench/#")]


def written(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines()
    return [line.removeprefix(TOPIC.encode() + b" ") for line in lines]


def compare(report: Report, part: str, qos: int, count: int, rounds: int, place: Path) -> None:
    messages = [b"%d %s" % (number, b"x" * (200 - len(str(number)) - 1)) for number in range(count)]
    costs: dict[str, list[Cost]] = {"bridge": [], "mosquitto_sub to a file": []}
    for number in range(rounds):
        for name, side in (("bridge", bridge_side), ("mosquitto_sub to a file", file_side)):
            path = place / f"{part}-{number}-{name.split()[0]}"
            with mosquitto(place / f"broker-{part}-{number}-{name.split()[0]}") as broker:
                costs[name].append(side(broker, messages, qos, path))
            found = stored(path) if name == "bridge" else written(path)
            report.digests[f"{part} {name}"] = digest_of(found)
    file_s = statistics.median(cost.wall_s for cost in costs["mosquitto_sub to a file"])
    for name, found_costs in costs.items():
        wall_s = statistics.median(cost.wall_s for cost in found_costs)
        cpu_s = statistics.median(cost.cpu_s for cost in found_costs)
        report.add(
            part,
            f"QoS {qos}, {name}",
            f"{count / wall_s:,.0f} messages/s",
            f"{file_s / wall_s:.2f} x the speed of the file; {cpu_s / count * 1e6:.1f} us CPU each",
            wall_s=[cost.wall_s for cost in found_costs],
            cpu_s=[cost.cpu_s for cost in found_costs],
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--only", default="B1,B2")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    for tool in ("mosquitto_sub", "mosquitto_pub"):
        if shutil.which(tool) is None:
            print(f"{tool} is not installed: Debian's package mosquitto-clients", file=sys.stderr)
            raise SystemExit(UNAVAILABLE)
    rows = SIZES[options.size]
    report = Report()
    print(f"{rows:,} messages of 200 B, seed {workloads.SEED}")
    with tempfile.TemporaryDirectory(prefix="topicdb-bridge-", dir=options.directory) as place:
        for part, qos in (("B1", 1), ("B2", 0)):
            if part in options.only.split(","):
                compare(report, part, qos, rows, options.rounds, Path(place))
    if len(set(report.digests.values())) > 1:  # both parts publish the same
        raise SystemExit("the sides have stored different messages")
    report.finish("what both sides have", options.json, rows=rows)


if __name__ == "__main__":
    main()

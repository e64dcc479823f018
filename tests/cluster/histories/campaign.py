"""One run: a cluster, clients, faults, and in the end the checks."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import topicdb
from cluster.histories.checks import Contents, Timestamps, faults_of
from cluster.histories.client import ASSIGNED, KEYS, SHARDS, Client, Sender, Shared
from cluster.histories.history import History, Operation
from cluster.histories.nemesis import Nemesis
from cluster.histories.network import Network
from cluster.histories.processes import FOUNDERS, Processes

CLIENTS = 6
EQUAL_S = 120.0  # how long sites may differ after the last fault
END_S = 250.0
BARRIER = "end/"
COMPARE_S = 250.0  # how long a replica may be too new to be compared


@dataclass(frozen=True)
class Plan:
    """What a run does.

    Attributes:
        seed: decides what clients and the nemesis choose, but not how threads take turns.
        operations: how many operations are done at least.
        faults: the kinds of faults; all that there are if it is empty.
        faults_max: how many faults there are at most; None: as many as come. There is at least one
            of each kind then.
        checker: the program that checks the history; None: only the checks in Python.
    """

    seed: int
    operations: int
    faults: Collection[str] = ()
    faults_max: int | None = None
    checker: Path | None = None


@dataclass
class Report:
    """What a run has found."""

    operations: list[Operation] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    checked: str = ""
    compared: int = 0
    broken: list[str] = field(default_factory=list)

    def lines(self, seed: int) -> Iterator[str]:
        """Yields what people want to know."""
        kinds = Counter(one.operation for one in self.operations)
        failed = Counter(
            str(one.result["failed"]) for one in self.operations if one.result and one.has_failed
        )
        unknown = sum(one.is_unknown for one in self.operations)
        done = sum(one.is_done for one in self.operations)
        yield (
            f"seed {seed}: {len(self.operations):,} operations in {self.seconds:.0f} s: "
            f"{done:,} done, {sum(failed.values()):,} refused, {unknown:,} of unknown outcome"
        )
        yield f"  operations: {_listed(kinds)}"
        yield f"  refused: {_listed(failed)}"
        yield f"  faults: {_listed(self.faults)}"
        yield f"  replicas that were compared: {self.compared}"
        yield from (f"  {line}" for line in self.checked.splitlines())
        yield from (f"  FAULT: {line}" for line in self.broken)
        yield f"  seed {seed}: {'FAILED' if self.broken else 'all is well'}"


def run(plan: Plan, directory: Path, network: Network) -> Report:
    """Runs it in a directory, with sites that are not there yet."""
    report = Report()
    history = History(directory / "history.jsonl")
    sites = Processes(directory, network)
    began = time.monotonic()
    try:
        nemesis = Nemesis(sites, history, plan.seed, directory / "faults.jsonl")
        if unknown := set(plan.faults) - nemesis.known.keys():
            known = ", ".join(nemesis.known)
            raise ValueError(f"--faults: there is no {' or '.join(unknown)} here, but {known}")
        report.faults = nemesis.done
        sites.start(*FOUNDERS)
        _operate(plan, nemesis, sites, history)
        stored, timestamps = _settled(sites)
        _read_all(sites, history, stored)
        sites.at_all(lambda database: _verify(database, report.broken))
        _compare(sites, report)
    finally:
        sites.close()
        history.close()
    report.seconds = time.monotonic() - began
    report.operations = history.operations
    report.broken += faults_of(report.operations, stored, timestamps)
    if plan.checker is not None:
        _check(plan.checker, history.path, report)
    return report


def _operate(plan: Plan, nemesis: Nemesis, sites: Processes, history: History) -> None:
    """Lets clients work while the nemesis does."""
    shared = Shared()
    urls = sites.urls
    connect = sites.network.connect
    clients: list[Client | Sender] = [
        Client(n, plan.seed, list(urls.values()), connect, shared, history) for n in range(CLIENTS)
    ]
    clients.append(Sender(CLIENTS, urls, connect, shared, history))
    kinds = len(plan.faults or nemesis.known)
    most = plan.faults_max
    least = kinds if most is None else min(most, kinds)
    for client in clients:
        client.start()
    try:
        while history.done < plan.operations or nemesis.done.total() < least:
            if any(not client.is_alive() for client in clients):
                break  # its error is raised below
            if most is not None and nemesis.done.total() >= most:
                history.await_more(10, 1.0)
            else:
                nemesis.step(plan.faults)
    finally:
        shared.ended.set()
        for client in clients:
            client.join(END_S)
    for client in clients:
        if client.failure is not None:
            raise client.failure
        if client.is_alive():
            raise RuntimeError(f"{client.name}: its last call has not ended in {END_S:g} s")


def _settled(sites: Processes) -> tuple[dict[str, Contents], dict[str, Timestamps]]:
    """Returns what each site has, once all have the same, or after a while what they have then."""
    sites.at_all(_write_to_all_shards)
    until = time.monotonic() + EQUAL_S
    while True:
        stored: dict[str, Contents] = {}
        timestamps: dict[str, Timestamps] = {}
        for name in sites.members:
            with sites.connect(name) as database:
                _write_to_all_shards(database)  # behind these it has all that came before
                stored[name], timestamps[name] = _contents(database)
        first, *others = stored.values()
        if all(one == first for one in others) or time.monotonic() > until:
            return stored, timestamps


def _write_to_all_shards(database: topicdb.Database) -> None:
    for shard in range(SHARDS):
        with database.transaction(shard=shard) as tx:
            tx.write(f"{BARRIER}{shard}", 0, b"")


def _contents(database: topicdb.Database) -> tuple[Contents, Timestamps]:
    found: dict[str, list[str]] = {}
    timestamps: dict[str, int] = {}
    for message in database.scan("#", order="time"):
        value = message.value.decode()
        if not message.topic.startswith(BARRIER):
            found.setdefault(message.topic, []).append(value)
        if message.topic.startswith(ASSIGNED):
            timestamps[value] = message.timestamp
    return found, timestamps


def _read_all(sites: Processes, history: History, stored: dict[str, Contents]) -> None:
    """Adds to the history what is stored in the end, as answers to reads."""
    reader = Client(
        CLIENTS + 1, 0, list(sites.urls.values()), sites.network.connect, Shared(), history
    )
    with sites.network.connect(sites.urls.values()) as database:
        for key in KEYS:
            reader.get(database, key)
        for topic in next(iter(stored.values())):
            if topic.startswith("log/"):
                reader.read(database, topic)


def _verify(database: topicdb.Database, broken: list[str]) -> None:
    database.flush()  # it checks files, and a replica that is new has none
    found = database.verify(deep=True)
    if not found.ok:
        broken.append(f"{database.path}: verify finds damage: {found}")


def _compare(sites: Processes, report: Report) -> None:
    """Has the sites compare their replicas, until each was compared."""
    until = time.monotonic() + COMPARE_S
    while True:
        with sites.connect(sites.members[0]) as database:
            assert database.cluster is not None
            found = database.cluster.verify(timeout="60s").replicas
        wrong = [one for one in found if one.outcome != "same"]
        missing = set(sites.members) - {one.site for one in found}
        is_clear = all(one.outcome == "not compared" for one in wrong) and not missing
        if not wrong or not is_clear or time.monotonic() > until:
            break
    report.compared = len(found) - len(wrong)
    report.broken += [f"a replica is not as the others: {one}" for one in wrong]
    report.broken += [f"site {one} was not compared" for one in sorted(missing)]
    report.broken += [f"{path}: a site has found damage" for path in sites.quarantined()]


def _check(checker: Path, history: Path, report: Report) -> None:
    """Has the checker look for an order that explains all answers."""
    found = subprocess.run([checker, history], check=False, capture_output=True, text=True)
    report.checked = found.stdout + found.stderr
    if found.returncode != 0:
        report.broken.append(f"the checker ended with {found.returncode}")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"

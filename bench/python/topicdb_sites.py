"""Three sites of TopicDB, `topicdb serve --site`, as a side of a comparison of clusters."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from cluster_side import NAMES, Client, ClusterSide, free_ports, wait_until
from workloads import Row
from workloads.rows import table_rows

import topicdb
from topicdb.replicas import ClusterStatus
from topicdb.types import Receipt


class SitesClient(Client):
    """`topicdb.connect` to all sites."""

    def __init__(self, urls: list[str]) -> None:
        self._database = topicdb.connect(urls)

    def append_batches(self, batches: Sequence[list[Row]]) -> None:
        for batch in batches:
            self._database.append(batch)

    def append_each(self, batch: list[Row], window: int) -> None:
        waiting: deque[Future[Receipt]] = deque()
        for row in batch:
            if len(waiting) == window:
                waiting.popleft().result()
            waiting.append(self._database.append_async([row]))
        for future in waiting:
            future.result()

    def append_once(self, row: Row, id: str) -> bool:
        try:
            self._database.append([row], id=id)
        except topicdb.UnavailableError:
            return False
        return True

    def rows(self, count: int) -> list[Row]:
        scan = self._database.scan("#", at_least="acknowledged")
        return table_rows(scan.to_arrow())

    def close(self) -> None:
        self._database.close()


class TopicDbSites(ClusterSide):
    name = "TopicDB"
    is_smallest_in_batches = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        ports = free_ports(2 * len(NAMES))
        self._peers = dict(zip(NAMES, ports, strict=False))
        self._listen = dict(zip(NAMES, ports[len(NAMES) :], strict=True))
        self.start(*NAMES)

    def start(self, *names: str) -> None:
        sites = ",".join(f"{name}=127.0.0.1:{port}" for name, port in self._peers.items())
        for name in names:
            command = [sys.executable, "-m", "topicdb.cli", "serve", str(self.place(name))]
            command += ["--site", name, "--sites", sites, "--shards", "1"]
            with (self.directory / f"{name}.log").open("a") as log:
                self.processes[name] = subprocess.Popen(
                    [*command, "--listen", f"127.0.0.1:{self._listen[name]}"],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        for name in names:
            out = self.processes[name].stdout
            if out is None or "grpc" not in out.readline():
                raise SystemExit(f"the site {name} has not begun")
        self.leader()

    def leader(self) -> str:
        found: list[str] = []

        def leads() -> bool:
            for name in self.processes:
                one = self._status(name).leader_of(0)
                found[:] = [] if one is None else [one.name]
                if found and found[0] in self.processes:
                    return True
            return False

        wait_until(leads, "a site that leads")
        return found[0]

    def settle(self) -> None:
        with topicdb.connect(self._url(self.leader())) as database:
            database.flush()  # seals: the rest of what the appends have left
            assert database.cluster is not None
            (shard,) = database.cluster.status().shards
        wait_until(
            lambda: all(
                self._status(name).shards[0].applied >= shard.last for name in self.processes
            ),
            "sites that have everything",
        )

    def client(self, first: str) -> SitesClient:
        names = sorted(NAMES, key=lambda name: name != first)
        return SitesClient([self._url(name) for name in names])

    def prepare(self, rows: list[Row]) -> list[Row]:
        return rows

    def log(self, name: str) -> Path:
        return self.place(name) / "site" / "log"

    def _url(self, name: str) -> str:
        return f"grpc://127.0.0.1:{self._listen[name]}"

    def _status(self, name: str) -> ClusterStatus:
        with topicdb.connect(self._url(name)) as database:
            assert database.cluster is not None
            return database.cluster.status()

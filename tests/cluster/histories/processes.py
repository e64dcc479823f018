"""The sites of a run, ``topicdb serve --site``, in processes that can be killed and stopped."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import topicdb
from cluster.histories.client import SHARDS
from cluster.histories.network import Network

NAMES = ("a", "b", "c")
START_S = 250.0
ELECTION = "1s"


class Processes:
    """Three sites. The thread of the run uses it, and closes it."""

    def __init__(self, directory: Path, network: Network) -> None:
        self._directory = directory
        self.network = network
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, *names: str) -> None:
        """Starts sites, and waits until they serve. A majority must be up then."""
        with ThreadPoolExecutor(len(names)) as threads:
            started = threads.map(self._start, names)
            self._running.update(zip(names, started, strict=True))

    def _start(self, name: str) -> subprocess.Popen[str]:
        command = [*self.network.command(name), sys.executable, "-m", "topicdb.cli", "serve"]
        command += [str(self._directory / name), "--site", name, *self.network.arguments(name)]
        command += ["--election-timeout", ELECTION, "--shards", str(SHARDS)]
        log = self._directory / f"{name}.log"
        with log.open("a") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        is_heard = bool(select.select([process.stdout], [], [], START_S)[0])
        if not is_heard or not process.stdout.readline():
            process.kill()
            process.communicate()
            raise RuntimeError(f"site {name} does not serve: {log.read_text()[-2000:]}")
        return process

    def kill(self, *names: str) -> None:
        """Kills sites with SIGKILL."""
        for name in names:
            self._running[name].kill()
        for name in names:
            self._running.pop(name).communicate()

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Stops the process of a site by SIGSTOP for the time of the block."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    def leader(self, shard: int, without: str | None = None) -> str | None:
        """Returns the site that leads a shard, or None if none is known to.

        ``without``: a site that cannot be asked at this time, and that must not be the answer.
        """
        for name in self._running:
            if name == without:
                continue
            try:
                with self.connect(name) as database:
                    assert database.cluster is not None
                    found = database.cluster.status().leader_of(shard)
            except topicdb.UnavailableError:
                continue
            if found is not None and found.name in self._running and found.name != without:
                return found.name
        return None

    def connect(self, name: str) -> topicdb.Database:
        """Opens the database at a site."""
        return self.network.connect([self.network.url(name)])

    @property
    def urls(self) -> dict[str, str]:
        """Where clients find each site."""
        return {name: self.network.url(name) for name in NAMES}

    def at_all(self, call: Callable[[topicdb.Database], object]) -> None:
        """Makes a call at each site."""
        for name in NAMES:
            with self.connect(name) as database:
                call(database)

    def close(self) -> None:
        """Kills all that run."""
        self.kill(*self._running)

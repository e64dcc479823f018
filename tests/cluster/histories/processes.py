"""The sites of a run, ``topicdb serve --site``, in processes that can be killed and stopped.

Sites join and leave, and the clock of each may be wrong.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import topicdb
from cluster.histories.client import SHARDS
from cluster.histories.network import Network
from crash.recording import build_shim

FOUNDERS = ("a", "b", "c")
NAMES = (*FOUNDERS, "d")  # d may join
CLOCK = Path(__file__).parents[2] / "python/lifecycle/shifted_clock.c"
START_S = 250.0
ELECTION = "1s"


class Processes:
    """Three or four sites. The thread of the run uses it, and closes it.

    While another thread waits for a site to join or leave, it may kill, stop and start others.
    """

    def __init__(self, directory: Path, network: Network) -> None:
        self._directory = directory
        self.network = network
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._members = set(FOUNDERS)
        self._joined: set[str] = set()
        self._damaged: list[Path] = []
        self._clock = build_shim(CLOCK)
        for name in NAMES:
            self._clock_of(name).write_bytes(struct.pack("=qq", 0, 0))

    @property
    def members(self) -> list[str]:
        """The names of the sites that the cluster has, in their order."""
        return sorted(self._members)

    def start(self, *names: str) -> None:
        """Starts sites, and waits until they serve. A majority must be up then."""
        with ThreadPoolExecutor(len(names)) as threads:
            started = threads.map(self._start, names)
            self._running.update(zip(names, started, strict=True))

    def _start(self, name: str) -> subprocess.Popen[str]:
        command = [*self.network.command(name), sys.executable, "-m", "topicdb.cli", "serve"]
        command += [str(self._directory / name), "--site", name, "--election-timeout", ELECTION]
        if name in self._joined:
            command += self.network.arguments(name, joins=NAMES)
        else:
            command += [*self.network.arguments(name, founds=FOUNDERS), "--shards", str(SHARDS)]
        log = self._directory / f"{name}.log"
        clock = {"LD_PRELOAD": str(self._clock), "SHIFTED_CLOCK": str(self._clock_of(name))}
        with log.open("a") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **clock},
            )
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

    def join(self, name: str) -> None:
        """Has a site join with an empty directory, and waits until it serves."""
        self._joined.add(name)
        self.start(name)
        self._members.add(name)

    def remove(self, name: str) -> None:
        """Removes the directory of a site that has left, or was forgotten.

        A site that has left must end by itself.
        """
        if name in self._running:
            process = self._running.pop(name)
            try:
                process.communicate(timeout=START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise RuntimeError(f"site {name} has left {START_S:g} s ago, and serves") from None
        self._damaged += self._quarantined(name)
        self._members.remove(name)
        shutil.rmtree(self._directory / name)

    def quarantined(self) -> list[Path]:
        """Returns what any site has put aside as damaged, though nothing here damages files."""
        return [
            *self._damaged,
            *(path for name in self.members for path in self._quarantined(name)),
        ]

    def _quarantined(self, name: str) -> list[Path]:
        return list((self._directory / name / "quarantine").glob("*"))

    def set_clock(self, name: str, ahead_s: int) -> None:
        """Has the clock of a site be wrong by this much from now on, also if it is started anew."""
        with self._clock_of(name).open("r+b") as file:
            file.write(struct.pack("=q", ahead_s * 1_000_000))

    def _clock_of(self, name: str) -> Path:
        return self._directory / f"{name}.clock"

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
        for name in list(self._running):
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

    def connect_to_others(self, than: str) -> topicdb.Database:
        """Opens the database at any member but this one."""
        others = [one for one in self.members if one != than]
        return self.network.connect([self.network.url(one) for one in others])

    @property
    def urls(self) -> dict[str, str]:
        """Where clients find each site that there may be."""
        return {name: self.network.url(name) for name in NAMES}

    def at_all(self, call: Callable[[topicdb.Database], object]) -> None:
        """Makes a call at each member."""
        for name in self.members:
            with self.connect(name) as database:
                call(database)

    def close(self) -> None:
        """Kills all that run."""
        self.kill(*self._running)

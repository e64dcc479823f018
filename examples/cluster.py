"""Three sites on one machine, a load, and kill -9 of those that lead, while you watch.

    pip install "topicdb[serve]"
    python examples/cluster.py                 # or in a clone: make cluster-demo
    python examples/cluster.py --kills 10 --seconds 5

Each site is a process of its own, `topicdb serve --site`, with its own directory. A client appends
batches one after the other, and knows the addresses of all three. Again and again the site that
leads a shard is killed, and started anew some seconds later. In the end each site must have every
message that was acknowledged, once.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

import topicdb

NAMES = ("a", "b", "c")
SHARDS = 4
BATCH = 100


@dataclass
class Site:
    """A site in a process of its own, which can be killed."""

    name: str
    directory: Path
    listen: str
    peers: str
    process: subprocess.Popen[str] | None = None

    def start(self, sites: str) -> None:
        """Starts the process; it serves once a majority of the sites is up."""
        command = [sys.executable, "-m", "topicdb.cli", "serve", str(self.directory)]
        command += ["--site", self.name, "--sites", sites, "--listen", self.listen]
        self.process = subprocess.Popen(
            [*command, "--shards", str(SHARDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self) -> None:
        """Waits until it serves."""
        assert self.process is not None and self.process.stdout is not None
        if not self.process.stdout.readline():
            raise SystemExit(f"site {self.name} did not start")

    def kill(self) -> None:
        """Kills the process with SIGKILL: it can finish nothing."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None

    @property
    def url(self) -> str:
        return f"grpc://{self.listen}"


@dataclass
class Load:
    """A client that appends batches, each with an id, until it is told to end."""

    urls: list[str]
    acknowledged: list[tuple[float, int]] = field(default_factory=list)  # when, first number
    ended: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def run(self) -> None:
        """Appends. A batch whose outcome is not known is sent again, with the same id."""
        try:
            with topicdb.connect(self.urls) as database:
                first = 0
                while not self.ended.is_set():
                    rows = [
                        (f"site/{n % 50}/pump", n, b"%d" % n) for n in range(first, first + BATCH)
                    ]
                    try:
                        database.append(rows, id=f"batch-{first}")
                    except topicdb.UnavailableError:
                        continue
                    self.acknowledged.append((time.monotonic(), first))
                    first += BATCH
        except BaseException as error:
            self.failure = error

    def first_after(self, moment: float) -> float | None:
        """Returns when the first batch was acknowledged after a moment, or None."""
        return next((at for at, _ in came_after(self.acknowledged, moment)), None)


def came_after(found: list[tuple[float, int]], moment: float) -> Iterator[tuple[float, int]]:
    """Yields what came after a moment, in its order."""
    count = 0
    for at, _ in reversed(found):
        if at <= moment:
            break
        count += 1
    yield from found[len(found) - count :]


@contextmanager
def cluster(directory: Path) -> Iterator[dict[str, Site]]:
    """Starts three sites, and kills them at the end."""
    sites = {}
    for name in NAMES:
        listen, peers = (f"127.0.0.1:{port}" for port in free_ports(2))
        sites[name] = Site(name, directory / name, listen, peers)
    try:
        for site in sites.values():
            site.start(addresses(sites))
        for site in sites.values():
            site.wait()
        yield sites
    finally:
        for site in sites.values():
            site.kill()


def addresses(sites: dict[str, Site]) -> str:
    return ",".join(f"{site.name}={site.peers}" for site in sites.values())


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def leaders(sites: dict[str, Site]) -> list[str]:
    """Returns which sites lead the shards, as those see it that are up."""
    for site in sites.values():
        if site.process is None:
            continue
        try:
            with topicdb.connect(site.url) as database:
                assert database.cluster is not None
                status = database.cluster.status()
        except topicdb.UnavailableError:
            continue
        found = [status.leader_of(shard) for shard in range(SHARDS)]
        if all(one is not None and sites[one.name].process is not None for one in found):
            return [one.name for one in found if one is not None]
    return []


class Screen:
    """A table that is drawn again, or lines where there is no terminal."""

    def __init__(self, console: Console, sites: dict[str, Site], load: Load) -> None:
        self.console = console
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._sites = sites
        self._load = load
        self._led: list[str] = []

    def show(self, event: str) -> None:
        """Shows how it stands."""
        self._led = leaders(self._sites) or self._led
        now = time.monotonic()
        recent = sum(1 for _ in came_after(self._load.acknowledged, now - 1.0)) * BATCH
        stored = len(self._load.acknowledged) * BATCH
        if self.live is None:
            states = " ".join(
                f"{one.name}:{'up' if one.process else 'killed'}" for one in self._sites.values()
            )
            self.console.print(f"{states}  {stored:,} stored, {recent:,}/s  {event}")
            return
        table = Table(title=event, title_justify="left")
        for column in ("site", "state", "leads shards", "acknowledged", "in the last second"):
            table.add_column(column)
        for number, site in enumerate(self._sites.values()):
            led = ", ".join(str(n) for n, name in enumerate(self._led) if name == site.name)
            state = "[green]up" if site.process is not None else "[red]killed"
            totals = (f"{stored:,}", f"{recent:,}") if number == 0 else ("", "")
            table.add_row(site.name, state, led, *totals)
        self.live.update(table, refresh=True)

    def watch(self, seconds: float, event: str) -> None:
        """Shows it for some time, and ends the program if the load has failed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.show(event)
            if self._load.failure is not None:
                raise SystemExit(f"the load failed: {self._load.failure!r}")
            time.sleep(0.25 if self.live is not None else 1.0)


def check(sites: dict[str, Site], load: Load, console: Console) -> bool:
    """Returns whether each site has every acknowledged message once; says what it has found."""
    expected = {n for _, first in load.acknowledged for n in range(first, first + BATCH)}
    is_good = True
    for site in sites.values():
        with topicdb.connect(site.url) as database:
            # Behind these, which are in all shards, the site has all that came before them.
            database.append([(f"end/{n}", None, b"") for n in range(16 * SHARDS)])
            counts = Counter(
                int(value)
                for batch in database.scan("site/#", order="none").batches()
                for value in batch.values
            )
        lost = len(expected - counts.keys())
        twice = sum(1 for count in counts.values() if count > 1)
        console.print(f"site {site.name}: {len(counts):,} messages, {lost} lost, {twice} twice")
        is_good = is_good and lost == 0 and twice == 0
    return is_good


def run(directory: Path, kills: int, seconds: float) -> int:
    console = Console()
    with cluster(directory) as sites:
        load = Load([site.url for site in sites.values()])
        thread = threading.Thread(target=load.run)
        screen = Screen(console, sites, load)
        thread.start()
        gaps: list[float] = []
        try:
            with screen.live or nullcontext():
                screen.watch(seconds, "three sites, one client that appends")
                for number in range(kills):
                    while not (led := leaders(sites)):
                        time.sleep(0.1)
                    victim = sites[led[number % SHARDS]]
                    victim.kill()
                    killed = time.monotonic()
                    while (first := load.first_after(killed)) is None:
                        screen.watch(0.05, f"kill -9 of {victim.name}, which led")
                    gaps.append(first - killed)
                    screen.watch(seconds, f"kill -9 of {victim.name}: {gaps[-1]:.2f} s to the next")
                    victim.start(addresses(sites))
                    victim.wait()
                    screen.watch(seconds, f"{victim.name} is back")
        finally:
            load.ended.set()
            thread.join()
        took = load.acknowledged[-1][0] - load.acknowledged[0][0]
        stored = len(load.acknowledged) * BATCH
        is_good = check(sites, load, console)
        console.print(
            f"{stored:,} messages acknowledged in {took:.1f} s, in batches of {BATCH}; leaders "
            f"killed: {len(gaps)}; kill to next acknowledgement: median "
            f"{statistics.median(gaps):.2f} s, longest {max(gaps):.2f} s"
        )
        console.print("nothing was lost, nothing is there twice" if is_good else "THIS IS A FAULT")
        return 0 if is_good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=5, help="how often a leader is killed")
    parser.add_argument("--seconds", type=float, default=3.0, help="between two events")
    options = parser.parse_args()
    if options.kills < 1:
        parser.error("--kills: at least 1")
    with tempfile.TemporaryDirectory(prefix="topicdb-cluster-") as directory:
        return run(Path(directory), options.kills, options.seconds)


if __name__ == "__main__":
    sys.exit(main())

"""What fails while clients run: processes, links between sites, clocks; and sites come and go."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.histories.client import SHARDS
from cluster.histories.history import History
from cluster.histories.membership import Membership
from cluster.histories.network import CLIENTS, Broken
from cluster.histories.processes import NAMES, Processes

PATIENCE_S = 8.0  # how long a fault lasts at most, unless another site has to lead first
LED_S = 20.0
DELAY_S, JITTER_S, LOST = 0.2, 0.1, 0.05
SHIFT_S = 3600  # how wrong a clock is
POLL_S = 0.1
Fault = Callable[[], str]
"""Does a fault, and returns the sites that it has hit."""


class Nemesis:
    """Does one fault after the other, each for some operations. The thread of the run uses it."""

    def __init__(self, sites: Processes, history: History, seed: int, log: Path) -> None:
        """``log``: gets a JSON object for each fault, with times as the history has them."""
        self._sites = sites
        self._history = history
        self._random = random.Random(seed)
        self._shard = 0
        self.done: Counter[str] = Counter()
        self._log = log
        self._turns: list[str] = []
        self.known: dict[str, Fault] = {
            "kill-leader": lambda: self._kill(self._leader()),
            "kill-any": lambda: self._kill(self._any()),
            "kill-all": lambda: self._kill(*self._sites.members),
            "stop-leader": lambda: self._stop(self._leader()),
            "stop-any": lambda: self._stop(self._any()),
        }
        meanwhile: dict[str, Callable[[str], object]] = {"kill": self._kill, "stop": self._pause}
        if sites.network.has_links:
            meanwhile["cut"] = lambda name: self._cut(name, "both", with_clients=True)
        membership = Membership(sites, history, self._random, meanwhile)
        self.known |= {
            "join-site": membership.join,
            "leave-site": membership.leave,
            "forget-site": membership.forget,
            "step-down": lambda: membership.step_down(self._leader()),
            "balance": membership.balance,
            "shift-clock": lambda: self._shift_clock(membership),
        }
        if sites.network.has_links:
            self.known |= {
                "cut-leader": lambda: self._cut(self._leader(), "both"),
                "cut-any": lambda: self._cut(self._any(), "both"),
                "cut-with-clients": lambda: self._cut(self._leader(), "both", with_clients=True),
                "cut-from-leader": lambda: self._cut(self._leader(), "from"),
                "cut-to-leader": lambda: self._cut(self._leader(), "to"),
                "cut-one-link": self._cut_one_link,
                "delay-leader": lambda: self._slow(self._leader(), [DELAY_S, JITTER_S, 0.0]),
                "delay-all": lambda: self._slow(None, [DELAY_S, JITTER_S, 0.0]),
                "loss-all": lambda: self._slow(None, [0.0, 0.0, LOST]),
                "flap-leader": lambda: self._flap(self._leader()),
            }

    def step(self, only: Collection[str] = ()) -> str:
        """Lets some operations be done in peace, then does a fault, and returns its name.

        Each kind comes once before any comes again. ``only``: the kinds that may come; all if it
        is empty.
        """
        if not self._turns:
            self._turns = [one for one in self.known if not only or one in only]
            self._random.shuffle(self._turns)
        name = self._turns.pop()
        self._shard = self._random.randrange(SHARDS)
        self._operate(20, 60)
        begin = time.monotonic_ns()
        self._note(name, self.known[name](), begin)
        self.done[name] += 1
        return name

    def _note(self, name: str, sites: str, begin: int) -> None:
        noted = {"fault": name, "sites": sites, "shard": self._shard}
        times = {"begin_ns": begin, "end_ns": time.monotonic_ns()}
        with self._log.open("a") as log:
            log.write(json.dumps({**noted, **times}) + "\n")

    def _operate(self, least: int, most: int) -> None:
        self._history.await_more(self._random.randint(least, most), PATIENCE_S)

    def _any(self) -> str:
        return self._random.choice(self._sites.members)

    def _leader(self) -> str:
        return self._await_leader(None)

    def _await_leader(self, without: str | None) -> str:
        """Waits until a site leads the shard of this turn, and returns its name."""
        until = time.monotonic() + 250
        while (found := self._sites.leader(self._shard, without)) is None:
            if time.monotonic() > until:
                raise RuntimeError(f"nobody leads shard {self._shard}, though a majority is up")
            time.sleep(POLL_S)
        return found

    def _kill(self, *names: str) -> str:
        self._sites.kill(*names)
        if len(names) == 1:
            self._operate(5, 40)
        self._sites.start(*names)
        return " ".join(names)

    def _stop(self, name: str) -> str:
        with self._sites.stopped(name):
            self._await_leader(name)
            self._operate(5, 40)
        return name

    def _pause(self, name: str) -> None:
        """Stops a site, whether or not another one can lead then."""
        with self._sites.stopped(name):
            self._operate(5, 40)

    def _shift_clock(self, membership: Membership) -> str:
        """Has the clock of one site be wrong, and of no other, until the next fault of this kind.

        Then a site leads whose clock is right, or it led before.
        """
        name = self._random.choice([self._leader(), self._any()])
        shift = self._random.choice([-SHIFT_S, SHIFT_S])
        for one in NAMES:
            self._sites.set_clock(one, shift if one == name else 0)
        self._operate(20, 60)
        membership.step_down(name)
        return f"{name} {shift:+d} s"

    @contextmanager
    def _broken(self, broken: Broken) -> Iterator[None]:
        self._sites.network.set_links(broken)
        try:
            yield
        finally:
            self._sites.network.set_links([])

    def _cut(self, name: str, way: str, *, with_clients: bool = False) -> str:
        """Cuts a site off from the others: what comes ``from`` it, what goes ``to`` it, or both."""
        others = [one for one in (*NAMES, CLIENTS) if one != name]
        if not with_clients:
            others.remove(CLIENTS)
        with self._broken([*_cuts(name, others, way)]):
            if way == "both" and not with_clients:
                self._await_leader(name)
            self._operate(5, 40)
        return name

    def _cut_one_link(self) -> str:
        """Cuts the link between two sites, which both still hear the others."""
        name, other = self._random.sample(self._sites.members, 2)
        with self._broken([*_cuts(name, [other], "both")]):
            self._operate(5, 40)
        return f"{name} {other}"

    def _slow(self, name: str | None, how: list[float]) -> str:
        """Delays or loses packets between sites: those of one, or of all."""
        links = [(one, other) for one in NAMES for other in NAMES if one != other]
        with self._broken([[*link, *how] for link in links if name is None or name in link]):
            self._operate(20, 60)
        return name or " ".join(NAMES)

    def _flap(self, name: str) -> str:
        others = [one for one in NAMES if one != name]
        for _ in range(self._random.randint(4, 8)):
            with self._broken([*_cuts(name, others, "both")]):
                self._history.await_more(5, self._random.uniform(0.2, 1.2))
            self._history.await_more(5, self._random.uniform(0.2, 1.2))
        return name


def _cuts(name: str, others: Iterable[str], way: str) -> Iterator[list[object]]:
    for other in others:
        if way in ("from", "both"):
            yield [name, other, "cut"]
        if way in ("to", "both"):
            yield [other, name, "cut"]

"""Sites that come and go while clients run, and shards that are handed over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import topicdb
from cluster.histories.history import History
from cluster.histories.processes import FOUNDERS, NAMES, Processes
from topicdb.replicas import Cluster

CHANGE_S = 250.0  # how long a change may take at most, with all that fails meanwhile
TRY_S = "30s"
POLL_S = 0.1
PATIENCE_S = 8.0
LEAST = len(FOUNDERS)


class Membership:
    """Changes the sites of a cluster. The thread of the run uses it.

    Something else may fail while a site joins or leaves. After each fault the cluster has at least
    three sites, so that it goes on without any one of them.
    """

    def __init__(
        self,
        sites: Processes,
        history: History,
        choices: random.Random,
        meanwhile: Mapping[str, Callable[[str], object]],
    ) -> None:
        """``meanwhile``: what else may happen to a site, by name. It must not wait for a leader."""
        self._sites = sites
        self._history = history
        self._random = choices
        self._meanwhile = meanwhile

    def join(self) -> str:
        """Has a site join that is not there; if all are there, one of them leaves before."""
        told = []
        absent = [one for one in NAMES if one not in self._sites.members]
        if not absent:
            absent = [self._random.choice(self._sites.members)]
            told.append(self._leave(absent[0]))
        told.append(self._join(self._random.choice(absent)))
        return ", ".join(told)

    def leave(self) -> str:
        """Has a site leave; if too few are left, it joins again later, with an empty directory."""
        name = self._random.choice(self._sites.members)
        return f"{self._leave(name)}{self._join_if_few(name)}"

    def forget(self) -> str:
        """Has the others forget a site that was killed, whose directory is lost.

        If too few are left, it joins again later.
        """
        name = self._random.choice(self._sites.members)
        self._sites.kill(name)
        self._operate(5, 40)
        self._change(name, lambda cluster: cluster.forget(name, timeout=TRY_S))
        self._sites.remove(name)
        return f"{name} was forgotten{self._join_if_few(name)}"

    def step_down(self, name: str) -> str:
        """Has a site hand over all that it leads."""
        self._change(name, lambda cluster: cluster.step_down(name))
        self._operate(5, 40)
        return name

    def balance(self) -> str:
        """Has sites hand over shards until each leads about as many."""
        self._change("", Cluster.balance)
        self._operate(5, 40)
        return " ".join(self._sites.members)

    def _operate(self, least: int, most: int) -> None:
        self._history.await_more(self._random.randint(least, most), PATIENCE_S)

    def _join_if_few(self, name: str) -> str:
        if len(self._sites.members) >= LEAST:
            return ""
        self._operate(5, 40)
        return f", {self._join(name)}"

    def _join(self, name: str) -> str:
        told = self._disturbed(name, lambda: self._sites.join(name))
        self._await_members()
        return f"{name} joined{told}"

    def _leave(self, name: str) -> str:
        leave = lambda cluster: cluster.leave(name, timeout=TRY_S)  # noqa: E731
        told = self._disturbed(name, lambda: self._change(name, leave))
        self._sites.remove(name)
        return f"{name} left{told}"

    def _disturbed(self, name: str, change: Callable[[], None]) -> str:
        """Makes a change to a site while something happens to another one, and tells what."""
        how = self._random.choice(["", *self._meanwhile])
        victim = self._random.choice([one for one in self._sites.members if one != name])
        with ThreadPoolExecutor(1) as thread:
            changed = thread.submit(change)
            if how:
                self._operate(0, 30)
                self._meanwhile[how](victim)
            changed.result()
        return f" ({how} {victim})" if how else ""

    def _change(self, name: str, change: Callable[[Cluster], object]) -> None:
        """Asks the sites but the one of this name for a change, until it is made."""
        until = time.monotonic() + CHANGE_S
        was_tried = False
        while True:
            try:
                with self._sites.connect_to_others(name) as database:
                    assert database.cluster is not None
                    change(database.cluster)
                    return
            except topicdb.ClusterError as error:
                if was_tried and "no site" in str(error):
                    return  # it was made, and the answer was lost
                if time.monotonic() > until:
                    raise
            except topicdb.UnavailableError:
                was_tried = True
                if time.monotonic() > until:
                    raise
            time.sleep(POLL_S)

    def _await_members(self) -> None:
        """Waits until every site knows that all of them are members."""
        until = time.monotonic() + CHANGE_S
        expected = dict.fromkeys(self._sites.members, "member")
        for name in self._sites.members:
            while (found := self._states(name)) != expected:
                if time.monotonic() > until:
                    raise RuntimeError(f"site {name} says {found}, and not {expected}")
                time.sleep(POLL_S)

    def _states(self, name: str) -> dict[str, str]:
        try:
            with self._sites.connect(name) as database:
                assert database.cluster is not None
                return {one.name: str(one.state) for one in database.cluster.status().sites}
        except topicdb.UnavailableError:
            return {}

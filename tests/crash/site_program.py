"""A site of a cluster as a program for the simulator, and its checks: it is the only voter.

What the site has acknowledged is in its log, and in RocksDB, which keeps no log of its own. After a
crash it must have all of it, lead in a later term than before, and take appends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import topicdb
from crash.programs import Checker, Crash, Mark

STEPS = 60
SHARDS = 2
TOPICS = 7
NEVER = 1 << 60


def value(number: int) -> bytes:
    """Makes a value, which tells its number and is hard to compress."""
    chance = random.Random(number)
    return b"%d." % number + chance.randbytes(chance.randrange(400))


@contextmanager
def opened(directory: Path) -> Iterator[tuple[topicdb.Site, topicdb.Database]]:
    """Starts the site, and opens its database."""
    alone = {"a": "127.0.0.1:0"}
    with (
        topicdb.Site(directory / "db", name="a", sites=alone, election_timeout="200ms") as site,
        site.open(shards=SHARDS, maintenance_interval=None, write_buffer_bytes=64 << 10) as db,
    ):
        yield site, db


def _found(directory: Path) -> None:
    """Opens a database that a crash may have left half founded, as its caller would: again."""
    for _ in range(3):
        try:
            with opened(directory):
                return
        except topicdb.UnknownOutcomeError:  # whether it was founded is not known yet
            pass


def append(db: topicdb.Database, numbers: range) -> None:
    db.append([(f"t/{n % TOPICS}", n, value(n)) for n in numbers])


def terms(site: topicdb.Site) -> list[int]:
    """Returns the terms of the shards, all of which the site leads."""
    shards = site.status().shards
    assert all(one.leader == "a" for one in shards), shards
    return [one.term for one in shards]


@dataclass(frozen=True)
class SiteProgram:
    """Appends to two shards; now and then it seals, rotates, or ends and starts again."""

    ignore: Sequence[str] = ("LOG", "LOG.old.*")
    clock_ahead_s: int = 0

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        chance = random.Random(seed)
        number = 0
        for life in range(3):
            with opened(root) as (site, db):
                mark({"open": life})
                for step in range(STEPS // 3):
                    numbers = range(number, number + chance.randint(1, 9))
                    mark({"begin": [numbers.start, numbers.stop]})
                    append(db, numbers)
                    mark({"end": True, "terms": terms(site)})
                    number = numbers.stop
                    if step == 9:
                        db.flush()
                    if step == 14:
                        db.rotate()
            mark({"closed": life})

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        return SiteChecker(marks)


@dataclass(slots=True)
class _Append:
    numbers: range
    begun: int
    ended: int = NEVER


@dataclass(slots=True)
class _Past:
    """What the marks of a trace tell; numbers of marks say when."""

    opened: list[int] = field(default_factory=list)
    appends: list[_Append] = field(default_factory=list)
    terms: list[tuple[int, list[int]]] = field(default_factory=list)


class SiteChecker:
    """Checks states of one trace."""

    def __init__(self, marks: list[dict[str, Any]]) -> None:
        self._past = _Past()
        for at, mark in enumerate(marks):
            match mark:
                case {"open": _}:
                    self._past.opened.append(at)
                case {"begin": [first, end]}:
                    self._past.appends.append(_Append(range(first, end), at))
                case {"end": True, "terms": known}:
                    self._past.appends[-1].ended = at
                    self._past.terms.append((at, known))

    def check(self, crash: Crash) -> None:
        """Raises AssertionError, or an error of TopicDB, if a promise is broken."""
        if not any(at < crash.marks for at in self._past.opened):
            _found(crash.directory)
        last = self._past.appends[-1].numbers.stop
        after = range(last, last + TOPICS)
        with opened(crash.directory) as (site, db):
            append(db, after)  # the site leads, so it has applied its whole log
            found = self._numbers_in(db)
            assert found.issuperset(after), "what was appended after the crash is lost"
            self._check_appends(found - set(after), crash)
            self._check_terms(terms(site), crash)
        if crash.chance.random() < 0.8:
            return  # only a sample is opened again
        with opened(crash.directory) as (_, db):
            append(db, range(after.stop, after.stop + TOPICS))
            there = {n for n in self._numbers_in(db) if n < after.stop}
            assert there == found, "it is not the same when it is opened again"

    def _numbers_in(self, db: topicdb.Database) -> set[int]:
        found: set[int] = set()
        for message in db.scan("#"):
            assert message.value == value(message.timestamp), f"{message.timestamp} is damaged"
            assert message.timestamp not in found, f"{message.timestamp} is there twice"
            found.add(message.timestamp)
        return found

    def _check_appends(self, found: set[int], crash: Crash) -> None:
        for one in self._past.appends:
            if one.begun >= crash.marks:
                assert found.isdisjoint(one.numbers), f"{one.numbers} were not appended yet"
            elif one.ended < crash.marks:
                assert found.issuperset(one.numbers), f"{one.numbers} are lost"
            for topic in range(TOPICS):
                part = {n for n in one.numbers if n % TOPICS == topic}
                assert part & found in (set(), part), f"{one.numbers} are there in part"

    def _check_terms(self, now: list[int], crash: Crash) -> None:
        """Checks that the site has not voted a second time in a term."""
        for at, before in self._past.terms:
            if at < crash.marks:
                assert all(a > b for a, b in zip(now, before, strict=True)), (now, before)


alone = SiteProgram()

"""Drops a database, as a program for the simulator, and checks it; docs/concepts/databases.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import topicdb
from crash.programs import Checker, Crash, Mark
from topicdb import jobs

DATABASES = 3
ROWS = 40


def rows_of(number: int) -> list[tuple[str, int, bytes]]:
    """Makes the messages of one of the databases that have the path one after the other."""
    return [(f"t/{i}", i, b"%d" % number) for i in range(ROWS)]


@dataclass(frozen=True)
class DropProgram:
    """Makes a database, drops it, and makes another one at the same path."""

    ignore: Sequence[str] = ("LOG", "LOG.old.*")  # RocksDB's reports of its work
    clock_ahead_s: int = 0

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        path = root / "db"
        for number in range(DATABASES):
            with topicdb.open(path, shards=2, maintenance_interval=None) as db:
                half = ROWS // 2
                db.append(rows_of(number)[:half], durability="disk")
                db.set_retention({"t/#": topicdb.Retention(age="30d", keep_last=3)})
                db.flush()
                db.append(rows_of(number)[half:], durability="disk")
            with jobs.StagedWriter(path, "abandoned") as writer:
                writer.append(rows_of(number))
            mark({"whole": number})
            topicdb.drop(path)
            mark({"dropped": number})

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        return DropChecker(marks)


@dataclass(frozen=True)
class DropChecker:
    """Checks states of one trace."""

    marks: list[dict[str, Any]]

    def check(self, crash: Crash) -> None:
        """Raises AssertionError, or an error of TopicDB, if a promise is broken."""
        last = self.marks[crash.marks - 1] if crash.marks else {}
        path = crash.directory / "db"
        if "whole" in last:
            self._check_during_drop(path, last["whole"])
        else:
            self._check_during_creation(path, last.get("dropped", -1) + 1)
        if topicdb.exists(path):
            topicdb.drop(path)
        assert not path.exists()
        with topicdb.open(path) as db:
            assert db.scan("#").count() == 0, "nothing of the old one comes back"

    def _check_during_drop(self, path: Path, number: int) -> None:
        """The drop has not returned: there is all of it, or what a second drop finishes."""
        if not path.exists():
            return
        if not any(path.iterdir()):
            path.rmdir()  # only the directory itself was left
        elif topicdb.exists(path):
            with topicdb.open(path) as db:
                found = sorted(map(tuple, db.scan("#")))
            assert found == sorted(rows_of(number)), "a part of it looks like all of it"
            assert topicdb.verify(path).ok
        else:
            for _ in range(2):
                assert "was cut short" in _refusal_of(path)
            topicdb.drop(path)

    def _check_during_creation(self, path: Path, number: int) -> None:
        """What was dropped before is gone, and stays so."""
        with topicdb.open(path, shards=2) as db:
            values = {message.value for message in db.scan("#")}
        assert values <= {b"%d" % number}, f"{values} of what was dropped is there again"


def _refusal_of(path: Path) -> str:
    """Returns why the database cannot be opened."""
    try:
        topicdb.open(path).close()
    except topicdb.CorruptionError as error:
        return str(error)
    raise AssertionError("what a drop has left was opened")


drops = DropProgram()

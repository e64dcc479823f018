"""Workloads of TopicDB for the simulator; ``ALL`` names all programs, also those of other files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crash.check import HistoryChecker
from crash.history import History
from crash.programs import Checker, Mark
from crash.session import TAG_CLASS, Row, Session
from topicdb import Retention, _core
from topicdb.lifecycle.retention import LAYOUTS
from topicdb.types import Durability

DAY_S = 86_400
DAY_US = DAY_S * 1_000_000
DURABILITIES: tuple[Durability, ...] = ("os", "os", "disk", "none")


@dataclass(frozen=True)
class Workload:
    """A script, and the database with which it runs.

    Its clock is a day ahead of that of the checks, so that these see a clock that has stepped back.
    """

    script: Callable[[Session], None]
    create: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    ignore: Sequence[str] = ("LOG", "LOG.old.*")  # RocksDB's reports of its work
    clock_ahead_s: int = DAY_S

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        self.script(Session(root, seed, mark, self.create, self.settings))

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        return HistoryChecker(History(marks))


def rows(session: Session, count: int, *, size: int = 20) -> list[Row]:
    """Makes messages of all classes; some topics are new, and some times are to be assigned."""
    chance = session.chance
    found: list[Row] = []
    for _ in range(count):
        kind = chance.choice(("m", "m", "alarm", "debug"))
        topic = f"{kind}/{chance.randrange(12)}/{chance.choice('abcdefgh')}{chance.randrange(3)}"
        timestamp = None if chance.random() < 0.2 else chance.randrange(1_000_000)
        found.append((topic, timestamp, size + chance.randrange(size)))
    return found


def appends(session: Session) -> None:
    """Appends with every durability, some together; with a flush and new openings in between."""
    for step in range(60):
        durability = session.chance.choice(DURABILITIES)
        if step % 7 == 3:
            groups = [rows(session, session.chance.randint(1, 4)) for _ in range(4)]
            session.append_together(groups, durability)
        else:
            session.append(rows(session, session.chance.randint(1, 9)), durability)
        if step == 25:
            session.flush()
        if step in (15, 45):
            session.reopen()
    session.close()


def transactions(session: Session) -> None:
    """Runs transactions with writes and deletes, and deletes in all shards."""
    chance = session.chance
    for step in range(70):
        durability = chance.choice(DURABILITIES)
        first = chance.randrange(900_000)
        if step % 3 == 0:
            session.append(rows(session, 8), durability)
        elif step % 5 == 1:
            durability = "os" if durability == "none" else durability
            session.delete(f"m/{chance.randrange(12)}/+", first, first + 400_000, durability)
        else:
            shard = chance.randrange(session.shards)
            deletes = [(f"{chance.choice(('alarm', 'm', 'debug'))}/+/a1", first, None)]
            session.transact(rows(session, 9), deletes[: step % 2], shard, durability)
        if step == 35:
            session.reopen()
    session.close()


def lifecycle(session: Session) -> None:
    """Begins, ends and drops generations, and changes the retention classes."""
    chance = session.chance
    now = round(time.time() * 1_000_000)
    for step in range(40):
        session.append(rows(session, chance.randint(2, 8)), chance.choice(DURABILITIES))
        if step % 8 == 2:
            session.rotate(chance.choice((None, "alarm/#", "debug/#")))
        if step % 8 == 5:
            old = [slab for slab in session.db.slabs() if slab.read_only]
            users = [slab for slab in old if slab.retention_class != "commit/#"]
            if users:  # all that were rotated may be gone
                session.drop(chance.choice(users))
        if step == 13:
            session.maintain(now + DAY_US // 24)
        if step == 19:
            session.set_retention({"debug/#": "2h", "m/1/#": "5d"})
        if step == 27:
            session.expire(now + 3 * DAY_US)
        if step == 33:
            session.set_retention({"alarm/#": "30d", "debug/#": "1h"})
            session.reopen()
    session.maintain(now + 50 * DAY_US)
    session.append(rows(session, 5), "os")
    session.close()


def keep_last(session: Session) -> None:
    """Drops generations but for the last messages of each topic, which the database merges."""
    now = round(time.time() * 1_000_000)
    session.append(rows(session, 8), "os")
    session.set_retention({"m/#": Retention(keep_last=2, rotate="1h")})
    for step in range(30):
        session.append(
            rows(session, session.chance.randint(2, 20)), session.chance.choice(DURABILITIES)
        )
        if step % 6 == 3:
            session.maintain(now + (step + 1) * DAY_US)
        if step % 9 == 7:
            session.delete("alarm/#", 0, 300_000, "os")
        if step == 14:
            session.reopen()
        if step == 20:
            session.flush()
    session.maintain(now + 50 * DAY_US)
    session.append(rows(session, 5), "os")
    session.close()


def layouts(session: Session) -> None:
    """Begins generations of other layouts, by hand and by the rules; drops, merges and repairs."""
    chance = session.chance
    now = round(time.time() * 1_000_000)
    last_2 = Retention(keep_last=2, rotate="1h")
    session.set_retention({"alarm/#": "layout:skipstream", "debug/#": None, "m/#": last_2})
    for step in range(32):
        session.append(rows(session, chance.randint(2, 12)), chance.choice(DURABILITIES))
        if step % 5 == 2:
            names = ("debug/#", TAG_CLASS) if step > 14 else ("debug/#", TAG_CLASS, "m/#")
            session.rotate(chance.choice(names), chance.choice(LAYOUTS))
        if step % 8 == 5:
            old = [slab for slab in session.db.slabs() if slab.read_only]
            old = [slab for slab in old if slab.retention_class in ("alarm/#", "debug/#")]
            if old:  # all that were rotated may be gone
                session.drop(chance.choice(old))
        if step % 7 == 4:
            session.delete("+/+/a0", 0, 500_000, "os")
        if step == 9:
            session.maintain(now + DAY_US)
        if step == 14:
            by_rule = replace(last_2, layout="skipstream")
            session.set_retention({"alarm/#": "layout:columnar", "debug/#": None, "m/#": by_rule})
        if step == 18:
            session.reopen()
        if step == 22:
            session.job([rows(session, 20) for _ in range(2)], live=True)
        if step == 27:
            session.damage("shards/0000/CURRENT")
            session.repair()
    session.maintain(now + 50 * DAY_US)
    session.append(rows(session, 5), "os")
    session.close()


def repairs(session: Session) -> None:
    """Removes a file that has nothing of the messages; the repair makes the shard anew."""
    for step in range(24):
        session.append(
            rows(session, session.chance.randint(2, 12)), session.chance.choice(DURABILITIES)
        )
        if step % 8 == 3:
            session.delete("m/+/a0", 0, 500_000, "os")
        if step == 6:
            session.rotate()
        if step in (11, 19):
            session.damage(f"shards/{step // 19:04}/CURRENT")
            session.repair()
    session.close()


def sealing(session: Session) -> None:
    """Appends while the sealer sorts and merges blocks and brings them apart."""
    for step in range(36):
        session.append(rows(session, 25, size=120), session.chance.choice(DURABILITIES))
        if step % 9 == 8:
            session.settle()
        if step % 9 == 4:
            session.flush()
        if step % 12 == 7:
            session.delete("m/+/a0", 0, 500_000, "os")
        if step == 20:
            session.rotate()
            session.reopen()
    session.rotate()
    session.settle()
    session.close()


def creation(session: Session) -> None:
    """Creates the database, and does little else."""
    session.append(rows(session, 3), "disk")
    session.close()


def maps(session: Session) -> None:
    """Writes persistent maps beside appends."""
    for step in range(30):
        name = f"map/{step % 3}"
        keys = session.chance.sample(range(12), session.chance.randint(0, 8))
        content = {f"key {key}": b"%d in %d" % (key, step) for key in keys}
        session.store_map(name, content, session.chance.choice(("os", "disk")))
        if step % 5 == 0:
            session.append(rows(session, 4), "os")
        if step == 14:
            session.reopen()
    session.close()


def snapshots(session: Session) -> None:
    """Makes snapshots beside appends, later ones upon an earlier one, and restores one."""
    for step in range(16):
        session.append(rows(session, 12, size=60), session.chance.choice(DURABILITIES))
        if step % 5 == 1:
            session.snapshot(f"snapshot-{step}", base="snapshot-1" if step > 5 else None)
        if step == 8:
            session.restore("snapshot-6", "restored")
            session.rotate()
        if step == 12:
            session.reopen()
    session.close()


def bulk_load(session: Session) -> None:
    """Runs jobs, with the database closed and open, between appends."""
    for step in range(6):
        session.append(rows(session, 5), "os")
        parts = [rows(session, 30, size=60) for _ in range(2)]
        session.job(parts, live=step % 2 == 1)
        session.append(rows(session, 5), "disk")
    session.close()


_CLASSES = {"alarm/#": None, "debug/#": "1h"}


def _database(layout: str, shards: int, classes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns what to create: few shards and classes, as each takes time in every state."""
    return {
        "layout": layout,
        "shards": shards,
        "thresholds": [4, 2],
        "retention": classes or {},
    }


_SMALL = {"write_buffer_bytes": 64 << 10, "seal_bytes": 2_000}

columnar_appends = Workload(appends, _database("columnar", 2))
skipstream_appends = Workload(appends, _database("skipstream", 2))
columnar_transactions = Workload(transactions, _database("columnar", 1))
skipstream_transactions = Workload(transactions, _database("skipstream", 2))
columnar_lifecycle = Workload(lifecycle, _database("columnar", 1, _CLASSES))
skipstream_lifecycle = Workload(lifecycle, _database("skipstream", 1, _CLASSES))
columnar_keep_last = Workload(keep_last, _database("columnar", 1), _SMALL)
skipstream_keep_last = Workload(keep_last, _database("skipstream", 2))
columnar_layouts = Workload(layouts, _database("columnar", 1), _SMALL)
skipstream_layouts = Workload(layouts, _database("skipstream", 2))
columnar_repairs = Workload(repairs, _database("columnar", 2, _CLASSES), _SMALL)
skipstream_repairs = Workload(repairs, _database("skipstream", 2))
columnar_sealing = Workload(sealing, _database("columnar", 1), _SMALL)
skipstream_flushing = Workload(sealing, _database("skipstream", 1), _SMALL)
columnar_creation = Workload(creation, _database("columnar", 2, _CLASSES))
skipstream_maps = Workload(maps, _database("skipstream", 1))
columnar_snapshots = Workload(snapshots, _database("columnar", 2), _SMALL)
skipstream_snapshots = Workload(snapshots, _database("skipstream", 1), _SMALL)
columnar_bulk_load = Workload(bulk_load, _database("columnar", 2))
skipstream_bulk_load = Workload(bulk_load, _database("skipstream", 2))

ALL = (
    "crash.workloads:columnar_appends",
    "crash.workloads:skipstream_appends",
    "crash.workloads:columnar_transactions",
    "crash.workloads:skipstream_transactions",
    "crash.workloads:columnar_lifecycle",
    "crash.workloads:skipstream_lifecycle",
    "crash.workloads:columnar_keep_last",
    "crash.workloads:skipstream_keep_last",
    "crash.workloads:columnar_layouts",
    "crash.workloads:skipstream_layouts",
    "crash.workloads:columnar_repairs",
    "crash.workloads:skipstream_repairs",
    "crash.workloads:columnar_sealing",
    "crash.workloads:skipstream_flushing",
    "crash.workloads:columnar_creation",
    "crash.workloads:skipstream_maps",
    "crash.workloads:columnar_snapshots",
    "crash.workloads:skipstream_snapshots",
    "crash.workloads:columnar_bulk_load",
    "crash.workloads:skipstream_bulk_load",
    "crash.drop_program:drops",
    "crash.queue_program:disk",
    "crash.queue_program:small_segments",
    *(() if _core.REPLICATION_LACKS else ("crash.site_program:alone",)),
)

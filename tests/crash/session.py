"""A TopicDB database that a script uses under the simulator, and that tells by marks what it does.

Every value tells its commit and its place in it. A commit puts a *tag* into each shard that it
touches, in a retention class of its own that is never dropped. By the tags a check knows which
commits a crash has left, and thus which messages exactly must be stored.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import topicdb
from crash.programs import Mark
from sealing import wait_for_sealing
from topicdb import Retention, jobs
from topicdb.lifecycle.retention import LayoutName
from topicdb.types import Durability

TAG_CLASS = "commit/#"
CATCH_ALL = "#"

Row = tuple[str, "int | None", int]
"""Topic, time, size of the value."""
Delete = tuple[str, "int | None", "int | None"]


def value_of(commit: int, place: int, size: int) -> bytes:
    """Returns the value of a row: it differs from all others and is hard to compress."""
    head = b"%d.%d." % (commit, place)
    return head + random.Random(commit * 1000 + place).randbytes(max(0, size - len(head)))


def tag_of(commit: int, shard: int, shards: int) -> str:
    """Returns the topic of a commit's tag in a shard."""
    names = (f"commit/{commit}/{salt}" for salt in range(10_000))
    return next(name for name in names if topicdb.shard_of(name, shards) == shard)


def class_of(topic: str, classes: Sequence[str]) -> str:
    """Returns the first retention class that takes the topic."""
    return next(one for one in classes if topicdb.topic_matches(one, topic) or one == CATCH_ALL)


class Session:
    """One database of a workload, which the script opens and closes as it wants.

    Each method makes the marks for what it does.
    """

    def __init__(
        self, root: Path, seed: int, mark: Mark, create: dict[str, Any], settings: dict[str, Any]
    ) -> None:
        self.chance = random.Random(seed)
        self.path = root / "db"
        self._mark = mark
        self.create = {**create, "retention": {TAG_CLASS: None, **create.get("retention", {})}}
        self.shards: int = create.get("shards", 1)
        self._settings = {"maintenance_interval": None, "cache_bytes": 1 << 20, **settings}
        self._commits = 0
        self._generations: dict[tuple[int, str], tuple[int, str]] = {}  # number and layout
        self.db = self._open(first=True)

    def _open(self, *, first: bool) -> topicdb.Database:
        self._mark({"creates": self.create} if first else {"opens": True})
        options = {**(self.create if first else {}), **self._settings}
        db = topicdb.open(self.path, **options)
        self._mark({"open": True})
        self._look(db)
        return db

    def reopen(self) -> None:
        """Closes and opens the database: everything before is safe after that."""
        self.close()
        self.db = self._open(first=False)

    def close(self) -> None:
        self.db.close()
        self._mark({"safe": True})

    def flush(self) -> None:
        self.db.flush()
        self._mark({"safe": True})

    def settle(self) -> None:
        """Waits until the sealer has nothing more to do."""
        wait_for_sealing(self.db)

    def _look(self, db: topicdb.Database) -> None:
        """Notes which generation of each class takes messages now."""
        self._classes = list(db.retention)
        if CATCH_ALL not in self._classes:
            self._classes.append(CATCH_ALL)
        for slab in db.slabs():
            if not slab.read_only:
                of = slab.shard, slab.retention_class
                self._generations[of] = slab.generation, slab.layout

    # Commits

    def append(self, rows: Sequence[Row], durability: Durability) -> None:
        commit, messages = self._begin(rows, (), durability)
        receipt = self.db.append(messages, durability=durability)
        assert receipt.durability == durability
        self._end(commit, receipt.serials)

    def append_together(self, groups: Sequence[Sequence[Row]], durability: Durability) -> None:
        """Appends several batches asynchronously, so that they may share a write."""
        begun = [self._begin(rows, (), durability) for rows in groups]
        futures = [self.db.append_async(messages, durability=durability) for _, messages in begun]
        for (commit, _), future in zip(begun, futures, strict=True):
            self._end(commit, future.result().serials)

    def transact(
        self, rows: Sequence[Row], deletes: Sequence[Delete], shard: int, durability: Durability
    ) -> None:
        """Runs a transaction of one shard; leaves out the rows of other shards."""
        here = [row for row in rows if topicdb.shard_of(row[0], self.shards) == shard]
        commit, messages = self._begin(here, deletes, durability, only=shard)
        with self.db.transaction(shard=shard, durability=durability) as tx:
            for filter, start, end in deletes:
                tx.delete(filter, start, end)
            for topic, timestamp, value in messages:
                tx.write(topic, timestamp, value)
        assert tx.receipt is not None
        self._end(commit, tx.receipt.serials)

    def delete(
        self, filter: str, start: int | None, end: int | None, durability: Durability
    ) -> None:
        """Deletes in all shards; this commit has no tag."""
        commit, _ = self._begin((), [(filter, start, end)], durability, tagged=False)
        receipt = self.db.delete(filter, start=start, end=end, durability=durability)
        self._end(commit, receipt.serials)

    def job(self, parts: Sequence[Sequence[Row]], *, live: bool) -> None:
        """Stages rows in tasks and commits them as one job.

        ``live`` says whether the database stays open here or is closed meanwhile.
        """
        rows = [row for part in parts for row in part]
        commit, messages = self._begin(rows, (), "disk", job=True)
        if not live:
            self.close()
        staged, name = [], f"job-{commit}"
        size = -(-len(messages) // len(parts))
        for at in range(0, len(messages), size):
            with jobs.StagedWriter(self.path, name) as writer:
                writer.append(messages[at : at + size])
            staged.append(writer.staged)
        done = jobs.commit(self.path, name, staged, timeout=30)
        assert not done.pending
        self._end(commit, done.serials)
        if not live:
            self.db = self._open(first=False)

    def _begin(
        self,
        rows: Sequence[Row],
        deletes: Sequence[Delete],
        durability: Durability,
        *,
        only: int | None = None,
        tagged: bool = True,
        job: bool = False,
    ) -> tuple[int, list[tuple[str, int | None, bytes]]]:
        """Marks what will be committed; returns the commit's number and its messages."""
        self._commits += 1
        commit = self._commits
        touched = {topicdb.shard_of(topic, self.shards) for topic, _, _ in rows}
        shards = {only} if only is not None else touched if tagged else range(self.shards)
        tags: list[Row] = []
        if tagged:
            tags = [(tag_of(commit, shard, self.shards), commit, 0) for shard in sorted(shards)]
        parts: dict[int, list[Any]] = {shard: [] for shard in sorted(shards)}
        messages = []
        for place, (topic, timestamp, size) in enumerate([*tags, *rows]):
            shard = topicdb.shard_of(topic, self.shards)
            name = class_of(topic, self._classes)
            generation, layout = self._generations[shard, name]
            parts[shard].append([topic, timestamp, place, size, name, generation, layout])
            messages.append((topic, timestamp, value_of(commit, place, size)))
        self._mark(
            {
                "begin": commit,
                "parts": parts,
                "deletes": list(deletes),
                "durability": durability,
                "tags": {topicdb.shard_of(tag[0], self.shards): tag[0] for tag in tags},
                "job": job,
            }
        )
        return commit, messages

    def _end(self, commit: int, serials: Mapping[int, int]) -> None:
        self._mark({"end": commit, "serials": dict(serials)})

    # The life of the data

    def rotate(self, name: str | None = None, layout: LayoutName | None = None) -> None:
        self.db.rotate(name, layout=layout)
        self._look(self.db)

    def drop(self, slab: topicdb.Slab) -> None:
        self._mark({"drops": [_name(slab)]})
        self.db.drop_slab(slab)
        self._mark({"dropped": [_name(slab)]})

    def maintain(self, now: int) -> None:
        """Rotates and drops what is due. Only afterwards a mark tells what it dropped."""
        self._mark({"maintains": True})
        done = self.db.maintain(now)
        self._mark({"dropped": [_name(one.slab) for one in done.dropped]})
        self._look(self.db)

    def expire(self, now: int) -> None:
        self._mark({"maintains": True})
        self._mark({"dropped": [_name(slab) for slab in self.db.expire(now)]})

    def set_retention(self, classes: Mapping[str, Any]) -> None:
        wanted = {TAG_CLASS: None, **classes}
        keeps = {
            name: one.keep_last
            for name, one in classes.items()
            if isinstance(one, Retention) and one.keep_last
        }
        self._mark({"sets": list(wanted), "keeps": keeps})
        self.db.set_retention(wanted)
        self._mark({"set": list(wanted)})
        self._look(self.db)

    def damage(self, name: str) -> None:
        """Closes the database and removes one of its files; ``repair`` must follow."""
        self.close()
        self._mark({"damages": name})
        (self.path / name).unlink()

    def repair(self) -> None:
        """Repairs the damage, without loss, and opens the database."""
        repaired = topicdb.repair(self.path)
        assert repaired.shards and not repaired.remaining
        self._mark({"repaired": True})
        self.db = self._open(first=False)

    # Copies

    def snapshot(self, name: str, base: str | None = None) -> None:
        """Makes a snapshot of the database in a directory beside it."""
        self._copies(name, sorted(_key(message) for message in self.db.scan("#")))
        self.db.snapshot(self.path.parent / name, base=base and self.path.parent / base)
        self._mark({"copied": name})

    def restore(self, snapshot: str, name: str) -> None:
        """Restores a snapshot to a database beside it."""
        with topicdb.open(self.path.parent / snapshot, mode="r") as db:
            self._copies(name, sorted(_key(message) for message in db.scan("#")))
        topicdb.restore(self.path.parent / snapshot, self.path.parent / name)
        self._mark({"copied": name})

    def _copies(self, name: str, keys: list[list[int]]) -> None:
        self._mark({"copies": name, "keys": keys})

    # Maps

    def store_map(self, name: str, content: Mapping[str, bytes], durability: Durability) -> None:
        """Gives a persistent map this content."""
        text = {key: value.decode() for key, value in content.items()}
        with self.db.map(name, takeover=True, durability=durability) as stored:
            self._mark({"map": name, "to": text, "durability": durability})
            for key in [key for key in stored if key not in content]:
                del stored[key]
            stored.update(content)
            stored.commit()
            self._mark({"map_done": name})


def _key(message: topicdb.Message) -> list[int]:
    """Returns the commit of a message and its place in that commit."""
    commit, place, _ = message.value.split(b".", 2)
    return [int(commit), int(place)]


def _name(slab: topicdb.Slab) -> list[Any]:
    return [slab.shard, slab.retention_class, slab.generation]

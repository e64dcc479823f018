"""Checks whether a database keeps its promises after a crash (docs/concepts/durability.md).

The tags tell which commits each shard has. A shard must have all commits that were promised, none
that had not begun, and no gaps; and it must store exactly the messages that those commits leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import topicdb
from crash.history import Commit, History, SlabName, StoredRow
from crash.programs import Crash
from topicdb import Message

FAR_FUTURE = 1 << 62  # stands for a time that is assigned, which is after all given ones
RowKey = tuple[Any, ...]


class HistoryChecker:
    """Checks states of one trace."""

    def __init__(self, history: History) -> None:
        self._history = history
        for shard in range(history.shards):
            serials = [c.serials.get(shard, 0) for c in history.of_shard(shard)]
            known = [serial for serial in serials if serial]
            assert known == sorted(known), "commits are listed in their order"

    def check(self, crash: Crash) -> None:
        """Raises AssertionError, or an error of TopicDB, if a promise is broken."""
        path, is_created = crash.directory / "db", self._history.created < crash.marks
        assert not is_created or (path / "TOPICDB").exists(), "the database is gone"
        options: dict[str, Any] = {} if is_created else self._history.create
        settings: dict[str, Any] = {
            "maintenance_interval": None,
            "cache_bytes": 1 << 20,
            "write_buffer_bytes": 1 << 20,
        }
        if crash.chance.random() < 0.2:
            settings["seal_bytes"] = 1_000
        if any(one.begun < crash.marks <= one.ended for one in self._history.damages):
            repaired = topicdb.repair(path)
            assert not repaired.remaining, f"not repaired: {repaired.remaining}"
        with topicdb.open(path, **options, **settings) as db:
            _Look(self._history, crash, db).check()
            everything = _sorted(db.scan("#"))
        self._check_copies(crash)
        if crash.chance.random() < 0.6:
            return  # only a sample is opened again: opening takes most of the time
        mode: Literal["r", "rw"] = crash.chance.choice(("r", "rw"))
        with topicdb.open(path, mode=mode, **settings) as db:
            assert _sorted(db.scan("#")) == everything, "it is not the same when it is reopened"

    def _check_copies(self, crash: Crash) -> None:
        """Checks that acknowledged copies are there, and that each copy that is there is whole."""
        for name, copy in self._history.copies.items():
            path = crash.directory / name
            assert path.exists() or copy.ended >= crash.marks, f"{name} is gone"
            assert copy.begun < crash.marks or not path.exists(), f"{name} was not begun"
            if not path.exists() or crash.chance.random() < 0.4:
                continue
            with topicdb.open(path, mode="r") as db:
                found = sorted(
                    (int(commit), int(place))
                    for commit, place, _ in (m.value.split(b".", 2) for m in db.scan("#"))
                )
            assert found == copy.value, f"{name} has not what the database had"


def _sorted(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages)


class _Look:
    """Checks one state: the open database after one crash."""

    def __init__(self, history: History, crash: Crash, db: topicdb.Database) -> None:
        self._history = history
        self._crash = crash
        self._db = db
        self._found = {self._key(message): message for message in self._scan()}
        self._topics = {message.topic for message in self._found.values()}
        self._slabs: set[SlabName] = {
            (slab.shard, slab.retention_class, slab.generation) for slab in db.slabs()
        }

    def check(self) -> None:
        self._check_slabs()
        self._check_jobs()
        for shard in range(self._history.shards):
            self._check_shard(shard)
        self._check_maps()
        self._check_retention()
        if self._crash.chance.random() < 0.3:
            self._check_filters()
            self._check_iterators()
            self._check_tail()
        self._check_next_commit()

    def _scan(self) -> list[Message]:
        found = self._db.scan("#").to_list()
        keys = [self._key(message) for message in found]
        assert len(set(keys)) == len(keys), "a message is there twice"
        return found

    def _key(self, message: Message) -> tuple[int, int]:
        commit, place, _ = message.value.split(b".", 2)
        key = int(commit), int(place)
        assert message.value == self._history.values[key], f"the value of {key} is damaged"
        return key

    def _is_promised(self, commit: Commit) -> bool:
        crash = self._crash
        return self._history.is_promised(commit, crash.marks, is_power_cut=crash.is_power_cut)

    def _has(self, commit: Commit, shard: int) -> bool:
        return commit.tags.get(shard) in self._topics

    def _check_slabs(self) -> None:
        """Checks that slabs are gone once their drop was acknowledged.

        ``_content`` checks that no others are gone.
        """
        for drop in self._history.drops:
            if drop.ended < self._crash.marks:
                assert drop.slab not in self._slabs, f"{drop.slab} was dropped and is there"

    def _may_be_gone(self, slab: SlabName) -> bool:
        return any(
            drop.slab == slab and drop.begun < self._crash.marks for drop in self._history.drops
        )

    def _check_jobs(self) -> None:
        """Checks that each job is there in all its shards, or in none."""
        for commit in self._history.commits.values():
            if commit.is_job:
                there = {shard: self._has(commit, shard) for shard in commit.parts}
                assert len(set(there.values())) <= 1, f"job {commit.number} is in part: {there}"

    def _check_shard(self, shard: int) -> None:
        """Checks that the logged commits of a shard are a prefix, and that its messages are theirs.

        Commits with ``none`` are not logged: each is there wholly or not at all.
        """
        commits = [c for c in self._history.of_shard(shard) if c.begun < self._crash.marks]
        for commit in self._history.of_shard(shard):
            if commit.begun >= self._crash.marks:
                assert not self._has(commit, shard), f"commit {commit.number} was not begun"
        logged = [c for c in commits if c.durability != "none"]
        # Opening a shard applies a job that was not finished. Such a job may be there although
        # logged commits before it are not, so it does not tell which of them must be there.
        needed = [
            (self._has(c, shard) and not (c.is_job and c.ended >= self._crash.marks))
            or self._is_promised(c)
            for c in logged
        ]
        last = max((at for at, yes in enumerate(needed) if yes), default=-1)
        for commit in logged[: last + 1]:
            if commit.tags:
                what = "there" if self._has(logged[last], shard) else "promised"
                assert self._has(commit, shard), (
                    f"shard {shard}: commit {commit.number} ({commit.durability}) is missing, "
                    f"{logged[last].number} is {what}"
                )
        for commit in commits:
            if commit.durability == "none" and self._is_promised(commit):
                assert self._has(commit, shard), f"shard {shard}: {commit.number} is missing"
        maybe = [c.number for c in logged[last + 1 :] if not c.tags]
        certain = [c for c in commits if not c.tags and c.number not in maybe]
        self._check_content(shard, commits, {c.number for c in certain}, maybe)

    def _check_content(
        self, shard: int, commits: list[Commit], certain: set[int], maybe: list[int]
    ) -> None:
        """Checks that the messages of a shard are exactly what its commits leave.

        ``maybe`` has deletes, which have no tag: any number of the first ones may have been done.
        """
        found = {key for key, m in self._found.items() if self._shard_of(m.topic) == shard}
        difference = None
        for done in range(len(maybe) + 1):
            applied = certain | set(maybe[:done])
            there = [c for c in commits if c.number in applied or self._has(c, shard)]
            expected = self._content(shard, there)
            if found == set(expected):
                self._check_rows(expected.values())
                return
            if difference is None:
                difference = sorted(set(expected) - found), sorted(found - set(expected))
        assert difference is not None
        missing, extra = difference
        raise AssertionError(
            f"shard {shard}: missing (commit, place) {missing[:20]}, not expected {extra[:20]}"
        )

    def _content(self, shard: int, commits: list[Commit]) -> dict[tuple[int, int], StoredRow]:
        """Returns the rows that these commits leave, by commit and place."""
        stored: dict[RowKey, StoredRow] = {}
        for commit in commits:
            for filter, start, end in commit.deletes:
                for key, row in list(stored.items()):
                    if _matches(row, filter, start, end):
                        del stored[key]
            for row in commit.parts[shard]:
                stored[row.key] = row
        kept = {}
        gone: dict[str, list[StoredRow]] = {}  # by topic: rows that keep_last may keep
        for row in stored.values():
            if row.slab in self._slabs:
                kept[row.commit, row.place] = row
                continue
            assert self._may_be_gone(row.slab), f"{row.slab} is gone"
            if row.slab[1] in self._history.keep_last:
                gone.setdefault(row.topic, []).append(row)
        for rows in gone.values():
            count = self._history.keep_last[rows[0].slab[1]]
            kept |= {(row.commit, row.place): row for row in self._in_order(rows)[-count:]}
        return kept

    def _in_order(self, rows: list[StoredRow]) -> list[StoredRow]:
        """Returns rows of a topic by time and commit, without those that others have replaced."""
        ordered = sorted(rows, key=lambda row: (_time_of(row), row.commit, row.place))
        last: dict[RowKey, StoredRow] = {}
        for row in ordered:
            last[row.key] = row
        return list(last.values())

    def _check_rows(self, expected: Iterable[StoredRow]) -> None:
        """Checks topics and times.

        Assigned times must increase within a commit and from one commit to the next. Only within a
        job is their order open, since its tasks have none.
        """
        assigned: dict[int, list[int]] = {}
        for row in sorted(expected, key=lambda row: (row.commit, row.place)):
            message = self._found[row.commit, row.place]
            assert message.topic == row.topic
            if row.timestamp is None:
                assigned.setdefault(row.commit, []).append(message.timestamp)
            else:
                assert message.timestamp == row.timestamp
        last = -1
        for number, times in assigned.items():
            in_order = sorted(times) if self._history.commits[number].is_job else times
            assert in_order == sorted(set(times)), f"times of commit {number} do not increase"
            assert in_order[0] > last, f"commit {number} was assigned {in_order[0]} after {last}"
            last = in_order[-1]

    def _shard_of(self, topic: str) -> int:
        return topicdb.shard_of(topic, self._history.shards)

    # Other ways to read

    def _check_filters(self) -> None:
        """Checks, for a sample of messages, that filters that match them find what they should."""
        for message in self._sample(3):
            levels = message.topic.split("/")
            at = self._crash.chance.randrange(len(levels))
            for filter in (
                message.topic,
                "/".join([*levels[:at], "+", *levels[at + 1 :]]),
                "/".join([*levels[:at], "#"]),
            ):
                found = set(self._db.scan(filter))
                expected = {
                    m for m in self._found.values() if topicdb.topic_matches(filter, m.topic)
                }
                assert found == expected, f"{filter} finds {found ^ expected} too much or little"

    def _sample(self, count: int) -> list[Message]:
        found = [self._found[key] for key in sorted(self._found)]
        return self._crash.chance.sample(found, min(count, len(found)))

    def _check_iterators(self) -> None:
        """Checks that streams, read page by page, have each message once and in order."""
        read: list[Message] = []
        for stream in self._db.streams():
            iterator = self._db.iterator(stream)
            times: list[int] = []
            while True:
                page = self._db.next(topicdb.Iterator.from_bytes(bytes(iterator)), 40)
                iterator = page.iterator
                read += page.batch
                times += [message.timestamp for message in page.batch]
                if page.end_of_stream or not len(page.batch):
                    break
            assert times == sorted(times), f"{stream.structure} is not in order"
        assert sorted(read) == sorted(self._found.values())

    def _check_tail(self) -> None:
        """Checks that the log has each message once, in the order of commits.

        It may end before a generation that keeps no log.
        """
        read: list[tuple[int, int]] = []
        try:
            for message in self._db.tail(timeout=0):
                read.append(self._key(message))
        except topicdb.SchemaError:
            assert "skipstream" in {slab.layout for slab in self._db.slabs()}
            assert len(set(read)) == len(read)
        else:
            assert sorted(read) == sorted(self._found)
        for shard in range(self._history.shards):
            order = [
                (commit, 0 if self._history.commits[commit].is_job else place)
                for commit, place in read
                if self._shard_of(self._found[commit, place].topic) == shard
            ]
            assert order == sorted(order), "the log is not in the order of commits"

    # Maps, retention classes, and the next commit

    def _check_maps(self) -> None:
        for name, choices in self._history.maps.items():
            crash = self._crash
            wanted = self._history.possible(choices, crash.marks, is_power_cut=crash.is_power_cut)
            with self._db.map(name, takeover=True) as stored:
                content = {key: value.decode() for key, value in stored.items()}
            assert content in [one or {} for one in wanted], f"{name} has {content}, not {wanted}"

    def _check_retention(self) -> None:
        wanted = self._history.possible(
            self._history.retention, self._crash.marks, is_power_cut=self._crash.is_power_cut
        )
        found = [one for one in self._db.retention if one != "#"]
        lists = [[o for o in one if o != "#"] for one in wanted if one is not None]
        assert not lists or found in lists, f"classes are {found}, expected one of {lists}"
        for slab in self._db.slabs():
            limits = self._db.retention.get(slab.retention_class)
            if limits is not None and limits.layout is not None and not slab.read_only:
                assert slab.layout == limits.layout, f"{slab} should be {limits.layout}"

    def _check_next_commit(self) -> None:
        """Checks that one more commit works, with serials and times after all acknowledged ones."""
        before = self._history.last_serials(self._crash.marks)
        rows: list[tuple[str, int | None, bytes]]
        rows = [(f"commit/after/{number}", None, b"%d" % number) for number in range(8)]
        receipt = self._db.append(rows, durability="os")
        for shard, serial in receipt.serials.items():
            assert serial > before.get(shard, 0), f"serial {serial} of shard {shard} was used"
        assigned: dict[int, list[int]] = {}
        for message in self._db.scan("commit/after/+"):
            assigned.setdefault(self._shard_of(message.topic), []).append(message.timestamp)
        for row in (row for c in self._history.commits.values() for row in _rows(c)):
            if row.timestamp is None and (row.commit, row.place) in self._found:
                time = self._found[row.commit, row.place].timestamp
                new = assigned.get(self._shard_of(row.topic), [FAR_FUTURE])
                assert min(new) > time, f"assigned {min(new)} after {time}"
        assert sum(map(len, assigned.values())) == len(rows)


def _time_of(row: StoredRow) -> int:
    return FAR_FUTURE if row.timestamp is None else row.timestamp


def _rows(commit: Commit) -> Iterable[StoredRow]:
    return (row for part in commit.parts.values() for row in part)


def _matches(row: StoredRow, filter: str, start: int | None, end: int | None) -> bool:
    time = _time_of(row)
    is_within = (start is None or start <= time) and (end is None or time < end)
    return is_within and topicdb.topic_matches(filter, row.topic)

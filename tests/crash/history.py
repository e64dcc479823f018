"""Reads from the marks of a whole trace what a workload did, and what it was promised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from crash.session import value_of

NEVER = 1 << 60

SlabName = tuple[int, str, int]
"""Shard, retention class, generation."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A message of a commit. If ``timestamp`` is None, the database assigned one at the commit.

    ``keeps_all`` says that its slab also keeps messages of equal topic and time apart (layout
    columnar).
    """

    topic: str
    timestamp: int | None
    commit: int
    place: int
    slab: SlabName
    keeps_all: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """What it has in common with those that it replaces, or that replace it."""
        if self.timestamp is None or self.keeps_all:
            return self.commit, self.place
        return self.topic, self.timestamp


@dataclass(slots=True)
class Commit:
    """A commit. ``begun`` and ``ended`` are numbers of marks; ``tags`` has a topic for a shard."""

    number: int
    parts: dict[int, list[StoredRow]]
    deletes: list[tuple[str, int | None, int | None]]
    durability: str
    tags: dict[int, str]
    is_job: bool
    begun: int
    ended: int = NEVER
    serials: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Drop:
    """A slab that the database dropped between two marks."""

    slab: SlabName
    begun: int
    ended: int


@dataclass(slots=True)
class Choice:
    """A value that something got between two marks.

    It may be a list of retention classes, the content of a map or of a copy of the database, or the
    name of a file that is missing.
    """

    value: Any
    begun: int
    durability: str = "disk"
    ended: int = NEVER


class History:
    """The commits, drops and changes of a trace, each with the marks between which it happened.

    It is read once, for the whole trace; checks of many states use it.
    """

    def __init__(self, marks: list[dict[str, Any]]) -> None:
        self.create: dict[str, Any] = {}
        self.created = NEVER
        self.commits: dict[int, Commit] = {}
        self.drops: list[Drop] = []
        self.retention: list[Choice] = []
        self.keep_last: dict[str, int] = {}  # by class; the workloads never change it
        self.maps: dict[str, list[Choice]] = {}
        self.copies: dict[str, Choice] = {}
        self.damages: list[Choice] = []  # names of files, until they were repaired
        self.values: dict[tuple[int, int], bytes] = {}
        self._safe: list[int] = []
        self._began_dropping = 0
        for at, mark in enumerate(marks):
            self._read(at, mark)
        self.shards: int = self.create.get("shards", 1)

    def _read(self, at: int, mark: dict[str, Any]) -> None:
        match mark:
            case {"creates": create}:
                self.create = create
                self.retention.append(Choice(list(create["retention"]), at))
            case {"open": True}:
                self.created = min(self.created, at)
                self.retention[0].ended = self.created
            case {"safe": True}:
                self._safe.append(at)
            case {"begin": number}:
                self.commits[number] = self._commit(at, mark)
            case {"end": number}:
                self.commits[number].ended = at
                serials = {int(shard): serial for shard, serial in mark["serials"].items()}
                self.commits[number].serials = serials
            case {"drops": _} | {"maintains": _}:
                self._began_dropping = at
            case {"dropped": slabs}:
                begun = self._began_dropping
                self.drops += [Drop((s[0], s[1], s[2]), begun, at) for s in slabs]
            case {"sets": classes}:
                self.retention.append(Choice(classes, at))
                self.keep_last |= mark["keeps"]
            case {"set": _}:
                self.retention[-1].ended = at
            case {"damages": name}:
                self.damages.append(Choice(name, at))
            case {"repaired": _}:
                self.damages[-1].ended = at
            case {"copies": name}:
                keys = [(commit, place) for commit, place in mark["keys"]]
                self.copies[name] = Choice(keys, at)
            case {"copied": name}:
                self.copies[name].ended = at
            case {"map": name}:
                choice = Choice(mark["to"], at, mark["durability"])
                self.maps.setdefault(name, []).append(choice)
            case {"map_done": name}:
                self.maps[name][-1].ended = at

    def _commit(self, at: int, mark: dict[str, Any]) -> Commit:
        number: int = mark["begin"]
        parts: dict[int, list[StoredRow]] = {}
        for text, rows in mark["parts"].items():
            shard = int(text)
            parts[shard] = []
            for topic, timestamp, place, size, name, generation, layout in rows:
                slab = (shard, name, generation)
                row = StoredRow(topic, timestamp, number, place, slab, layout == "columnar")
                parts[shard].append(row)
                self.values[number, place] = value_of(number, place, size)
        deletes = [(one[0], one[1], one[2]) for one in mark["deletes"]]
        tags = {int(shard): topic for shard, topic in mark["tags"].items()}
        return Commit(number, parts, deletes, mark["durability"], tags, mark["job"], at)

    def is_promised(self, one: Commit | Choice, marks: int, *, is_power_cut: bool) -> bool:
        """Returns whether ``one`` must be there after a crash behind ``marks`` marks."""
        if one.ended >= marks:
            return False
        if one.durability == "disk" or (one.durability == "os" and not is_power_cut):
            return True
        return any(one.ended < safe < marks for safe in self._safe)

    def of_shard(self, shard: int) -> Iterator[Commit]:
        """Yields the commits that touch a shard, in their order there."""
        return (one for one in self.commits.values() if shard in one.parts)

    def last_serials(self, marks: int) -> dict[int, int]:
        """Returns for each shard the highest serial that was acknowledged in ``marks`` marks."""
        found: dict[int, int] = {}
        for one in self.commits.values():
            if one.ended < marks:
                for shard, serial in one.serials.items():
                    found[shard] = max(serial, found.get(shard, 0))
        return found

    def possible(self, choices: list[Choice], marks: int, *, is_power_cut: bool) -> list[Any]:
        """Returns the values that may be there: from the last promised one to the last begun one.

        None stands for no value; it may be there if no value was promised.
        """
        begun = [one for one in choices if one.begun < marks]
        promised = [self.is_promised(one, marks, is_power_cut=is_power_cut) for one in begun]
        first = max((at for at, yes in enumerate(promised) if yes), default=-1)
        return [one.value for one in begun[max(first, 0) :]] + ([None] if first < 0 else [])

"""Crash states: what the disk may hold when a program is cut short, made from its trace.

A state has a number. Number and seed decide everything about it: it can be made again alone.
Numbers from 0 on are the deaths of the process, one for each operation; all after those go through
the other kinds in turn, and for each of them through all operations in a scattered order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import gcd
from pathlib import Path

from crash.filesystem import (
    Change,
    FileSystem,
    NameChange,
    Names,
    Node,
    apply_change,
    set_entry,
    write_tree,
)
from crash.trace import Kind, Operation

SECTOR_BYTES = 512


class Fate(Enum):
    """What happened to what was written to a file since its last fsync."""

    LOST = "lost"  # nothing of it is there
    KEPT = "kept"  # all of it is there
    PREFIX = "prefix"  # the first of it, the last write torn
    ZEROED = "zeroed"  # the file has its size, but from some point on there are zeros
    SCATTERED = "scattered"  # some sectors are there, whatever the order they were written in


@dataclass(frozen=True, slots=True)
class StateKind:
    """A way to crash.

    ``names`` None: only the process dies, and nothing that a call has done is lost; ``is_torn``: in
    the middle of a write. Otherwise the power fails; ``fate`` None: each file has its own.
    """

    names: Names | None = None
    fate: Fate | None = None
    is_torn: bool = False

    @property
    def is_power_cut(self) -> bool:
        """Whether what was not fsynced may be lost."""
        return self.names is not None

    def __str__(self) -> str:
        if self.names is None:
            return "death/torn" if self.is_torn else "death"
        return f"{self.names.value}/{self.fate.value if self.fate else 'mixed'}"


DEATH = StateKind()
# Kinds beside the death of the process. Those with a part of each file find most.
OTHER_KINDS: tuple[StateKind, ...] = (
    StateKind(is_torn=True),
    *(StateKind(names, fate) for names in Names for fate in (*Fate, None)),
)


@dataclass(frozen=True, slots=True)
class State:
    """One crash: after so many operations, in this way."""

    number: int
    kind: StateKind
    operations: int
    marks: int  # how many of the marks the program has made


class Plan:
    """The states of a trace for one seed."""

    def __init__(self, operations: Sequence[Operation], seed: int) -> None:
        self.operations = operations
        self.seed = seed
        # Marks just behind an operation count as seen: that is when most is promised.
        self._ends: list[int] = []
        self._marks: list[int] = []
        marks = 0
        for index, operation in enumerate([*operations, Operation(Kind.SYNC_ALL)]):
            if operation.has_effect:
                self._ends.append(index)
                self._marks.append(marks)
            marks += operation.kind == Kind.MARK
        self._stride = _coprime(len(self._ends))

    @property
    def deaths(self) -> int:
        """How many states are the death of the process after a whole operation."""
        return len(self._ends)

    def state(self, number: int) -> State:
        """The state of that number; there is no last one."""
        if number < self.deaths:
            return self._at(number, DEATH, number)
        turn, kind = divmod(number - self.deaths, len(OTHER_KINDS))
        place = (turn * self._stride + kind * self.deaths // len(OTHER_KINDS)) % self.deaths
        return self._at(number, OTHER_KINDS[kind], place)

    def _at(self, number: int, kind: StateKind, place: int) -> State:
        return State(number, kind, self._ends[place], self._marks[place])

    def chance(self, state: State) -> random.Random:
        """The random numbers of one state."""
        return random.Random(f"{self.seed}/{state.number}")


def _coprime(count: int) -> int:
    """A stride that goes through all of ``count`` places, near its golden section."""
    stride = max(1, round(count * 0.618))
    while gcd(stride, count) != 1:
        stride += 1
    return stride


class Stage:
    """Makes states of a plan, going forward: cheap in the order of their operations."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._systems: dict[Names, FileSystem] = {}
        self._done: dict[Names, int] = {}

    def make(self, state: State, target: Path) -> None:
        """Makes the state in ``target``, which must not exist."""
        names = state.kind.names or Names.JOURNAL
        system = self._at(names, state.operations)
        chance = self._plan.chance(state)
        target.mkdir()
        if state.kind.is_power_cut:
            _PowerCut(system, state.kind, chance).write(target)
            return
        torn = self._torn(state, system, chance)
        write_tree(
            target,
            system.root,
            lambda node: node.entries or {},
            lambda node: torn[1] if node is torn[0] else node.content,
        )

    def _torn(
        self, state: State, system: FileSystem, chance: random.Random
    ) -> tuple[Node | None, bytes]:
        """The file that was being written, and what it then has."""
        if not state.kind.is_torn or state.operations >= len(self._plan.operations):
            return None, b""
        operation = self._plan.operations[state.operations]  # the one that was not finished
        if operation.kind != Kind.WRITE:
            return None, b""
        node = system.node_of(operation.handle)
        end = operation.first + chance.randrange(len(operation.data))
        if end < len(node.content):  # what overwrites is written by sectors
            end = max(operation.first, end // SECTOR_BYTES * SECTOR_BYTES)
        data = operation.data[: end - operation.first]
        content = bytearray(node.content)
        apply_change(content, Change(Kind.WRITE, operation.first, data, len(data), 0))
        return node, bytes(content)

    def _at(self, names: Names, operations: int) -> FileSystem:
        if names not in self._systems or self._done[names] > operations:
            self._systems[names] = FileSystem(names)
            self._done[names] = 0
        system = self._systems[names]
        for index in range(self._done[names], operations):
            system.apply(self._plan.operations[index])
        self._done[names] = operations
        return system


class _PowerCut:
    """What is left of a file system when the power fails."""

    def __init__(self, system: FileSystem, kind: StateKind, chance: random.Random) -> None:
        self._kind = kind
        self._chance = chance
        until = system.cuts(self._choose_cut)
        self._names_kept = max(until.values(), default=system.name_changes)
        kept = system.kept(until)
        self._entries = _entries_with(kept)
        self._root = system.root

    def _choose_cut(self, first: int, last: int) -> int:
        """Most often all or nothing, which are the usual outcomes; else anything between."""
        return self._chance.choice((first, last, self._chance.randint(first, last)))

    def write(self, target: Path) -> None:
        def entries_of(node: Node) -> dict[str, Node]:
            return self._entries.get(node, node.stable_entries)

        write_tree(target, self._root, entries_of, self._content)

    def _content(self, node: Node) -> bytes | bytearray:
        if not node.changes:
            return node.content
        fate = self._kind.fate or self._chance.choice(tuple(Fate))
        changes = self._possible(node.changes)
        content = bytearray(node.stable)
        if fate == Fate.LOST:
            return content
        if fate == Fate.PREFIX:
            changes = self._prefix(node, changes)
        if fate == Fate.SCATTERED:
            self._scatter(content, changes)
            return content
        for change in changes:
            apply_change(content, change)
        if fate == Fate.ZEROED:
            self._zero(content, node)
        return content

    def _possible(self, changes: list[Change]) -> list[Change]:
        """A truncation is a change of metadata: it has its place among those of names, and what
        was written after one that is lost is lost as well."""
        if self._kind.names == Names.DIRECTORY:
            return changes
        for index, change in enumerate(changes):
            if change.kind == Kind.TRUNCATE and change.names_before > self._names_kept:
                return changes[:index]
        return changes

    def _prefix(self, node: Node, changes: list[Change]) -> list[Change]:
        if not changes:
            return []
        kept = changes[: self._chance.randint(1, len(changes))]
        last = kept[-1]
        if last.kind == Kind.WRITE and last.size:
            end = last.offset + self._chance.randint(0, last.size)
            # What overwrites is written by sectors; where a file grew, its end may be anywhere.
            if end < len(node.stable) or self._chance.random() < 0.5:
                end = max(last.offset, end // SECTOR_BYTES * SECTOR_BYTES)
            size = end - last.offset
            kept[-1] = Change(Kind.WRITE, last.offset, last.data[:size], size, last.names_before)
        return kept

    def _scatter(self, content: bytearray, changes: list[Change]) -> None:
        """Each sector is as it was at some moment: with the first few of what was written to it."""
        pieces: dict[int, list[tuple[int, bytes]]] = {}
        for change in changes:
            if change.kind != Kind.WRITE:
                apply_change(content, change)
                continue
            at, end = change.offset, change.offset + change.size
            while at < end:
                sector = at // SECTOR_BYTES
                until = min(end, (sector + 1) * SECTOR_BYTES)
                data = change.data[at - change.offset : until - change.offset]
                pieces.setdefault(sector, []).append((at, data))
                at = until
        for written in pieces.values():
            kept = self._chance.choice((0, len(written), self._chance.randint(0, len(written))))
            for at, data in written[:kept]:
                apply_change(content, Change(Kind.WRITE, at, data, len(data), 0))

    def _zero(self, content: bytearray, node: Node) -> None:
        """Zeros where the file grew, from the beginning of a write or of a sector."""
        places = {change.offset for change in node.changes if change.kind == Kind.WRITE}
        places |= set(range(0, len(content), SECTOR_BYTES))
        possible = sorted(place for place in places if len(node.stable) <= place < len(content))
        if possible:
            start = self._chance.choice((possible[0], self._chance.choice(possible)))
            content[start:] = bytes(len(content) - start)


def _entries_with(kept: list[NameChange]) -> dict[Node, dict[str, Node]]:
    """The directories that differ from their stable entries."""
    found: dict[Node, dict[str, Node]] = {}
    for one in kept:
        for directory, name, node in one.entries:
            if directory not in found:
                found[directory] = dict(directory.stable_entries)
            set_entry(found[directory], name, node)
    return found

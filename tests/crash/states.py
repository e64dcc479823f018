"""Makes crash states of a trace: what the disk may hold when the program is cut short.

A state has a number. Number and seed decide everything about it, so it can be made again alone.
The first numbers, from 0 on, are the deaths of the process, one for each operation. All numbers
after them go through the other kinds in turn, and for each kind through all operations in a
scattered order.
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
    """What a loss of power leaves of the changes to a file since its last fsync."""

    LOST = "lost"  # none of them
    KEPT = "kept"  # all of them
    PREFIX = "prefix"  # the first ones; the last write of these is torn
    ZEROED = "zeroed"  # the new size, but zeros from some point on
    SCATTERED = "scattered"  # each sector as it was at some moment, whatever the order of writes


@dataclass(frozen=True, slots=True)
class StateKind:
    """A way to crash.

    If ``names`` is None, only the process dies and nothing that a call has done is lost; with
    ``is_torn`` it dies in the middle of a write. Otherwise the power fails; if ``fate`` is None,
    each file has a fate of its own.
    """

    names: Names | None = None
    fate: Fate | None = None
    is_torn: bool = False

    @property
    def is_power_cut(self) -> bool:
        """Whether everything that was not fsynced may be lost."""
        return self.names is not None

    def __str__(self) -> str:
        if self.names is None:
            return "death/torn" if self.is_torn else "death"
        return f"{self.names.value}/{self.fate.value if self.fate else 'mixed'}"


DEATH = StateKind()
# All kinds but the death of the process after a whole operation.
OTHER_KINDS: tuple[StateKind, ...] = (
    StateKind(is_torn=True),
    *(StateKind(names, fate) for names in Names for fate in (*Fate, None)),
)


@dataclass(frozen=True, slots=True)
class State:
    """One crash: the way it happens, and the number of operations before it."""

    number: int
    kind: StateKind
    operations: int
    marks: int  # how many marks the program has made before it


class Plan:
    """The states of a trace for one seed; there is no last one."""

    def __init__(self, operations: Sequence[Operation], seed: int) -> None:
        self.operations = operations
        self.seed = seed
        # A crash is just before the next operation with an effect, so it comes after the marks
        # that follow an operation: then most is promised.
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
        """Returns the state of that number."""
        if number < self.deaths:
            return self._at(number, DEATH, number)
        turn, kind = divmod(number - self.deaths, len(OTHER_KINDS))
        place = (turn * self._stride + kind * self.deaths // len(OTHER_KINDS)) % self.deaths
        return self._at(number, OTHER_KINDS[kind], place)

    def _at(self, number: int, kind: StateKind, place: int) -> State:
        return State(number, kind, self._ends[place], self._marks[place])

    def chance(self, state: State) -> random.Random:
        """Returns the random numbers of one state, from their beginning."""
        return random.Random(f"{self.seed}/{state.number}")


def _coprime(count: int) -> int:
    """Returns a stride near the golden section of ``count`` that visits all of its places."""
    stride = max(1, round(count * 0.618))
    while gcd(stride, count) != 1:
        stride += 1
    return stride


class Stage:
    """Makes states of a plan. This is cheap in the order of their operations.

    For each kind of names it keeps a file system and moves it forward; an earlier state starts it
    anew. Not thread-safe.
    """

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
        """Returns the file that the process was writing, and the content that it then has."""
        if not state.kind.is_torn or state.operations >= len(self._plan.operations):
            return None, b""
        operation = self._plan.operations[state.operations]  # the crash interrupts this one
        if operation.kind != Kind.WRITE:
            return None, b""
        node = system.node_of(operation.handle)
        end = operation.first + chance.randrange(len(operation.data))
        if end < len(node.content):  # a write over old content goes by sectors
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
    """What is left of a file system when the power fails.

    ``chance`` decides everything that the kind of crash leaves open.
    """

    def __init__(self, system: FileSystem, kind: StateKind, chance: random.Random) -> None:
        self._kind = kind
        self._chance = chance
        until = system.cuts(self._choose_cut)
        self._names_kept = max(until.values(), default=system.name_changes)
        kept = system.kept(until)
        self._entries = _entries_with(kept)
        self._root = system.root

    def _choose_cut(self, first: int, last: int) -> int:
        """Chooses all or nothing most often, as these are the usual outcomes."""
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
        """Returns the changes of a file that are possible with the changes of names that are kept.

        A truncation is a change of metadata and has its place among those of names. If it is lost,
        all later changes of the file are lost as well.
        """
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
            # A write over old content goes by sectors; where a file grew, it may end anywhere.
            if end < len(node.stable) or self._chance.random() < 0.5:
                end = max(last.offset, end // SECTOR_BYTES * SECTOR_BYTES)
            size = end - last.offset
            kept[-1] = Change(Kind.WRITE, last.offset, last.data[:size], size, last.names_before)
        return kept

    def _scatter(self, content: bytearray, changes: list[Change]) -> None:
        """Leaves each sector as it was at some moment: it has the first of the writes to it."""
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
        """Puts zeros where the file grew, from the beginning of some write or sector on."""
        places = {change.offset for change in node.changes if change.kind == Kind.WRITE}
        places |= set(range(0, len(content), SECTOR_BYTES))
        possible = sorted(place for place in places if len(node.stable) <= place < len(content))
        if possible:
            start = self._chance.choice((possible[0], self._chance.choice(possible)))
            content[start:] = bytes(len(content) - start)


def _entries_with(kept: list[NameChange]) -> dict[Node, dict[str, Node]]:
    """Returns the entries of the directories that differ from their stable entries."""
    found: dict[Node, dict[str, Node]] = {}
    for one in kept:
        for directory, name, node in one.entries:
            if directory not in found:
                found[directory] = dict(directory.stable_entries)
            set_entry(found[directory], name, node)
    return found

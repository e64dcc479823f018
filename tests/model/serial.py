"""What transactions must do, in plain Python: the model makes one commit after the other.

A history is in order if every transaction could have run alone at the moment of its commit. The
model knows which keys each commit touched, so it can tell whether a transaction must fail.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from model.topics import matches

Key: TypeAlias = tuple[str, int]
"""(topic, timestamp)"""
Written: TypeAlias = tuple[int, bytes]
"""A value with a number that rises with each write."""
Range: TypeAlias = "tuple[str, int, int | None]"
"""(filter, start, end)"""
Required: TypeAlias = "bytes | Literal[True] | None"
"""The value that a message must have; True: any value; None: there must be no message."""


def in_range(key: Key, keys: Range) -> bool:
    """Returns whether a range has the message with this key."""
    filter, start, end = keys
    return start <= key[1] and (end is None or key[1] < end) and matches(filter, key[0])


@dataclass
class Generation:
    """Messages, the newest of a key last; one of each key unless all are kept."""

    keeps_all: bool
    """Whether a message leaves those of the same topic and timestamp alone (layout columnar)."""
    messages: dict[Key, list[Written]] = field(default_factory=dict)


@dataclass
class State:
    """The messages of a shard, by generation; the last generation is the current one."""

    generations: list[Generation]
    writes: int = 0

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    def write(self, key: Key, value: bytes) -> None:
        """Writes a value, which replaces others unless the current generation keeps all.

        It replaces those of the generations that do not keep all.
        """
        self.writes += 1
        if not self.current.keeps_all:
            for generation in self.generations:
                if not generation.keeps_all:
                    generation.messages.pop(key, None)
        self.current.messages.setdefault(key, []).append((self.writes, value))

    def delete(self, keys: Range) -> set[Key]:
        """Deletes the messages of a range from all generations; returns their keys."""
        gone = {key for g in self.generations for key in g.messages if in_range(key, keys)}
        for key in gone:
            self.take_since(key, 0)
        return gone

    def take_since(self, key: Key, number: int) -> None:
        """Removes what was written to a key after ``number``, from all generations."""
        for generation in self.generations:
            written = generation.messages.pop(key, [])
            older = [one for one in written if one[0] <= number]
            if older:
                generation.messages[key] = older

    def get(self, key: Key) -> bytes | None:
        """Returns the newest value of a key in the newest generation that has one, or None."""
        for generation in reversed(self.generations):
            if key in generation.messages:
                return generation.messages[key][-1][1]
        return None

    def messages(self) -> list[tuple[str, int, bytes]]:
        """Returns all messages in the order in which they were written."""
        found = [
            (number, *key, value)
            for generation in self.generations
            for key, kept in generation.messages.items()
            for number, value in kept
        ]
        return [(topic, timestamp, value) for _, topic, timestamp, value in sorted(found)]

    def scan(self, keys: Range) -> list[tuple[str, int, bytes]]:
        """Returns the messages of a range by timestamp, topic and order of writing."""
        found = [
            (key[1], key[0], *written)
            for generation in self.generations
            for key, kept in generation.messages.items()
            for written in kept
            if in_range(key, keys)
        ]
        return [(topic, timestamp, value) for timestamp, topic, _, value in sorted(found)]


@dataclass
class Client:
    """An open transaction, with the state that it sees."""

    start: int
    view: State
    reads: list[Range] = field(default_factory=list)
    requirements: list[tuple[Key, Required]] = field(default_factory=list)
    operations: list[tuple[Key, bytes] | Range] = field(default_factory=list)
    writes_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.writes_before = self.view.writes

    def write(self, key: Key, value: bytes) -> None:
        """Writes a value, which replaces the transaction's own earlier write of the key."""
        self.view.take_since(key, self.writes_before)
        self.view.write(key, value)
        self.operations = [o for o in self.operations if len(o) == 3 or o[0] != key]
        self.operations.append((key, value))

    def delete(self, keys: Range) -> None:
        self.view.delete(keys)
        self.operations.append(keys)

    def reads_own(self, key: Key) -> bool:
        """Returns whether its own operations alone decide the value of this key."""
        for operation in reversed(self.operations):
            if operation[0] == key:
                return True
            if len(operation) == 3 and in_range(key, operation):
                return False
        return False

    @property
    def deletes(self) -> Iterator[Range]:
        return (o for o in self.operations if len(o) == 3)

    @property
    def changes(self) -> bool:
        return bool(self.operations)


def looked_at(client: Client) -> list[Range]:
    """Returns the ranges that a transaction has read, deletes, or has requirements for."""
    required = [(key[0], key[1], key[1] + 1) for key, _ in client.requirements]
    return [*client.reads, *client.deletes, *required]


def overlap(one: Range, other: Range) -> bool:
    """Returns whether there may be a message in both ranges."""
    ends = [keys[2] for keys in (one, other) if keys[2] is not None]
    in_time = max(one[1], other[1]) < min(ends, default=2**63)
    return in_time and intersect(one[0].split("/"), other[0].split("/"))


def intersect(one: list[str], other: list[str]) -> bool:
    """Returns whether some topic matches both filters; it ignores the rule for $ topics."""
    if one[:1] == ["#"] or other[:1] == ["#"]:
        return True
    if not one or not other:
        return [*one, *other] in ([], ["#"])
    same = one[0] == other[0] or "+" in (one[0], other[0])
    return same and intersect(one[1:], other[1:])


class SerialModel:
    """The committed messages of a shard, and the keys that each commit touched."""

    def __init__(self, *, keeps_all: bool) -> None:
        self.state = State([Generation(keeps_all)])
        self.commits: list[set[Key]] = []
        self.deletes: list[list[Range]] = []
        self.forgotten_at = 0

    def begin(self) -> Client:
        return Client(len(self.commits), copy.deepcopy(self.state))

    def apply(self, operations: list[tuple[Key, bytes] | Range]) -> None:
        """Makes one commit of operations in their order: a delete also removes earlier writes."""
        touched: set[Key] = set()
        deletes = [operation for operation in operations if len(operation) == 3]
        for operation in operations:
            if len(operation) == 3:
                touched |= self.state.delete(operation)
            else:
                self.state.write(*operation)
                touched.add(operation[0])
        self.commits.append(touched)
        self.deletes.append(deletes)

    def rotate(self, *, keeps_all: bool | None = None) -> None:
        """Begins a generation, which keeps all or not as said, or as the one before."""
        before = self.state.current.keeps_all
        keeps_all = before if keeps_all is None else keeps_all
        self.state.generations.append(Generation(keeps_all))
        if keeps_all != before:
            self._forget()

    def drop_oldest(self) -> None:
        del self.state.generations[0]
        self._forget()

    def _forget(self) -> None:
        """Makes a commit after which no transaction that is open may commit anything."""
        self.commits.append(set())
        self.deletes.append([])
        self.forgotten_at = len(self.commits)

    def must_fail(self, client: Client) -> bool:
        """Returns whether a newer commit touched what the transaction read, deletes or requires."""
        if not client.changes and not client.requirements:
            return False
        if self.forgotten_at > client.start:
            return True
        newer = set().union(*self.commits[client.start :])
        return any(in_range(key, keys) for key in newer for keys in looked_at(client))

    def may_fail(self, client: Client) -> bool:
        """Returns whether the transaction looked where a newer commit has deleted a range.

        It may then fail without need, since the database remembers a delete as a range.
        """
        newer = [keys for deletes in self.deletes[client.start :] for keys in deletes]
        return any(overlap(keys, other) for keys in newer for other in looked_at(client))

    def unmet(self, client: Client) -> list[Key]:
        """Returns the keys of the requirements that do not hold now."""
        return [key for key, value in client.requirements if not self._is_met(key, value)]

    def _is_met(self, key: Key, value: Required) -> bool:
        found = self.state.get(key)
        return found is not None if value is True else found == value

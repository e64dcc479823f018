"""The messages at an endpoint, each of which waits, is given to a client, or is done with."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topicdb import _core
from topicdb._core import Batch
from topicdb.follow.positions import Place
from topicdb.types import Message

# The owner of a message: WAITING for a client; DONE with; UNWANTED by the endpoint; or any other
# number, which is that of the client that has the message.
WAITING = 0
DONE = (1 << 32) - 1
UNWANTED = DONE - 1
_ROW_BYTES = 16  # what a message has in a batch beside its topic and its value


class Stored(NamedTuple):
    """The messages of a ``Held``: rows of a batch from ``begin`` on. Immutable.

    ``kept``: the indexes whose messages are there, in order. None: those of all.
    """

    batch: Batch
    begin: int
    kept: list[int] | None = None

    def message(self, index: int) -> Message:
        """Returns the message of an index. REQUIRES: it is there."""
        if self.kept is None:
            return self.batch[self.begin + index]
        return self.batch[bisect_left(self.kept, index)]


class Held:
    """Messages that came together: rows of a batch, from ``begin`` to before ``end``.

    It has the owner of each message, whose ``index`` counts from ``begin``. Not thread-safe, but
    any thread may read ``stored``.
    """

    __slots__ = (
        "_places",
        "_sizes",
        "again",
        "expires",
        "hint",
        "is_before_gap",
        "left",
        "nbytes",
        "owners",
        "rows",
        "serials",
        "stored",
    )

    def __init__(
        self,
        batch: Batch,
        rows: npt.NDArray[np.uint32],
        begin: int,
        end: int,
        states: npt.NDArray[np.uint32] | None,
    ) -> None:
        serials = batch.serials
        assert serials is not None
        self.stored = Stored(batch, begin)
        self.nbytes = batch.nbytes * (end - begin) // max(len(batch), 1)  # about
        self._sizes: npt.NDArray[np.int64] | None = None  # of messages, when they are first needed
        self.serials = serials[begin:end]
        self.rows = rows[begin:end]
        self._places: list[Place] | None = None  # made when they are first needed
        self.owners = array("I", bytes(4 * (end - begin)))
        self.left = end - begin  # messages that are wanted and not done with
        if states is not None:
            self.owners = array("I", states.tobytes())
            self.left = int(np.count_nonzero(states == WAITING))
        self.hint = 0  # no message before this index waits
        self.again: bytearray | None = None  # of each message, whether a client had it before
        self.is_before_gap = False  # whether messages that came after these are done with and gone
        self.expires: dict[int, int] | None = None  # when messages expire (µs), by their indexes

    def place(self, index: int) -> Place:
        if self._places is not None:
            return self._places[index]
        return Place(int(self.serials[index]), int(self.rows[index]))

    @property
    def places(self) -> list[Place]:
        if self._places is None:
            pairs = zip(self.serials.tolist(), self.rows.tolist(), strict=True)
            self._places = [Place(serial, row) for serial, row in pairs]
        return self._places

    def find(self, place: Place) -> int | None:
        """Returns the index of the message at this place, or None if it is not here."""
        places = self.places
        index = bisect_left(places, place)
        return index if index < len(places) and places[index] == place else None

    def message(self, index: int) -> Message:
        """Returns a message that is not done with."""
        return self.stored.message(index)

    def pack(self) -> None:
        """Copies what is not done with, so that the memory of the rest can go.

        It does so only if that is at most half of the bytes, so that a message is copied about
        twice in all, even if this is called after each acknowledgement.
        """
        is_left = np.frombuffer(self.owners, np.uint32) < UNWANTED
        left = np.flatnonzero(is_left).tolist()
        if self._sizes is None:
            self._sizes = np.zeros(len(self.owners), np.int64)
            for index in left:
                topic, _, value = self.message(index)
                self._sizes[index] = len(topic) + len(value) + _ROW_BYTES
        if 2 * int(self._sizes[is_left].sum()) <= self.nbytes:
            batch = _core.batch_of_rows([self.message(index) for index in left])
            self.stored, self.nbytes = Stored(batch, 0, left), batch.nbytes

    def belong_to(self, indexes: Sequence[int], client: int) -> bool:
        """Returns whether this client has all of these messages."""
        if isinstance(indexes, range):
            return self.owners[indexes.start : indexes.stop].count(client) == len(indexes)
        return all(self.owners[index] == client for index in indexes)

    def expiring(self) -> Iterable[tuple[int, int]]:
        """Returns the index of each message that expires, and when it does (µs)."""
        return () if self.expires is None else self.expires.items()

    def next_waiting(self, start: int) -> int | None:
        try:
            return self.owners.index(WAITING, start)
        except ValueError:
            return None

    def count_before(self, place: Place) -> int:
        """Returns how many messages that are wanted and not done with are before this place."""
        if self.left == 0 or self.place(0) >= place:
            return 0
        if self.place(len(self.owners) - 1) < place:
            return self.left
        return sum(
            owner < UNWANTED and self.place(index) < place
            for index, owner in enumerate(self.owners)
        )

    def mark_given_before(self, place: Place) -> None:
        """Notes that a client had the messages before this place before a restart."""
        if self.place(0) < place:
            count = len(self.owners)
            self.mark_given([index for index in range(count) if self.place(index) < place])

    def was_given(self, index: int) -> bool:
        return self.again is not None and bool(self.again[index])

    def mark_given(self, indexes: Sequence[int]) -> None:
        if self.again is None:
            self.again = bytearray(len(self.owners))
        for index in indexes:
            self.again[index] = 1


class Lent(NamedTuple):
    """Messages of one batch that are given to a client."""

    held: Held
    indexes: Sequence[int]  # a range if no message between them is left out
    stored: Stored  # of ``held`` when they were given: it has them also when others are done with

    @property
    def is_whole_batch(self) -> bool:
        return len(self.indexes) == len(self.stored.batch)


def without_repeats(lents: Sequence[Lent]) -> list[Lent]:
    """Returns the same messages, but each only once."""
    found: list[Lent] = []
    seen: dict[Held, set[int]] = {}
    for lent in lents:
        known = seen.setdefault(lent.held, set())
        new = [index for index in lent.indexes if index not in known]
        known.update(new)
        if len(new) == len(lent.indexes):
            found.append(lent)
        elif new:
            found.append(lent._replace(indexes=new))
    return found


class Spool:
    """The messages at an endpoint, in the order of the log.

    ``messages`` counts those that are not done with; ``nbytes`` are about the bytes of their
    batches, which also have messages that are done with: ``pack`` lets go of these. The endpoint's
    ``Contents`` own this object. Not thread-safe.
    """

    def __init__(self) -> None:
        self._chunks: deque[Held] = deque()
        self._settled: set[Held] = set()  # chunks of which messages were settled since ``pack``
        self.messages = 0
        self.nbytes = 0

    def add(self, held: Held) -> None:
        if held.left > 0:
            self._chunks.append(held)
            self.messages += held.left
            self.nbytes += held.nbytes
        elif self._chunks and DONE in held.owners:
            self._chunks[-1].is_before_gap = True

    def low(self) -> Place | None:
        """Returns the place of the first message that is not done with, or None without any."""
        if not self._chunks:
            return None
        held = self._chunks[0]  # it has such a message, or it would have been removed
        return held.place(int(np.argmax(np.frombuffer(held.owners, np.uint32) < UNWANTED)))

    def lend(
        self,
        client: int,
        count: int,
        accepts: Callable[[Held, int], bool] | None,
        before: Place | None = None,
    ) -> Lent | None:
        """Gives a client the first messages that wait and that it accepts, at most ``count``.

        They are of one batch, and all before a place, unless that is None. Returns None if there is
        no such message.
        """
        for held in self._chunks:
            if held.hint >= len(held.owners):
                continue
            indexes = self._waiting(held, count, accepts)
            if before is not None:
                indexes = [index for index in indexes if held.place(index) < before]
            if indexes:
                self._give(held, indexes, client)
                return Lent(held, indexes, held.stored)
        return None

    def _waiting(
        self, held: Held, count: int, accepts: Callable[[Held, int], bool] | None
    ) -> Sequence[int]:
        index = held.next_waiting(held.hint)
        held.hint = len(held.owners) if index is None else index
        found: list[int] = []
        size = len(held.owners)
        if accepts is None and index is not None:
            stop = min(index + count, size)
            if not any(held.owners[index:stop]):  # the usual case: all of them wait
                return range(index, stop)
        while index is not None and len(found) < count:
            if accepts is None or accepts(held, index):
                found.append(index)
            index = held.next_waiting(index + 1)
        return found

    @staticmethod
    def _give(held: Held, indexes: Sequence[int], client: int) -> None:
        first, last = indexes[0], indexes[-1]
        if last - first + 1 == len(indexes):
            held.owners[first : last + 1] = array("I", [client]) * len(indexes)
        else:
            for index in indexes:
                held.owners[index] = client

    def find(self, place: Place) -> tuple[Held, int] | None:
        for held in self._chunks:
            if held.place(len(held.owners) - 1) < place:
                continue
            index = held.find(place)
            return None if index is None else (held, index)
        return None

    def settle(self, held: Held, indexes: Sequence[int]) -> None:
        """Notes that messages are done with. REQUIRES: they are here, and were not done with."""
        self._give(held, indexes, DONE)
        held.left -= len(indexes)
        self.messages -= len(indexes)
        self._settled.add(held)
        if held.left == 0:
            self._settled.discard(held)
            number = self._chunks.index(held)
            if number > 0:
                self._chunks[number - 1].is_before_gap = True
            del self._chunks[number]
            self.nbytes -= held.nbytes

    def pack(self) -> None:
        """Frees memory of messages that are done with.

        ``nbytes`` is then at most about twice the bytes of those that are not.
        """
        for held in self._settled:
            self.nbytes -= held.nbytes
            held.pack()
            self.nbytes += held.nbytes
        self._settled.clear()

    def give_back(self, client: int | None, again: bool = True) -> None:
        """Lets all messages that a client has wait again; None: those of all clients.

        ``again``: whether they are marked as given before.
        """
        for held in self._chunks:
            owners = np.frombuffer(held.owners, np.uint32)
            if client is None:
                theirs = (owners != WAITING) & (owners < UNWANTED)
            else:
                theirs = owners == client
            indexes = np.flatnonzero(theirs).tolist()
            del owners, theirs  # their memory is that of held.owners, which is changed next
            self._release(held, indexes, again=again)

    def release(self, held: Held, index: int) -> None:
        """Lets a message wait again, marked as given before."""
        self._release(held, [index], again=True)

    @staticmethod
    def _release(held: Held, indexes: Sequence[int], *, again: bool) -> None:
        for index in indexes:
            held.owners[index] = WAITING
        if indexes:
            held.hint = min(held.hint, indexes[0])
            if again:
                held.mark_given(indexes)

    def drop_before(self, place: Place) -> int:
        """Notes that all messages before this place are done with. Returns how many were not."""
        dropped = 0
        for held in list(self._chunks):
            if held.place(0) >= place:
                break
            indexes = [
                index
                for index, owner in enumerate(held.owners)
                if owner < UNWANTED and held.place(index) < place
            ]
            if indexes:
                self.settle(held, indexes)
                dropped += len(indexes)
        return dropped

    def has_before(self, place: Place) -> bool:
        """Returns whether a message before this place is not done with."""
        low = self.low()
        return low is not None and low < place

    def count_of(self, client: int) -> int:
        """Returns how many messages a client has."""
        return sum(held.owners.count(client) for held in self._chunks)

    def clear(self) -> None:
        """Removes all messages. Those that refer to one find that it is done with."""
        for held in self._chunks:
            held.owners = array("I", [DONE]) * len(held.owners)
            held.left = 0
        self._chunks.clear()
        self._settled.clear()
        self.messages = self.nbytes = 0

    def runs(self) -> list[tuple[Place, Place]]:
        """Returns the first and the last place of each run of messages that are not done with.

        A message that is done with separates two runs. One that nobody wants does not.
        """
        runs: list[tuple[Place, Place]] = []
        joins = False
        for held in self._chunks:
            if held.left == len(held.owners):
                _extend(runs, held.place(0), held.place(held.left - 1), joins)
                joins = True
            else:
                joins = self._runs_within(held, runs, joins)
            joins = joins and not held.is_before_gap
        return runs

    @staticmethod
    def _runs_within(held: Held, runs: list[tuple[Place, Place]], joins: bool) -> bool:
        for index, owner in enumerate(held.owners):
            if owner == DONE:
                joins = False
            elif owner < UNWANTED:
                _extend(runs, held.place(index), held.place(index), joins)
                joins = True
        return joins

    def first_waiting(self, accepts: Callable[[Held, int], bool] | None = None) -> Place | None:
        """Returns the place of the first message that waits and is accepted, or None."""
        for held in self._chunks:
            index = held.next_waiting(held.hint)
            while index is not None:
                if accepts is None or accepts(held, index):
                    return held.place(index)
                index = held.next_waiting(index + 1)
        return None

    def chunks(self) -> Iterable[Held]:
        """Returns all chunks, of which each has a message that is not done with."""
        return self._chunks

    def __iter__(self) -> Iterator[tuple[Held, int]]:
        """Yields the chunk and the index of each message that is wanted and not done with."""
        for held in list(self._chunks):
            for index, owner in enumerate(list(held.owners)):
                if owner < UNWANTED:
                    yield held, index


def _extend(runs: list[tuple[Place, Place]], first: Place, last: Place, joins: bool) -> None:
    if joins:
        runs[-1] = (runs[-1][0], last)
    else:
        runs.append((first, last))

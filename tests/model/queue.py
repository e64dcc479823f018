"""What a buffer queue must do, in plain Python and as simply as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class ModelCursor:
    """A cursor of the queue, by numbers of items.

    It has still to pop the items in ``returned`` and all from ``next`` on.
    """

    next: int
    returned: set[int] = field(default_factory=set)
    in_flight: set[int] = field(default_factory=set)


class ModelQueue:
    """Keeps all items by number and never frees one; a cursor knows which it has still to pop.

    ``weights`` has what a sizer said when an item was appended.
    """

    def __init__(self) -> None:
        self.items: dict[int, bytes] = {}
        self.weights: dict[int, int] = {}
        self.next = 1
        self.cursors = {"default": ModelCursor(1)}

    def append(self, items: list[bytes], sizer: Callable[[bytes], int] | None = None) -> range:
        """Appends items; returns their numbers."""
        first = self.next
        for item in items:
            self.items[self.next] = item
            if sizer is not None:
                self.weights[self.next] = sizer(item)
            self.next += 1
        return range(first, self.next)

    def size(self, number: int) -> int:
        """Returns what an item counts for the limit of a pop."""
        return self.weights.get(number, len(self.items[number]))

    def waiting(self, name: str) -> list[int]:
        """Returns the items that the cursor has still to pop, in the order of popping."""
        cursor = self.cursors[name]
        return sorted(cursor.returned) + [n for n in sorted(self.items) if n >= cursor.next]

    def pop(
        self,
        name: str,
        count: int,
        limit: int,
        rule: str,
        stop_before: Callable[[bytes], bool] | None = None,
    ) -> list[int]:
        taken: list[int] = []
        for number in self.waiting(name):
            left = limit - sum(map(self.size, taken))
            if len(taken) == count or left <= 0:
                break
            if rule == "at_most" and taken and self.size(number) > left:
                break
            taken.append(number)
        if stop_before is not None:
            for index, number in enumerate(taken):
                if stop_before(self.items[number]):
                    taken = taken[:index]
                    break
        cursor = self.cursors[name]
        for number in taken:
            cursor.returned.discard(number)
            cursor.in_flight.add(number)
            cursor.next = max(cursor.next, number + 1)
        return taken

    def ack(self, name: str, numbers: list[int]) -> None:
        cursor = self.cursors[name]
        cursor.in_flight.difference_update(numbers)
        cursor.returned.difference_update(numbers)

    def nack(self, name: str, numbers: list[int]) -> None:
        cursor = self.cursors[name]
        back = cursor.in_flight.intersection(numbers)
        cursor.in_flight -= back
        cursor.returned |= back

    def drop(self, name: str, numbers: list[int]) -> None:
        """Drops ``numbers`` for a cursor, after the append that made no room for them.

        REQUIRES: they are its oldest waiting items.
        """
        assert numbers == self.waiting(name)[: len(numbers)]
        cursor = self.cursors[name]
        for number in numbers:
            cursor.returned.discard(number)
            cursor.next = max(cursor.next, number + 1)

    def purge(self) -> None:
        for cursor in self.cursors.values():
            cursor.in_flight.clear()
            cursor.returned.clear()
            cursor.next = self.next

    def reopen(self) -> None:
        """Closes and opens the queue: items in flight are to be popped again."""
        for cursor in self.cursors.values():
            cursor.returned |= cursor.in_flight
            cursor.in_flight.clear()

    def oldest_kept(self) -> int:
        """Returns a number; all cursors have acknowledged every item before it."""
        return min(
            min([*cursor.returned, *cursor.in_flight, cursor.next])
            for cursor in self.cursors.values()
        )

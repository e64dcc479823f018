"""Sinks and items that the tests of forwarders share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import topicdb

QUICK: dict[str, Any] = {"retry_min": 0.001, "retry_max": 0.01}


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def first_arrivals(items: Iterable[bytes]) -> list[bytes]:
    return list(dict.fromkeys(items))


class Recorder:
    """A sink that keeps what arrives, and fails where ``fail`` raises an error."""

    def __init__(self, fail: Callable[[list[bytes]], object] = lambda items: None) -> None:
        self.batches: list[list[bytes]] = []
        self.opened = self.closed = 0
        self._fail = fail

    @property
    def items(self) -> list[bytes]:
        return [item for batch in self.batches for item in batch]

    def open(self) -> None:
        self.opened += 1

    def deliver(self, items: list[bytes]) -> None:
        self._fail(items)
        self.batches.append(items)

    def close(self) -> None:
        self.closed += 1


class Held:
    """An AsyncSink whose batches the test confirms, through the futures in ``begun``."""

    def __init__(self) -> None:
        self.begun: list[tuple[list[bytes], Future[None]]] = []
        self.opened = self.closed = 0

    def open(self) -> None:
        self.opened += 1

    def begin(self, items: list[bytes]) -> Future[None]:
        future: Future[None] = Future()
        self.begun.append((items, future))
        return future

    def close(self) -> None:
        self.closed += 1


def waiting(queue: topicdb.Queue) -> list[bytes]:
    """Returns the items that a forwarder has left in the queue."""
    popped = queue.pop(count=1_000_000)
    queue.nack(popped.ref)
    return popped.items

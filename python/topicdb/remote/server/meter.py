"""Counts the calls, messages and bytes of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace


@dataclass
class Counts:
    """Counts of the calls of one name; ``seconds`` is the time that they took together."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    running: int = 0


@dataclass
class Told:
    """Calls, messages and bytes since the server began; ``refusals`` counts errors by class."""

    by_call: dict[str, Counts] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    messages_received: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    bytes_sent: int = 0


class Meter:
    """Counts the calls, messages and bytes of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = Told()

    def told(self) -> Told:
        """Returns a copy of what was counted."""
        with self._lock:
            by_call = {call: replace(counts) for call, counts in self._told.by_call.items()}
            return replace(self._told, by_call=by_call, refusals=dict(self._told.refusals))

    @contextmanager
    def measured(self, call: str) -> Iterator[None]:
        """Counts the block as a call with this name."""
        with self._lock:
            counts = self._told.by_call.setdefault(call, Counts())
            counts.running += 1
        began = time.monotonic()
        failed = True
        try:
            yield
            failed = False
        except GeneratorExit:
            failed = False  # the client has seen enough
            raise
        finally:
            with self._lock:
                counts.running -= 1
                counts.calls += 1
                counts.errors += failed
                counts.seconds += time.monotonic() - began

    def refused(self, kind: str) -> None:
        """Counts a call that was not let in, by the class of the error."""
        with self._lock:
            self._told.refusals[kind] = self._told.refusals.get(kind, 0) + 1

    def received(self, messages: int, size: int) -> None:
        """Counts messages that clients sent to be stored."""
        with self._lock:
            self._told.messages_received += messages
            self._told.bytes_received += size

    def sent(self, messages: int, size: int) -> None:
        """Counts messages that were sent to a client."""
        with self._lock:
            self._told.messages_sent += messages
            self._told.bytes_sent += size

"""An engine that is broken on purpose: it writes what it has acknowledged when it is closed."""

from __future__ import annotations

from conforming import ROOT  # noqa: F401 - it lets the example be found

from examples.memory_engine.journal import JournalEngine


class LossyEngine(JournalEngine):
    """Keeps its records in memory until it is closed, so a process that is killed loses them."""

    def __init__(self, path: str, shards: int) -> None:
        self._late: list[tuple[object, str]] = []
        super().__init__(path, shards)

    def record(self, change: object, durability: str) -> None:
        self._late.append((change, durability))

    def close(self) -> None:
        with self.changed:
            late, self._late = self._late, []
            for change, durability in late:
                super().record(change, durability)
            super().close()


def open_lossy(path: str) -> LossyEngine:
    return LossyEngine(path, 2)

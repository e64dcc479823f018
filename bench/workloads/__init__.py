"""The four workloads that TopicDB is measured with: real or seeded messages, alike everywhere."""

from __future__ import annotations

from collections.abc import Callable

from workloads import fleet, flights, metrics, plant
from workloads.rows import SEED, Columns, Row, Workload, digest

MAKERS: dict[str, Callable[[int, int], Columns]] = {
    "flights": flights.make,
    "metrics": metrics.make,
    "fleet": fleet.make,
    "plant": plant.make,
}

__all__ = ["MAKERS", "SEED", "Row", "Workload", "digest", "make"]


def make(name: str, rows: int, seed: int = SEED) -> Workload:
    """Returns the first ``rows`` messages of a workload.

    Raises ValueError if there is no workload ``name`` (the error names those that there are), or
    if ``rows`` is below 1.
    """
    if name not in MAKERS:
        raise ValueError(f"no workload {name!r}; there are {', '.join(MAKERS)}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    return Workload(name, MAKERS[name](rows, seed))

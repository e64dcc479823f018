"""The same messages in several orders of arrival: by time, and as data arrive in practice.

The messages are a year of 1,000 devices, which report in turns at equal steps; the values are those
of `metrics`. The tables are made one after the other: of all messages together, only the order of
arrival is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workloads import metrics
from workloads.rows import BATCH_ROWS, SCHEMA, SEED, START_US, Random

DEVICES = 1_000
YEAR_US = 365 * 24 * 3_600 * 1_000_000
DAY, MONTH = 1 / 365, 1 / 12  # of the year
RESTARTS = 30
VALUES = 100_000  # distinct values; they repeat after these
ORDERS = ("in_order", "backfill", "late", "sawtooth")

Index = npt.NDArray[np.int64]


def arrival(order: str, rows: int, seed: int = SEED) -> Index:
    """Returns the numbers of the messages, counted by time, in the order in which they arrive.

    - ``in_order``: by time.
    - ``backfill``: one device's year after the other.
    - ``late``: by time, but 1 % of the messages come a day late and 0.1 % a month late.
    - ``sawtooth``: 30 runs through the year, as of a clock that is set back after each run.

    Raises ValueError if there is no such order.
    """
    index = np.arange(rows, dtype=np.int64)
    if order == "in_order":
        return index
    if order == "backfill":
        return np.lexsort((index, index % DEVICES))
    if order == "sawtooth":
        return np.lexsort((index, index // DEVICES % RESTARTS))
    if order == "late":
        chance = np.array(Random(seed, "late").integers(1_000, rows))
        at = index + np.where(chance < 10, int(rows * DAY), 0)
        return np.argsort(np.where(chance == 999, index + int(rows * MONTH), at), kind="stable")
    raise ValueError(f"no order {order!r}; there are {', '.join(ORDERS)}")


def tables(order: str, rows: int, seed: int = SEED) -> Iterator[pa.Table]:
    """Makes tables of the messages in an order of arrival."""
    values = pa.array(metrics.make(min(rows, VALUES), seed).values, pa.binary())
    names = pa.array([metrics.topic(number) for number in range(DEVICES)])
    step_us = YEAR_US // rows
    arriving = arrival(order, rows, seed)
    for first in range(0, rows, BATCH_ROWS):
        index = arriving[first : first + BATCH_ROWS]
        times = pa.array(START_US + index * step_us).cast(SCHEMA.field("timestamp").type)
        columns = [names.take(pa.array(index % DEVICES)), times]
        columns.append(values.take(pa.array(index % len(values))))
        yield pa.Table.from_arrays(columns, schema=SCHEMA)

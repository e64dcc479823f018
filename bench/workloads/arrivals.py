"""The same messages in several orders of arrival: in order, and as data come in fact.

A year of 1,000 devices, each at equal steps, whose values are those of `metrics`. Any number of
messages is made batch after batch, so that memory does not bound it.
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
DAY, MONTH = 1 / 365, 1 / 12
RESTARTS = 30
VALUES = 100_000  # different ones
ORDERS = ("in_order", "backfill", "late", "sawtooth")

Index = npt.NDArray[np.int64]


def arrival(order: str, rows: int, seed: int = SEED) -> Index:
    """The messages, counted by their times, in the order in which they arrive.

    - ``in_order``: by their times.
    - ``backfill``: one device's year after the other.
    - ``late``: 1 % of them a day late, 0.1 % a month.
    - ``sawtooth``: a clock that is set back 30 times to the beginning: each time the same period.
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
    """The messages in an order of arrival."""
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

"""Messages as columns, batches and Arrow tables, and a digest by which two readers compare them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = 20_130_101
START_US = 1_700_000_000_000_000
BATCH_ROWS = 10_000
Row = tuple[str, int, bytes]

SCHEMA = pa.schema(
    [("topic", pa.string()), ("timestamp", pa.timestamp("us", "UTC")), ("value", pa.binary())]
)


@dataclass(frozen=True)
class Columns:
    """Messages in the order in which they are sent; timestamps are µs since 1970-01-01 UTC."""

    topics: list[str]
    timestamps: npt.NDArray[np.int64]
    values: list[bytes]


@dataclass(frozen=True)
class Workload:
    name: str
    columns: Columns

    def __len__(self) -> int:
        return len(self.columns.topics)

    @cached_property
    def rows(self) -> list[Row]:
        columns = self.columns
        return list(zip(columns.topics, columns.timestamps.tolist(), columns.values, strict=True))

    @cached_property
    def table(self) -> pa.Table:
        columns = self.columns
        arrays = [
            pa.array(columns.topics, pa.string()),
            pa.array(columns.timestamps).cast(SCHEMA.field("timestamp").type),
            pa.array(columns.values, pa.binary()),
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    @cached_property
    def raw_bytes(self) -> int:
        """The raw bytes of P7: topic, 8 bytes of timestamp, and value of each message."""
        topics = sum(len(topic.encode()) for topic in self.columns.topics)
        return topics + 8 * len(self) + sum(map(len, self.columns.values))

    @cached_property
    def digest(self) -> str:
        return digest(self.rows)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[list[Row]]:
        """Yields the messages as lists of (topic, timestamp, value)."""
        for first in range(0, len(self), rows):
            yield self.rows[first : first + rows]

    def tables(self, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yields the messages as Arrow tables."""
        for first in range(0, len(self), rows):
            yield self.table.slice(first, rows)


def digest(rows: Iterable[Row]) -> str:
    """Returns 16 hex digits for the rows and how often each occurs, whatever their order."""
    total = 0
    for topic, timestamp, value in rows:
        name = topic.encode()
        head = len(name).to_bytes(4, "big") + name + timestamp.to_bytes(8, "big")
        total += int.from_bytes(hashlib.blake2b(head + value, digest_size=8).digest(), "big")
    return f"{total % 2**64:016x}"


def table_rows(table: pa.Table) -> list[Row]:
    """Returns the messages of an Arrow table with the columns topic, timestamp (µs) and value."""
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return list(zip(table["topic"].to_pylist(), times, table["value"].to_pylist(), strict=True))


class Random:
    """Seeded integers, made of raw PCG64 words: only those NumPy promises to keep the same."""

    def __init__(self, seed: int, name: str) -> None:
        self._bits = np.random.PCG64([seed, *name.encode()])

    def integers(self, below: int, count: int) -> list[int]:
        """Returns ``count`` integers from 0 to ``below`` - 1; the modulo's bias does not matter."""
        raw = self._bits.random_raw(count)
        return [int(value) for value in raw % np.uint64(below)]


def pad(text: str, size: int) -> bytes:
    """Returns the text, filled with blanks to ``size`` bytes. Raises ValueError if it is longer."""
    data = text.encode()
    if len(data) > size:
        raise ValueError(f"payload has {len(data)} bytes, more than {size}: {text}")
    return data.ljust(size)


def visit_order(index: int, count: int) -> int:
    """Goes through 0..count-1 in leaps, so that even a short run meets all kinds of topics.

    REQUIRES: ``count`` is no multiple of 7919.
    """
    return index * 7919 % count

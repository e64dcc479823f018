"""Times of the Parquet type INT96: a day and the nanoseconds of that day, 96 bits together.

Arrow reads them in one unit of 64 bits. Nanoseconds do not reach beyond the years 1677 to 2262, and
a coarser unit cuts off the rest of each time. So a file is read in two units, which together tell
each time exactly: milliseconds, which reach far enough, and nanoseconds modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_UTC_US = pa.timestamp("us", "UTC")
_NS_OF_MS = 1_000_000
_US_OF_MS = 1_000
_LAST_MS, _LAST_US_OF_MS = divmod((1 << 63) - 1, _US_OF_MS)


class MillisecondTimes:
    """The times of a file in milliseconds, to be taken in as many pieces as the caller wants.

    Not thread-safe. ``columns`` has all times of the file ``path`` in their order.
    """

    def __init__(self, path: Path, columns: Iterator[pa.Array]) -> None:
        self._path = path
        self._columns = columns
        self._left = pa.array([], pa.timestamp("ms"))

    def take(self, rows: int) -> pa.Array:
        """Returns the next times. Raises ValueError if there are fewer than ``rows``."""
        while len(self._left) < rows:
            column = next(self._columns, None)
            if column is None:
                raise ValueError(f"{self._path}: it has changed while it was read; import it again")
            self._left = pa.concat_arrays([self._left, column])
        taken = self._left.slice(0, rows)
        self._left = self._left.slice(rows)
        return taken


class InexactTimeError(ValueError):
    """A time is no whole number of microseconds, or too late. ``row`` is its index."""

    def __init__(self, row: int, ns: int) -> None:
        super().__init__(f"{ns} ns")
        self.row = row
        self.ns = ns


def exact_times(nanoseconds: pa.Array, milliseconds: pa.Array) -> pa.Array:
    """Returns times in microseconds, UTC; those that are null stay so.

    Both arguments are the same times, read in these units. Raises InexactTimeError.
    """
    ms = _numbers(milliseconds)
    below_ms = _numbers(nanoseconds).view(np.uint64) - ms.view(np.uint64) * np.uint64(_NS_OF_MS)
    us_of_ms = (below_ms // np.uint64(_US_OF_MS)).astype(np.int64)
    is_too_late = (ms > _LAST_MS) | ((ms == _LAST_MS) & (us_of_ms > _LAST_US_OF_MS))
    is_wrong = (below_ms % np.uint64(_US_OF_MS) != 0) | is_too_late
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise InexactTimeError(row, int(ms[row]) * _NS_OF_MS + int(below_ms[row]))
    is_null = np.asarray(nanoseconds.is_null())
    return pa.array(ms * _US_OF_MS + us_of_ms, pa.int64(), mask=is_null).cast(_UTC_US)


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.int64()).fill_null(0), dtype=np.int64)

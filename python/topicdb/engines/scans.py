"""A scan of messages that an engine in Python has at hand or finds one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.forms import Form
from topicdb.cursor.scan import missing_metadata
from topicdb.engines.values import batch_of

Numbered: TypeAlias = "tuple[str, int, bytes, int]"
"""Topic, timestamp in µs, value as it is stored, and serial of the commit."""


class BatchScan:
    """Implements ``topicdb.engine.ScanCursor`` over messages that are found one by one.

    Close it, or read it to its end. One thread at a time reads.

    Arguments:
        messages: what is read: each message with the serial of its commit.
        check: is called before each batch; it raises ClosedError once the engine is closed.
        missing: the missing shards that it leaves out, and why each is missing.

    Example:
        >>> from topicdb.engines import BatchScan
        >>> scan = BatchScan([("site/a", 1, b"on", 1)])
        >>> len(scan.next_batch(100, 1 << 20))
        1
    """

    def __init__(
        self,
        messages: Iterable[Numbered],
        check: Callable[[], None] = lambda: None,
        missing: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._messages = iter(messages)
        self._check = check
        self._missing = missing
        self._closed = False

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False, /
    ) -> Batch | None:
        """Returns the next messages within the limits, at least one, or None at the end."""
        self._check()
        if self._closed:
            raise _core.ClosedError("this scan is closed")
        rows: list[tuple[str, int, bytes]] = []
        serials: list[int] = []
        size = 0
        for topic, timestamp, value, serial in self._messages:
            size += len(topic.encode()) + len(value)
            if rows and size > bytes_max:
                self._messages = chain([(topic, timestamp, value, serial)], self._messages)
                break
            rows.append((topic, timestamp, value))
            serials.append(serial)
            if len(rows) == rows_max:
                break
        return batch_of(rows, serials if with_serials else None) if rows else None

    def next_arrow(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> Batch | None:
        """Returns the next messages with their values in ``form``, or None at the end."""
        batch = self.next_batch(rows_max, bytes_max)
        return None if batch is None else batch.read_as(form)

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> object:
        """Returns the rest as a PyCapsule "arrow_array_stream". Needs pyarrow."""
        import pyarrow as pa

        def batches() -> Any:
            while (batch := self.next_arrow(rows_max, bytes_max, form)) is not None:
                yield pa.record_batch(batch)

        schema = pa.schema(_core.arrow_schema(form)).with_metadata(missing_metadata(self._missing))
        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""
        return dict(self._missing)

    def close(self) -> None:
        """Forgets the messages that were not read. May be repeated."""
        self._closed = True
        self._messages = iter(())

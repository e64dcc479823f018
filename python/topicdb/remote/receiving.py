"""Messages that clients send, as they arrive."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topicdb import _core
from topicdb.remote.access import Access
from topicdb.remote.errors import packed
from topicdb.remote.gate import Call
from topicdb.remote.meter import Meter
from topicdb.remote.service import Service
from topicdb.remote.wire import encode


class Appends:
    """Appends that gather with others: what became of each is told when it is known."""

    def __init__(self, service: Service, call: Call, durability: Any, meter: Meter) -> None:
        self._core = service.database._core
        self._size_max = service.limits.append_bytes_max
        self._call = call
        self._durability = durability
        self._meter = meter
        self._outcomes = _core.Completions()
        self._changed = threading.Condition()
        self._open = 0

    def run(self, reader: Any, writer: Any) -> None:
        """Until the client has no more, and knows of all."""
        teller = threading.Thread(target=self._tell, args=(writer,), name="topicdb-outcomes")
        teller.start()
        try:
            for number, chunk in enumerate(reader):
                self._begin(number, chunk.data, writer)
        finally:
            with self._changed:
                self._changed.wait_for(lambda: self._open == 0)
            self._outcomes.close()
            teller.join()

    def _begin(self, number: int, batch: pa.RecordBatch, writer: Any) -> None:
        with self._changed:
            self._open += 1
        try:
            check_size(batch.nbytes, self._size_max)
            self._call.check_token()
            checked(self._call.caller.access, pa.Table.from_batches([batch]))
            self._core.append_arrow_async(batch, self._durability, self._outcomes, number)
            self._meter.received(batch.num_rows, batch.nbytes)
        except Exception as error:
            self._write(writer, number, error)

    def _tell(self, writer: Any) -> None:
        while outcomes := self._outcomes.take():
            for number, outcome in outcomes:
                self._write(writer, number, outcome)

    def _write(self, writer: Any, number: int, outcome: Any) -> None:
        is_error = isinstance(outcome, BaseException)
        told = encode([number, is_error, packed(outcome) if is_error else outcome])
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
            with suppress(pa.ArrowException, OSError):  # the client has gone
                writer.write(told)


def checked(access: Access, table: pa.Table) -> None:
    """AccessError: a topic that it may not write. ValueError: this is no Arrow data."""
    try:
        table.validate(full=True)  # it comes from outside: offsets may point anywhere
    except pa.ArrowException as error:
        raise ValueError(f"malformed Arrow data: {error}") from None
    if access.everything or "topic" not in table.schema.names:
        return
    kind = table.schema.field("topic").type
    if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        raise ValueError(f"column 'topic': expected string, got {kind}")
    topics = pc.unique(table.column("topic"))
    access.check_topics(topic for topic in topics.to_pylist() if topic is not None)


def check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise _core.QuotaError(
            f"an append may have {size_max} bytes here: split it, or raise the server's limit"
        )

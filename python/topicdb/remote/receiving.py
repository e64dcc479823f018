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
from topicdb.remote.wire import decode, encode


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
        self._begun = 0

    def run(self, reader: Any, writer: Any) -> None:
        """Until the client has no more, and knows of all."""
        teller = threading.Thread(target=self._tell, args=(writer,), name="topicdb-outcomes")
        teller.start()
        try:
            for chunk in reader:
                counts = chunk.app_metadata and decode(chunk.app_metadata.to_pybytes())
                self._take(chunk.data, counts, writer)
        finally:
            with self._changed:
                self._changed.wait_for(lambda: self._open == 0)
            self._outcomes.close()
            teller.join()

    def _take(self, batch: pa.RecordBatch, counts: Any, writer: Any) -> None:
        """Several appends: so many messages each."""
        is_list = isinstance(counts, list) and all(type(n) is int and n > 0 for n in counts)
        if not is_list or sum(counts) != batch.num_rows:
            raise ValueError("append_async: it does not say which messages belong together")
        fault = self._fault_of(batch)
        offset = 0
        for count in counts:
            part = batch.slice(offset, count)
            offset += count
            # One that is wrong does not keep the others from being stored.
            self._begin(part, self._fault_of(part) if fault is not None else None, writer)

    def _fault_of(self, batch: pa.RecordBatch) -> Exception | None:
        try:
            check_size(batch.nbytes, self._size_max)
            self._call.check_token()
            checked(self._call.caller.access, pa.Table.from_batches([batch]))
        except Exception as error:
            return error
        return None

    def _begin(self, part: pa.RecordBatch, fault: Exception | None, writer: Any) -> None:
        number = self._begun
        self._begun += 1
        with self._changed:
            self._open += 1
        try:
            if fault is not None:
                raise fault
            self._core.append_arrow_async(part, self._durability, self._outcomes, number)
            self._meter.received(part.num_rows, part.nbytes)
        except Exception as error:
            self._write(writer, [(number, error)])

    def _tell(self, writer: Any) -> None:
        while outcomes := self._outcomes.take():
            self._write(writer, outcomes)

    def _write(self, writer: Any, outcomes: list[tuple[int, Any]]) -> None:
        told = []
        for number, outcome in outcomes:
            is_error = isinstance(outcome, BaseException)
            told.append([number, is_error, packed(outcome) if is_error else outcome])
        with self._changed:
            self._open -= len(outcomes)
            self._changed.notify_all()
            with suppress(pa.ArrowException, OSError):  # the client has gone
                writer.write(encode(told))


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

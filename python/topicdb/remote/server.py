"""The server: ``Service`` over Arrow Flight, with TLS, tokens and an orderly end."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from topicdb import _core
from topicdb.closing import Closing
from topicdb.database import Database
from topicdb.remote.faults import as_flight
from topicdb.remote.gate import Call, Gate
from topicdb.remote.handles import Limits
from topicdb.remote.meter import Meter
from topicdb.remote.receiving import Appends, check_size, checked
from topicdb.remote.service import WAIT_US_MAX, Service
from topicdb.remote.tokens import Tokens
from topicdb.remote.wire import SCHEMA, SERIAL_SCHEMA, arrow_of, decode, encode

_logger = logging.getLogger(__name__)
_MIDDLEWARE = "topicdb"
_JANITOR_INTERVAL_S = 1.0
_EXPIRE_INTERVAL_S = 600.0
_ALL = (1 << 63) - 1
ROW_SCHEMA = SERIAL_SCHEMA.append(pa.field("row", pa.uint32(), nullable=False))


@dataclass(frozen=True)
class Tls:
    """PEM text: the server's certificate with its chain, and its private key."""

    certificate: bytes
    key: bytes


class Server(Closing):
    """Offers a database to other processes; made by ``topicdb.serve``.

    It is up when it is made. The database stays the caller's: close the server first.
    """

    def __init__(
        self,
        database: Database,
        host: str,
        port: int,
        *,
        tls: Tls | None,
        tokens: str | os.PathLike[str] | None,
        limits: Limits,
        snapshots: str | None,
    ) -> None:
        self.meter = Meter()
        self.service = Service(database, limits, snapshots)
        self._gate = Gate(self.service, None if tokens is None else Tokens(tokens), self.meter)
        self._lock = threading.Lock()
        self._closed = False
        self._stop = threading.Event()
        scheme = "grpc" if tls is None else "grpc+tls"
        certificates = [] if tls is None else [(tls.certificate, tls.key)]
        address = f"[{host}]" if ":" in host else host
        try:
            self._flight = _Flight(
                f"{scheme}://{address}:{port}", certificates, self.service, self._gate, self.meter
            )
        except (pa.ArrowException, OSError) as error:
            raise _core.StorageError(f"cannot listen at {address}:{port}: {error}") from None
        self.url = f"{scheme}://{address}:{self._flight.port}"
        self._janitor = threading.Thread(target=self._tidy, name="topicdb-server", daemon=True)
        self._janitor.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._flight.port)

    def _tidy(self) -> None:
        expire_at = time.monotonic()
        while not self._stop.wait(_JANITOR_INTERVAL_S):
            try:
                self.service.clients.end_silent()
                if time.monotonic() >= expire_at:
                    expire_at = time.monotonic() + _EXPIRE_INTERVAL_S
                    self.service.expire_sessions()
            except Exception:
                _logger.exception("housekeeping failed")

    def close(self) -> None:
        """As ``shutdown`` with 10 seconds."""
        self.shutdown(10.0)

    def shutdown(self, grace: float) -> bool:
        """Takes no more calls, waits up to ``grace`` seconds for those in flight, and ends.

        Whether all calls have ended. If not, clients hold them up, and threads of theirs stay. May
        be repeated.
        """
        with self._lock:
            if self._closed:
                return self._gate.calls == 0
            self._closed = True
        self._stop.set()
        self._gate.shut()
        ended = self._gate.wait(grace)
        self.service.close()
        ended = ended or self._gate.wait(2 * WAIT_US_MAX / 1e6)
        if ended:
            self._flight.shutdown()  # would wait for them
        self._janitor.join()
        return ended

    def __repr__(self) -> str:
        return f"<topicdb.Server {self.url}{' (closed)' if self._closed else ''}>"


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """What Flight calls, in threads of its own."""

    def __init__(
        self,
        location: str,
        certificates: list[tuple[bytes, bytes]],
        service: Service,
        gate: Gate,
        meter: Meter,
    ) -> None:
        self._service = service
        self._meter = meter
        super().__init__(location, tls_certificates=certificates, middleware={_MIDDLEWARE: gate})

    def _measured(self, method: str) -> AbstractContextManager[None]:
        # Names that a client makes up are not counted each.
        return self._meter.measured(method if self._service.knows(method) else "unknown")

    def do_action(self, context: Any, action: flight.Action) -> list[flight.Result]:
        """A call of ``Service.call``."""
        with self._measured(action.type), as_flight():
            args = decode(action.body.to_pybytes())
            if not isinstance(args, list):
                raise ValueError(f"{action.type}: expected a list of arguments")
            result = self._service.call(_call_of(context).caller, action.type, args)
            return [flight.Result(encode(result))]

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Messages: of ``Service.read``, or of a subscription; or the life of a connection."""
        with as_flight():
            request = decode(ticket.ticket)
            if not isinstance(request, list) or not request or not isinstance(request[0], str):
                raise ValueError("expected a call and its arguments")
            method, *args = request
            call = _call_of(context)
            if method == "connection":
                return flight.GeneratorStream(SCHEMA, self._connection(context, call))
            if method == "subscription":
                found = self._service.subscription(call.caller, *args)
                chunks = self._deliveries(context, call, found.core)
                return flight.GeneratorStream(ROW_SCHEMA, chunks)
            schema = SERIAL_SCHEMA if args and args[-1] is True else SCHEMA
            return flight.GeneratorStream(schema, self._chunks(call, method, args))

    def _chunks(self, call: Call, method: str, args: list[Any]) -> Iterator[pa.RecordBatch]:
        with self._measured(method), as_flight():
            for batch in self._service.read(call.caller, method, args):
                call.check_token()
                arrow = arrow_of(batch)
                self._meter.sent(arrow.num_rows, arrow.nbytes)
                yield arrow

    def _deliveries(
        self, context: Any, call: Call, core: _core.Subscription
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        with self._meter.measured("subscription"), as_flight():
            while call.goes_on(context):
                found = core.next(WAIT_US_MAX, _ALL)
                if found is None:
                    if core.closed:
                        call.goes_on(context)  # says why
                        return
                    continue
                batch, *about, rows = found
                arrow = arrow_of(batch)
                arrow = pa.RecordBatch.from_arrays(
                    [*arrow.columns, pa.array(rows)], schema=ROW_SCHEMA
                )
                self._meter.sent(arrow.num_rows, arrow.nbytes)
                yield arrow, encode(about)

    def _connection(self, context: Any, call: Call) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """Lasts as long as the connection: with it ends what the client has open."""
        empty = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        client = call.caller.client
        try:
            with as_flight():
                yield empty, b""
                while call.goes_on(context):
                    time.sleep(WAIT_US_MAX / 1e6)
        finally:
            client.end()

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Messages to be stored: together, or each batch by itself and in no hurry."""
        call = _call_of(context)
        with as_flight():
            method, durability = decode(descriptor.command)
            if method not in ("append", "append_async"):
                raise ValueError(f"there is no call {method!r}: the client is of another version")
        with self._meter.measured(method), as_flight(), call.caller.client.share.appends:
            if method == "append":
                self._append(call, durability, reader, writer)
            else:
                Appends(self._service, call, durability, self._meter).run(reader, writer)

    def _append(self, call: Call, durability: Any, reader: Any, writer: Any) -> None:
        batches: list[pa.RecordBatch] = []
        size = 0
        for chunk in reader:
            size += chunk.data.nbytes
            check_size(size, self._service.limits.append_bytes_max)
            batches.append(chunk.data)
        table = pa.Table.from_batches(batches, schema=reader.schema)
        call.check_token()
        checked(call.caller.access, table)
        receipt = self._service.database._core.append_arrow(table, durability)
        self._meter.received(table.num_rows, size)
        writer.write(encode(receipt))


def _call_of(context: Any) -> Call:
    call = context.get_middleware(_MIDDLEWARE)
    assert isinstance(call, Call)
    return call

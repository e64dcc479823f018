"""The server: offers a ``Service`` over Arrow Flight, with TLS, tokens and an orderly end."""

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
from topicdb.database.database import Database
from topicdb.remote.server.faults import Faults
from topicdb.remote.server.gate import Call, Gate
from topicdb.remote.server.handles import Limits
from topicdb.remote.server.memory import SHARE_BYTES_MIN
from topicdb.remote.server.meter import Meter
from topicdb.remote.server.objects import Subscription
from topicdb.remote.server.reading import WAIT_US_MAX, messages_in
from topicdb.remote.server.receiving import Receiver
from topicdb.remote.server.service import Service
from topicdb.remote.server.tokens import Tokens
from topicdb.remote.wire import ROW_SCHEMA, SCHEMA, decode, encode

_logger = logging.getLogger(__name__)
_MIDDLEWARE = "topicdb"
_JANITOR_INTERVAL_S = 1.0
_EXPIRE_INTERVAL_S = 600.0


@dataclass(frozen=True)
class Tls:
    """The PEM texts for TLS: the certificate of the server with its chain, and its private key.

    ``client_ca`` is the certificate authority that vouches for clients; None: clients need none.
    """

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class Server(Closing):
    """Offers a database to other processes; made by ``topicdb.serve``. Thread-safe.

    It is up when it is made, until ``close`` or ``shutdown``. ``url`` is the address for clients.
    The database stays the caller's: close the server before it.
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
        address = f"[{host}]" if ":" in host else host
        try:
            self._flight = _Flight(
                f"{scheme}://{address}:{port}", tls, self.service, self._gate, self.meter
            )
        except (pa.ArrowException, OSError) as error:
            raise _core.StorageError(f"cannot listen at {address}:{port}: {error}") from None
        self.url = f"{scheme}://{address}:{self._flight.port}"
        self._janitor = threading.Thread(target=self._tidy, name="topicdb-server", daemon=True)
        self._janitor.start()

    @property
    def port(self) -> int:
        """The port at which it listens."""
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
        """Ends the server as ``shutdown`` does, with 10 seconds of grace."""
        self.shutdown(10.0)

    def shutdown(self, grace: float) -> bool:
        """Takes no more calls, waits up to ``grace`` seconds for those that run, and ends.

        Returns whether all calls have ended. If not, clients hold them up, and their threads stay.
        May be repeated; only the first call waits.
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
            self._flight.shutdown()  # waits for all calls
        self._janitor.join()
        return ended

    def __repr__(self) -> str:
        return f"<topicdb.Server {self.url}{' (closed)' if self._closed else ''}>"


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """Answers the calls of Flight, which come in threads of Flight's own."""

    def __init__(
        self,
        location: str,
        tls: Tls | None,
        service: Service,
        gate: Gate,
        meter: Meter,
    ) -> None:
        self._service = service
        self._meter = meter
        self._receiver = Receiver(service, meter)
        self._faults = Faults()
        options: dict[str, Any] = {"tls_certificates": []}
        if tls is not None:
            options["tls_certificates"] = [(tls.certificate, tls.key)]
            if tls.client_ca is not None:
                options.update(verify_client=True, root_certificates=tls.client_ca)
        super().__init__(location, middleware={_MIDDLEWARE: gate}, **options)

    def _measured(self, method: str) -> AbstractContextManager[None]:
        # Names that a client makes up get no counts of their own.
        known = self._service.knows(method) or self._receiver.knows(method)
        return self._meter.measured(method if known else "unknown")

    def do_action(self, context: Any, action: flight.Action) -> list[flight.Result]:
        """Answers a call of ``Service.call``, or an append."""
        method, body, call = action.type, action.body, _call_of(context)
        with self._measured(method), self._faults.as_flight(method):
            json_bytes_max = self._service.admit(call.caller.access, method, body.size)
            call.waits_in(context)
            call.caller.charge.hold(_counted(body.size))
            args = decode(memoryview(body), json_bytes_max=json_bytes_max)
            if not isinstance(args, list):
                raise ValueError(f"{method}: expected a list of arguments")
            result = encode(self._called(call, method, args))
            del args
            call.caller.charge.settle(_counted(len(result)))
            return [flight.Result(result)]

    def _called(self, call: Call, method: str, args: list[Any]) -> Any:
        if self._receiver.knows(method):
            return self._receiver.call(call, method, args)
        return self._service.call(call.caller, method, args)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Sends messages of ``Service.read`` or of a subscription, or keeps a connection alive."""
        with self._faults.as_flight("do_get"):
            call = _call_of(context)
            data = ticket.ticket
            size_max = self._service.admit_read(call.caller.access, len(data))
            request = decode(data, json_bytes_max=size_max)
            del data
            if not isinstance(request, list) or not request or not isinstance(request[0], str):
                raise ValueError("expected a call and its arguments")
            method, *args = request
            if method == "connection":
                return flight.GeneratorStream(SCHEMA, self._connection(context, call))
            if method == "subscription":
                found = self._service.subscription(call.caller, *args)
                chunks = self._deliveries(context, call, found)
                return flight.GeneratorStream(ROW_SCHEMA, chunks)
            schema = self._service.schema_of(method, args)
            return flight.GeneratorStream(schema, self._chunks(context, call, method, args))

    def _chunks(
        self, context: Any, call: Call, method: str, args: list[Any]
    ) -> Iterator[pa.RecordBatch]:
        with self._measured(method), self._faults.as_flight(method):
            call.waits_in(context)
            for arrow in self._service.read(call.caller, method, args):
                call.check_token()
                self._meter.sent(messages_in(arrow), arrow.nbytes)
                yield arrow
                del arrow  # before the next one is made

    def _deliveries(
        self, context: Any, call: Call, subscription: Subscription
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        charge = call.caller.charge
        with self._meter.measured("subscription"), self._faults.as_flight("subscription"):
            call.waits_in(context)
            while call.goes_on(context):
                charge.settle(0)
                if not subscription.wait_until_ready(WAIT_US_MAX):
                    if subscription.core.closed:
                        call.goes_on(context)  # raises the reason, if there is one
                        return
                    continue
                charge.take(subscription.window_bytes)
                found = subscription.next()
                if found is None:
                    continue
                arrow, about = found
                charge.settle(arrow.nbytes)
                self._meter.sent(arrow.num_rows, arrow.nbytes)
                yield arrow, encode(about.plain())
                del arrow, found

    def _connection(self, context: Any, call: Call) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """Lasts as long as the connection; at its end it ends what the client has open."""
        empty = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        client = call.caller.client
        client.has_lease = True
        try:
            with self._faults.as_flight("connection"):
                yield empty, b""
                while call.goes_on(context):
                    time.sleep(WAIT_US_MAX / 1e6)
        finally:
            client.end()

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Refuses to read: Flight would decompress and decode whatever comes."""
        with self._faults.as_flight("do_put"):
            raise ValueError(
                "messages are stored by the actions 'append' and 'append_async', not by DoPut: the "
                "client is of another version"
            )


def _counted(size: int) -> int:
    """Returns how much of a call counts: small ones are free, so that a call can free memory."""
    return size if size > SHARE_BYTES_MIN else 0


def _call_of(context: Any) -> Call:
    call = context.get_middleware(_MIDDLEWARE)
    assert isinstance(call, Call)
    return call

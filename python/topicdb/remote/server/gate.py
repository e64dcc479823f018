"""The first thing that every call meets: who calls, and whether anybody may."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.flight as flight

from topicdb import _core
from topicdb.errors import UnavailableError
from topicdb.remote.server.access import ANYBODY, Access
from topicdb.remote.server.faults import flight_error
from topicdb.remote.server.memory import Charge
from topicdb.remote.server.meter import Meter
from topicdb.remote.server.service import Caller, Service
from topicdb.remote.server.tokens import Tokens


class Gate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Who calls, and whether anybody may: the first thing that every call meets."""

    def __init__(self, service: Service, tokens: Tokens | None, meter: Meter) -> None:
        self._service = service
        self._tokens = tokens
        self._meter = meter
        self._changed = threading.Condition()
        self._open = True
        self.calls = 0

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> Call:
        """The call, if it may be. AccessError, UnavailableError, QuotaError as Flight's errors."""
        try:
            token = _bearer(headers)
            access = self.access(token)
            connection = str(_header(headers, "topicdb-connection") or "none")
            client = self._service.clients.find(access, connection)
            client.begin_call()
        except _core.Error as error:
            self._meter.refused(type(error).__name__)
            raise flight_error(error) from None
        with self._changed:
            if self._open:
                self.calls += 1
                return Call(self, token, Caller(access, client, Charge(client.share.account)))
        client.end_call()
        raise flight_error(_shutting_down())

    def access(self, token: str | None) -> Access:
        """What the bearer may do now. AccessError."""
        return ANYBODY if self._tokens is None else self._tokens.access(token)

    def ended(self) -> None:
        """A call is over."""
        with self._changed:
            self.calls -= 1
            self._changed.notify_all()

    def check_open(self) -> None:
        """UnavailableError after ``shut``."""
        if not self._open:
            raise _shutting_down()

    def shut(self) -> None:
        """No more calls."""
        with self._changed:
            self._open = False

    def wait(self, seconds: float) -> bool:
        """Until no call is left; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self.calls == 0, seconds)


class Call(flight.ServerMiddleware):  # type: ignore[misc]
    """One call, from its beginning to its end."""

    def __init__(self, gate: Gate, token: str | None, caller: Caller) -> None:
        self._gate = gate
        self._token = token
        self.caller = caller

    def check_token(self) -> None:
        """AccessError: it has expired or is revoked since the call began."""
        self._gate.access(self._token)

    def goes_on(self, context: flight.ServerCallContext) -> bool:
        """Whether what lasts may go on: False when the client has gone. AccessError: the token has
        expired or is revoked. UnavailableError: the server shuts down."""
        self.check_token()
        self._gate.check_open()
        return not self.caller.client.ended and not context.is_cancelled()

    def waits_in(self, context: flight.ServerCallContext) -> None:
        """While it waits for memory, it ends with its client. ClosedError then."""

        def check() -> None:
            if not self.goes_on(context):
                raise _core.ClosedError("the client has gone")

        self.caller.charge.check = check

    def call_completed(self, exception: BaseException | None) -> None:
        """Flight says so, whatever has happened."""
        self.caller.charge.close()
        self.caller.client.end_call()
        self._gate.ended()


def _shutting_down() -> UnavailableError:
    return UnavailableError("the server is shutting down")


def _header(headers: dict[str, list[Any]], name: str) -> str | None:
    values = headers.get(name) or [None]
    return values[0] if isinstance(values[0], str) else None


def _bearer(headers: dict[str, list[Any]]) -> str | None:
    kind, _, token = (_header(headers, "authorization") or "").partition(" ")
    return token if kind.lower() == "bearer" else None

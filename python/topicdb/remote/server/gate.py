"""Lets calls in, or refuses them, before anything else of them is looked at."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.flight as flight

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.remote.server.access import ANYBODY, Access
from topicdb.remote.server.faults import flight_error
from topicdb.remote.server.handles import Caller
from topicdb.remote.server.memory import Charge
from topicdb.remote.server.meter import Meter
from topicdb.remote.server.service import Service
from topicdb.remote.server.tokens import Tokens


class Gate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets calls in, or refuses them, before anything else of them is looked at. Thread-safe.

    A server has one, which Flight asks at the beginning of each call. It finds out whose call it
    is, and counts the calls that run, so that the server can wait for their end.
    """

    def __init__(self, service: Service, tokens: Tokens | None, meter: Meter) -> None:
        self._service = service
        self._tokens = tokens
        self._meter = meter
        self._changed = threading.Condition()
        self._open = True
        self.calls = 0

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> Call:
        """Returns the call if it is let in.

        Raises AccessError, QuotaError or UnavailableError, as errors of Flight, if it is not.
        """
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
        """Returns what the bearer of ``token`` may do now, or raises AccessError."""
        return ANYBODY if self._tokens is None else self._tokens.access(token)

    def ended(self) -> None:
        """Counts a call as ended."""
        with self._changed:
            self.calls -= 1
            self._changed.notify_all()

    def check_open(self) -> None:
        """Raises UnavailableError after ``shut``."""
        if not self._open:
            raise _shutting_down()

    def shut(self) -> None:
        """Lets no more calls in."""
        with self._changed:
            self._open = False

    def wait(self, seconds: float) -> bool:
        """Waits up to ``seconds`` until no call runs, and returns whether none does."""
        with self._changed:
            return self._changed.wait_for(lambda: self.calls == 0, seconds)


class Call(flight.ServerMiddleware):  # type: ignore[misc]
    """One call and its caller; the gate makes it, and Flight keeps it until the call ends."""

    def __init__(self, gate: Gate, token: str | None, caller: Caller) -> None:
        self._gate = gate
        self._token = token
        self.caller = caller

    def check_token(self) -> None:
        """Raises AccessError if the token has expired or was revoked since the call began."""
        self._gate.access(self._token)

    def goes_on(self, context: flight.ServerCallContext) -> bool:
        """Returns whether a call that lasts may go on: False if its client has gone.

        Raises AccessError if the token has expired or was revoked, and UnavailableError if the
        server shuts down.
        """
        self.check_token()
        self._gate.check_open()
        return not self.caller.client.ended and not context.is_cancelled()

    def waits_in(self, context: flight.ServerCallContext) -> None:
        """Ends waits of the call for memory, with ClosedError, when the client has gone."""

        def check() -> None:
            if not self.goes_on(context):
                raise _core.ClosedError("the client has gone")

        self.caller.charge.check = check

    def call_completed(self, exception: BaseException | None) -> None:
        """Gives back what the call holds; Flight calls it whatever has happened in the call."""
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

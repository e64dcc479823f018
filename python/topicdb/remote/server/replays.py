"""The calls of clients about replay logs: which log, whether the token may, and what is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from topicdb import _core
from topicdb.cursor.scan import check_batch_limits
from topicdb.database.database import Database
from topicdb.follow.positions import Place
from topicdb.remote.message_ids import ids_of, runs_of
from topicdb.remote.server.access import Access
from topicdb.remote.server.handles import Limits
from topicdb.remote.server.replay_clients import ReplayBrowser, ReplayClient
from topicdb.remote.wire import arrow_of
from topicdb.replay.endpoint.received import ReplayBatch
from topicdb.replay.log import opening
from topicdb.replay.log.log import SPOOL_BYTES, ReplayLog
from topicdb.replay.orders.orders import ORDERS, Order
from topicdb.replay.orders.plain import start_of

if TYPE_CHECKING:
    from topicdb.remote.server.handles import Caller

_logger = logging.getLogger(__name__)
_ROWS_MAX = 100_000
_IDS_MAX = 1_000_000  # of messages that are settled together
_BATCH_BYTES = 8 << 20  # about what a batch of messages takes, before it is read
_PAGE_BYTES_MAX = 8 << 20
_WAIT_US_MAX = 500_000
FAMILIES = ("replay", "flow", "browser")
"""What the names of these calls begin with."""


class Replays:
    """The replay logs of the database of a server, and the clients of their endpoints.

    A log that the process of the server has open is the one that clients use. Others are opened
    when a client first asks for them, and closed with the server. The service owns this object. It
    lives as long as the service, and is thread-safe.
    """

    # Lock rule: _lock is held while a log is opened, and is taken before those of logs.

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits
        self._lock = threading.Lock()
        self._opened: list[ReplayLog] = []
        self.calls: dict[str, Callable[..., Any]] = {
            "replay.open": self._open,
            "replay.drop": self._drop,
            "replay.bind": self._bind,
            "replay.browse": self._browse,
            "flow.receive": self._receive,
            "flow.settle": self._settle,
            "flow.active": lambda caller, number: self._flow(caller, number).flow.active,
            "browser.page": self._page,
            **{
                f"replay.{name}": partial(self._order, name, order)
                for name, order in ORDERS.items()
            },
        }

    # Logs.

    def open_stored(self) -> None:
        """Opens all logs that the database has, so that they go on without a client.

        One that cannot be opened is logged. So is that none can be, while a shard is missing.
        """
        try:
            names = opening.names(self._database)
        except _core.MissingShardError as error:
            _logger.error("the replay logs stay closed: %s", error)
            return
        for name in names:
            try:
                self.log(name)
            except _core.Error as error:
                _logger.error("replay log %r stays closed: %s", name, error)

    def log(self, name: str) -> ReplayLog:
        """Returns the log of this name, which is opened if it is not open yet.

        Raises NotFoundError if there is none.
        """
        with self._lock:
            found = opening.opened(self._database, name)
            if found is not None:
                return found
            if name not in opening.names(self._database):
                raise _core.NotFoundError(
                    f"there is no replay log {name!r} here: whoever administers the database makes "
                    "it with replay.open"
                )
            return self._added(name, {})

    def close(self) -> None:
        """Closes the logs that it has opened. May be repeated."""
        with self._lock:
            opened, self._opened = self._opened, []
        for log in opened:
            log.close()

    def _added(self, name: str, options: Mapping[str, Any]) -> ReplayLog:
        log = opening.open(self._database, name, **options)
        self._opened.append(log)
        return log

    def _open(self, caller: Caller, name: str, options: dict[str, Any]) -> int:
        """Returns the origin of a log, after making it or changing its options if that is asked.

        An administrator may do that. Who may publish, or has a right in the log, may ask for it.
        """
        caller.access.check_open_log(name)
        with self._lock:
            log = opening.opened(self._database, name)
            is_new = log is None and name not in opening.names(self._database)
            if is_new or options:
                caller.access.check_admin()
            if log is None:
                log = self._added(name, options)
            elif options:
                opening.change(log, options)
            return log.origin

    def _drop(self, caller: Caller, name: str) -> None:
        """Removes a log, which must have no clients if it is open."""
        caller.access.check_admin()
        with self._lock:
            log = opening.opened(self._database, name)
            if log is not None and log in self._opened:
                if any(endpoint.info()["clients"] for endpoint in log.endpoints()):
                    raise _core.ConflictError(f"replay log {name!r} has clients: close them first")
                log.close()
                self._opened.remove(log)
            opening.drop(self._database, name)

    # Orders.

    def _order(self, name: str, order: Order, caller: Caller, log: str, *args: Any) -> Any:
        order.check_arguments(f"replay.{name}", args)
        _check_order(caller.access, order, log, args)
        if name == "make":
            self._check_room(args[4])
        return order.do(self.log(log), *args)

    def _check_room(self, options: Any) -> None:
        """Raises QuotaError if an endpoint would hold more than the window of a subscription."""
        size = options.get("spool_bytes", SPOOL_BYTES) if isinstance(options, dict) else SPOOL_BYTES
        if isinstance(size, int | float) and size > self._limits.window_bytes_max:
            raise _core.QuotaError(
                f"spool_bytes: an endpoint may hold {self._limits.window_bytes_max} bytes here, "
                f"not {size}: raise the server's limit window_bytes_max"
            )

    # Clients.

    def _bind(
        self, caller: Caller, log: str, endpoint: str, options: dict[str, Any]
    ) -> tuple[int, str]:
        """Binds a client, and returns its number and its name."""
        access = caller.access
        access.check_client(log, endpoint)
        if (start := options.pop("replay", None)) is not None:
            access.check_replay(log, endpoint)
        found = self.log(log).endpoint(endpoint)
        filters = found.filters
        access.check_read(filters)
        flow = found.bind(replay=None if start is None else start_of(start), **options)
        client = ReplayClient(flow, self.log(log).origin, found, (access, filters))
        return caller.client.keep(client), flow.client

    def _flow(self, caller: Caller, number: int) -> ReplayClient:
        client = caller.client.get(number, ReplayClient)
        client.check(caller.access)
        return client

    def _receive(self, caller: Caller, number: int, rows: int, wait_us: int) -> Any:
        check_batch_limits(rows, 1)
        client = self._flow(caller, number)
        caller.charge.share(_BATCH_BYTES)
        wait_s = max(0, min(wait_us, _WAIT_US_MAX)) / 1e6
        found = client.flow.receive_batch(min(rows, _ROWS_MAX), wait_s)
        if found is None:
            return None
        try:
            client.check(caller.access)  # the endpoint may have got other filters meanwhile
        except BaseException:
            caller.client.drop(number)  # what it was given comes again to others
            raise
        return self._travelling(caller, number, found)

    def _settle(self, caller: Caller, number: int, what: str, runs: Any) -> None:
        client = self._flow(caller, number)
        flow = client.flow
        settle = {"ack": flow.ack, "reject": flow.reject, "release": flow.release}.get(what)
        if settle is None:
            raise ValueError(f"settle: expected ack, reject or release, got {what!r}")
        settle(*ids_of(client.origin, runs, _IDS_MAX))

    def _browse(self, caller: Caller, log: str, endpoint: str, client: str) -> int:
        caller.access.check_client(log, endpoint)
        found = self.log(log).endpoint(endpoint)
        filters = found.filters
        caller.access.check_read(filters)
        browser = found.browse(client=client)
        return caller.client.keep(ReplayBrowser(browser, found, (caller.access, filters)))

    def _page(self, caller: Caller, number: int, after: Any, rows: int) -> Any:
        """Returns the messages behind the place ``after``; None: from the first one on."""
        check_batch_limits(rows, 1)
        browser = caller.client.get(number, ReplayBrowser)
        browser.check(caller.access)
        caller.charge.share(_PAGE_BYTES_MAX)
        place = None if after is None else Place(*after)
        found = browser.browser.page(place, min(rows, _ROWS_MAX), _PAGE_BYTES_MAX)
        return self._travelling(caller, number, found)

    def _travelling(self, caller: Caller, number: int, found: ReplayBatch) -> Any:
        """Returns messages as they travel, and charges for them.

        If there is no room for them, the client has lost them, and ends: they come again.
        """
        try:
            caller.charge.settle(arrow_of(found.stored).nbytes)
        except BaseException:
            caller.client.drop(number)
            raise
        again = [index for index, is_again in enumerate(found.redelivered) if is_again]
        return found.stored, runs_of(found.ids), again


def _check_order(access: Access, order: Order, log: str, args: Sequence[Any]) -> None:
    """Raises AccessError unless the token may give this order with these arguments."""
    if order.right == "admin":
        access.check_admin()
    elif order.right == "watch":
        access.check_watch(log)
    elif order.right == "endpoint":
        access.check_replay(log, args[0])
    elif order.right == "look":
        access.check_look(log, args[0])
    else:
        access.check_log(log)
    if order.reads is not None and args[order.reads] is not None:
        access.check_read(args[order.reads])
    if order.writes is not None and args[order.writes] is not None:
        access.check_write(f"{args[order.writes]}/#")

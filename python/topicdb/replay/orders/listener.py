"""Takes orders for a replay log from other processes of the same machine."""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from topicdb.replay.orders.faults import packed
from topicdb.replay.orders.sockets import (
    LINE_BYTES_MAX,
    receive_line,
    send_line,
    short_address,
)

_logger = logging.getLogger("topicdb.replay")
_PATIENCE_S = 5.0  # so long it waits for an order that does not come, or an answer not taken
_WAITING_MAX = 16


class Listener:
    """Takes orders for one replay log, one after the other, with a thread and a socket of its own.

    ``carry_out`` gets the name and the arguments of an order. If there can be no socket, as the
    system or the file system has none, orders cannot be given, which is logged.

    The log owns this object, which lives as long as the log. Thread-safe.
    """

    def __init__(
        self, log: str, path: Path, carry_out: Callable[[Any, Sequence[Any]], Any]
    ) -> None:
        self._path = path
        self._carry_out = carry_out
        self._process = os.getpid()
        self._lock = threading.Lock()  # held while it is closed
        self._socket: socket.socket | None = None
        self._woken, self._waker = -1, -1
        self._thread: threading.Thread | None = None
        try:
            self._socket = _listening_at(path)
            self._woken, self._waker = os.pipe()
        except (OSError, AttributeError) as error:  # AttributeError: no such sockets here
            _logger.warning("other processes cannot give orders to replay log %r: %s", log, error)
            self._drop_socket()
            return
        self._thread = threading.Thread(target=self._run, name=f"topicdb-orders-{log}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._socket is not None
        poll = select.poll()
        for descriptor in (self._socket.fileno(), self._woken):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._woken in ready:
                return
            try:
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(_PATIENCE_S)
                    self._answer(connection)
            except OSError as error:  # whoever gave the order has gone
                _logger.info("an order was not answered: %s", error)
            except Exception:
                _logger.exception("the thread that takes orders goes on after an error")

    def _answer(self, connection: socket.socket) -> None:
        try:
            order = receive_line(connection, LINE_BYTES_MAX)
        except ValueError as error:
            send_line(connection, {"error": packed(error)})
            return
        if order is not None:
            send_line(connection, self._result(order))

    def _result(self, order: Any) -> dict[str, Any]:
        try:
            if not isinstance(order, dict) or not isinstance(order.get("args"), list):
                raise ValueError("expected an order, and a list of its arguments")
            return {"result": self._carry_out(order.get("order"), order["args"])}
        except Exception as error:
            return {"error": packed(error)}

    def _drop_socket(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                os.unlink(self._path)
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Waits for the order that is carried out, and takes no more. May be repeated."""
        with self._lock:
            if self._socket is None or os.getpid() != self._process:
                return
            os.write(self._waker, b"x")
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
            self._drop_socket()
            os.close(self._woken)
            os.close(self._waker)


def _listening_at(path: Path) -> socket.socket:
    """Returns a socket that listens there. What a process that was killed has left is replaced."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(path)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_address(path) as address:
            found.bind(address)
        os.chmod(path, 0o600)
        found.listen(_WAITING_MAX)
    except BaseException:
        found.close()
        raise
    return found

"""Reaches a replay log that another process of this machine has open."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from topicdb._core import UnavailableError
from topicdb.replay.distant.log import DistantLog
from topicdb.replay.orders.faults import unpacked
from topicdb.replay.orders.sockets import receive_line, send_line, short_address, socket_path

ANSWER_S = 120.0


def attach(database: str | os.PathLike[str], name: str) -> DistantLog | None:
    """Returns the log of this name if a process of this machine has it open, or None.

    Raises OSError if its socket may not be used, as it belongs to another user.
    """
    path = socket_path(os.fspath(database), name)
    try:
        with _connected(path) as connection:
            origin = _answer(connection, name, "origin", ())
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None  # nobody has opened it, or whoever had was killed
    return DistantLog(name, origin, partial(_send, path, name))


def _send(path: Path, log: str, order: str, *args: Any) -> Any:
    """Sends an order, and returns its result.

    Raises the error of the order, or UnavailableError if nobody takes it or there was no answer.
    """
    try:
        connection = _connected(path)
    except OSError as error:
        raise UnavailableError(
            f"no process has replay log {log!r} open any more ({error}): nothing was done"
        ) from None
    with connection:
        return _answer(connection, log, order, args)


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_S)
        with short_address(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _answer(connection: socket.socket, log: str, order: str, args: Sequence[Any]) -> Any:
    try:
        send_line(connection, {"order": order, "args": list(args)})
        answer = receive_line(connection)
    except (OSError, ValueError) as error:
        raise _unanswered(log, order, str(error)) from None
    if answer is None:
        raise _unanswered(log, order, "it has ended")
    if "error" in answer:
        raise unpacked(answer["error"])
    return answer["result"]


def _unanswered(log: str, order: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the process that has replay log {log!r} open did not answer ({why}): whether {order!r} "
        "was done is not known; topicdb replay status shows how the log stands"
    )

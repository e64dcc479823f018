"""Appends to a database in another process, for which the caller waits."""

from __future__ import annotations

import secrets
import time
from typing import Any

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.outgoing import packed, table_of
from topicdb.remote.records import record_of
from topicdb.types import Keys, Receipt

REPEAT_S = 10.0
REPEAT_PAUSE_S = 0.2


def append(
    connection: Connection,
    messages: Any,
    durability: str | None,
    escapes: bool = False,
    id: str | None = None,
    key: Keys | None = None,
) -> Receipt:
    """Stores messages as ``Engine.append_rows`` does.

    With an id it is repeated for up to ``REPEAT_S`` seconds while the server cannot be reached: the
    server stores it once.
    """
    data = packed(connection, table_of(messages, escapes=escapes, key=key))
    id = id_for(connection) if id is None else id
    if id is None:
        return record_of(Receipt, connection.call("append", durability, data))
    give_up_at = time.monotonic() + REPEAT_S
    is_doubtful = False
    while True:
        try:
            return record_of(Receipt, connection.call("append", durability, data, id))
        except UnavailableError as error:
            if time.monotonic() > give_up_at:
                raise error_after(error, is_doubtful) from None
            is_doubtful = is_doubtful or not isinstance(error, _core.NoQuorumError)
        time.sleep(REPEAT_PAUSE_S)


def error_after(error: BaseException, is_doubtful: bool) -> BaseException:
    """Returns the error of the last attempt to append, or what it means after earlier ones.

    ``is_doubtful``: whether an earlier attempt was not answered. What it has stored is not known
    then, though the last one has done nothing.
    """
    if is_doubtful and isinstance(error, _core.NoQuorumError):
        return _core.UnknownOutcomeError(f"whether this append is stored is not known yet: {error}")
    return error


def id_for(connection: Connection) -> str | None:
    """Returns an id for an append that has none, if another server may have to repeat it."""
    return secrets.token_hex(8) if connection.has_others else None

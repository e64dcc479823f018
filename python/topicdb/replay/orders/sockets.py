"""The sockets at which replay logs take orders, and what travels over them.

A log has a socket in the folder ``control`` of its database. Who may enter that folder, which is
the user who has made it, may give orders. An order is a line of JSON, and so is the answer to it;
docs/concepts/replay.md shows both.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = "control"
LINE_BYTES_MAX = 1 << 20
_OPEN_FILES = "/proc/self/fd"
_CHUNK_BYTES = 64 << 10


def socket_path(database: str, log: str) -> Path:
    """Returns where the socket of a log is.

    The name of the log may be longer than that of a file, so the file has a digest of it.
    """
    digest = hashlib.blake2b(log.encode(), digest_size=8).hexdigest()
    return Path(database) / FOLDER / f"{digest}.sock"


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yields an address of a socket's file that is short enough for the system, within the block.

    Addresses of sockets have some hundred bytes. Where the system lists the open files of a
    process, a longer path is named by its folder, which the block has open. Raises OSError if the
    folder is not there.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listed = f"{_OPEN_FILES}/{folder}"
        yield f"{listed}/{path.name}" if os.path.isdir(listed) else os.fspath(path)
    finally:
        os.close(folder)


def send_line(connection: socket.socket, value: Any) -> None:
    """Sends a value as a line of JSON. Raises TypeError if JSON has no form for it, and OSError."""
    connection.sendall(json.dumps(value, ensure_ascii=False).encode() + b"\n")


def receive_line(connection: socket.socket, bytes_max: int | None = None) -> Any:
    """Returns the value that comes as a line of JSON, or None if the other side has gone.

    Raises ValueError if what comes is no line of JSON of at most ``bytes_max`` bytes, and OSError.
    """
    data = bytearray()
    while not data.endswith(b"\n"):
        if bytes_max is not None and len(data) > bytes_max:
            raise ValueError(f"an order has at most {bytes_max} bytes")
        chunk = connection.recv(_CHUNK_BYTES)
        if not chunk:
            if data:
                raise ValueError("the order was cut off")
            return None
        data += chunk
    return json.loads(data)

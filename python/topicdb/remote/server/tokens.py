"""The file that says what tokens may do; ``topicdb token`` writes it, a server reads it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from topicdb import _core
from topicdb.arguments.times import now_us, time_us
from topicdb.errors import AccessError
from topicdb.remote.server.access import Access
from topicdb.remote.server.replacing import Replacing

_logger = logging.getLogger(__name__)
_LOOK_INTERVAL_S = 1.0
_FIELDS = ("read", "write", "admin", "names", "replay")
_KNOWN = {"name", "sha256", "everything", "expires", *_FIELDS}
TOKEN_BYTES = 32  # random, so that a plain hash of it is as good as a slow one


def hash_of(token: str) -> str:
    """Returns the hash of a token, which the file has instead of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens of a file. Thread-safe.

    It looks once a second whether the file has changed, and reads it again then. The constructor
    raises ValueError or OSError if the file has a mistake or cannot be read. If that happens later,
    the log says so, and no token is let in until the file is mended.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()  # also after the process has changed its directory
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._by_hash: dict[str, Access] = load(self._path)
        self._look_at = time.monotonic() + _LOOK_INTERVAL_S

    def access(self, token: str | None) -> Access:
        """Returns what ``token`` may do; raises AccessError if it is unknown or expired."""
        if not token:
            raise AccessError("a token is needed: topicdb.connect(…, token=…)")
        # A hash is looked up, so that the time it takes tells nothing about the token.
        access = self._current().get(hash_of(token))
        if access is None:
            raise AccessError("this token is not known here: it was never made, or is revoked")
        if access.expires_us is not None and access.expires_us <= now_us():
            raise AccessError(f"token {access.name!r} has expired")
        return access

    def _current(self) -> dict[str, Access]:
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _LOOK_INTERVAL_S
                stamp = self._stamp_now()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._reload()
            return self._by_hash

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _reload(self) -> None:
        try:
            self._by_hash = load(self._path)
        except (OSError, ValueError) as error:
            self._by_hash = {}
            _logger.error("nobody is let in: %s", error)


def load(path: Path) -> dict[str, Access]:
    """Returns what each token of the file may do, by the hash of the token.

    Raises OSError if the file cannot be read, and ValueError, with the file and the mistake.
    """
    found: dict[str, Access] = {}
    for entry in read_entries(path):
        access = _access_of(path, entry)
        if any(access.name == other.name for other in found.values()):
            raise ValueError(f"{path}: there are two tokens with the name {access.name!r}")
        found[entry["sha256"]] = access
    return found


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Returns the entries of the file as they are.

    Raises OSError if it cannot be read, and ValueError if it is not of that form.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: no JSON: {error}") from None
    entries = content.get("tokens") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ValueError(f'{path}: expected {{"tokens": [{{…}}, …]}}')
    return entries


def _access_of(path: Path, entry: dict[str, Any]) -> Access:
    where = f"{path}: token {entry.get('name')!r}"
    if unknown := sorted(set(entry) - _KNOWN):
        raise ValueError(f"{where}: {unknown[0]!r} is no field of a token")
    for field in ("name", "sha256"):
        if not isinstance(entry.get(field), str) or not entry[field]:
            raise ValueError(f"{where}: {field!r} is missing")
    read, write, admin, names, replay = (_texts(where, entry, field) for field in _FIELDS)
    if not isinstance(everything := entry.get("everything", False), bool):
        raise ValueError(f"{where}: everything: expected true or false")
    expires = entry.get("expires")
    try:
        return Access(
            entry["name"],
            read,
            write,
            admin,
            names,
            replay,
            everything=everything,
            expires_us=None if expires is None else time_us(expires, what="expires"),
        )
    except (_core.Error, ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _texts(where: str, entry: dict[str, Any], field: str) -> tuple[str, ...]:
    values = entry.get(field, [])
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f"{where}: {field}: expected a list of text")
    return tuple(values)


class _Change:
    """The entries of a file while this process holds its lock."""

    def __init__(self, path: Path, file: Replacing) -> None:
        self._file = file
        self.entries = read_entries(path) if path.exists() else []

    def write(self, entries: list[dict[str, Any]]) -> None:
        """Replaces the entries of the file by these, all of them or none."""
        text = json.dumps({"tokens": entries}, indent=2, ensure_ascii=False)
        self._file.replace(f"{text}\n".encode())


@contextmanager
def changing(path: Path) -> Iterator[_Change]:
    """Yields the entries of the file, which nobody else can change within the block.

    Raises LockedError if another process or thread changes the file for too long.
    """
    with Replacing(path) as file:
        yield _Change(path, file)


def add(path: Path, entry: dict[str, Any]) -> str:
    """Adds a token to the file, which it makes if there is none, and returns the token.

    ``entry``: as in the file, without the hash. Raises ExistsError if there is a token of this
    name, ValueError if the entry has a mistake, and LockedError if another process changes the file
    for too long.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    complete = {**entry, "sha256": hash_of(token)}
    _access_of(path, complete)
    with changing(path) as change:
        if any(one.get("name") == entry["name"] for one in change.entries):
            raise _core.ExistsError(f"{path}: there is a token with the name {entry['name']!r}")
        change.write([*change.entries, complete])
    return token


def remove(path: Path, name: str) -> None:
    """Revokes a token.

    Raises NotFoundError if there is none of this name, OSError if there is no file, and LockedError
    as ``add`` does.
    """
    if not path.exists():
        read_entries(path)  # raises FileNotFoundError before a lock file is made
    with changing(path) as change:
        left = [one for one in change.entries if one.get("name") != name]
        if len(left) == len(change.entries):
            raise _core.NotFoundError(f"{path}: there is no token with the name {name!r}")
        change.write(left)

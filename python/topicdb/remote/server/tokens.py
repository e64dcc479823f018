"""The file that says who may do what: ``topicdb token`` writes it, ``topicdb serve`` reads it."""

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
from topicdb.errors import AccessError
from topicdb.remote.server.access import Access
from topicdb.remote.server.replacing import Replacing
from topicdb.times import now_us, time_us

_logger = logging.getLogger(__name__)
_LOOK_INTERVAL_S = 1.0
_FIELDS = ("read", "write", "admin", "names")
_KNOWN = {"name", "sha256", "everything", "expires", *_FIELDS}
TOKEN_BYTES = 32  # random, so that a plain hash of it is as good as a slow one


def hash_of(token: str) -> str:
    """What the file has of a token, which itself is written nowhere."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens of a file; what is changed in it holds a second later. Thread-safe.

    A file that cannot be read, or has a mistake, lets nobody in until it is mended; it is told in
    the log, and when it is so at the beginning, by an error.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._by_hash: dict[str, Access] = load(self._path)
        self._look_at = time.monotonic() + _LOOK_INTERVAL_S

    def access(self, token: str | None) -> Access:
        """What ``token`` may do. AccessError: it is none, or has expired."""
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
    """What each token may do, by the hash of the token. ValueError names the file and the mistake;
    OSError."""
    found: dict[str, Access] = {}
    for entry in read_entries(path):
        access = _access_of(path, entry)
        if any(access.name == other.name for other in found.values()):
            raise ValueError(f"{path}: there are two tokens with the name {access.name!r}")
        found[entry["sha256"]] = access
    return found


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of the file as they are."""
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
    read, write, admin, names = (_texts(where, entry, field) for field in _FIELDS)
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
    """The entries of a file that nobody else changes meanwhile."""

    def __init__(self, path: Path, file: Replacing) -> None:
        self._file = file
        self.entries = read_entries(path) if path.exists() else []

    def write(self, entries: list[dict[str, Any]]) -> None:
        """Instead of those that are there: all of them or none."""
        text = json.dumps({"tokens": entries}, indent=2, ensure_ascii=False)
        self._file.replace(f"{text}\n".encode())


@contextmanager
def changing(path: Path) -> Iterator[_Change]:
    """Changes of other processes and threads come before or after it. LockedError."""
    with Replacing(path) as file:
        yield _Change(path, file)


def add(path: Path, entry: dict[str, Any]) -> str:
    """Adds a token to the file, which is made if need be, and returns it.

    ``entry``: as in the file, without the hash. ExistsError: there is one of this name.
    LockedError: another process changes the file, and does not come to an end.
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
    """Revokes a token. NotFoundError; LockedError as ``add``."""
    if not path.exists():
        read_entries(path)  # says so; nothing is made
    with changing(path) as change:
        left = [one for one in change.entries if one.get("name") != name]
        if len(left) == len(change.entries):
            raise _core.NotFoundError(f"{path}: there is no token with the name {name!r}")
        change.write(left)

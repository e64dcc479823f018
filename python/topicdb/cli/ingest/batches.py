"""Stores rows in batches, and leaves out batches that the database has already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import topicdb
from topicdb.types import Durability

Row: TypeAlias = "tuple[str, int | None, bytes]"

BATCH_BYTES_MAX = 64 << 20
SENT_BYTES_MAX = 16 << 20  # with a line of 32 MiB behind it, a server still takes a batch


class Batches:
    """Stores rows in batches, and leaves out batches that the database has already.

    The id of a batch is a hash of all rows and keys before it and of its first ones. If the
    database knows this id, the batch ends where the stored one ended, however many rows a batch has
    now. With ``repeat`` batches have no id, and everything is stored. Not thread-safe.
    """

    def __init__(
        self,
        database: topicdb.Database,
        rows_max: int,
        durability: Durability,
        *,
        bytes_max: int = BATCH_BYTES_MAX,
        repeat: bool,
        raw: bool,
    ) -> None:
        self._database = database
        self._rows_max = rows_max
        self._durability = durability
        self._bytes_max = bytes_max
        self._repeat = repeat
        self._raw = raw
        self._before = hashlib.blake2b(digest_size=16)
        self._rows: list[Row] = []
        self._keys: list[str | None] = []
        self._bytes = 0
        self._id: str | None = None
        self._limit = rows_max
        self._is_known = False
        self.repeated = 0
        """Messages that were there already."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[Row]:
        """Returns the rows that wait to be stored."""
        return self._rows

    def add(self, row: Row, key: str | None = None) -> bool:
        """Adds a row with its key, and returns whether the batch is full."""
        if not self._rows:
            self._begin(row, key)
        self._rows.append(row)
        self._keys.append(key)
        self._bytes += len(row[0]) + len(row[2])
        is_large = self._bytes >= self._bytes_max and not self._is_known
        return len(self._rows) >= self._limit or is_large

    def store(self) -> None:
        """Stores the rows that were added since the last time, if there are any."""
        if not self._rows:
            return
        if self._id is None:
            self._store_as(None)
        elif self._append(self._id):
            self.repeated += len(self._rows)
        if not self._repeat:
            _add_to(self._before, self._rows, self._keys)
        self._rows = []
        self._keys = []
        self._bytes = 0

    def _store_as(self, id: str | None) -> topicdb.Receipt:
        keys = self._keys if any(key is not None for key in self._keys) else None
        return self._database.append(
            self._rows, key=keys, raw=self._raw, id=id, durability=self._durability
        )

    def _begin(self, first: Row, key: str | None) -> None:
        if self._repeat:
            return
        beginning = self._before.copy()
        _add_to(beginning, [first], [key])
        self._id = f"ingest:{beginning.hexdigest()}"
        try:
            known = self._database.find_append(self._id)
        except topicdb.AccessError:
            raise topicdb.AccessError(
                "this token may not ask which messages of the file the server has already, for "
                "which it needs the right --admin '#': --repeat stores all messages without asking"
            ) from None
        self._is_known = known is not None
        self._limit = self._rows_max if known is None else known.count

    def _append(self, id: str) -> bool:
        """Stores the batch, and returns whether all of it was there already."""
        try:
            return self._store_as(id).repeated
        except ValueError:
            # The id belongs to a batch that begins with the same row and goes on in another way,
            # so these rows get an id of their own. Another mistake is raised again.
            content = hashlib.blake2b(digest_size=16)
            _add_to(content, self._rows, self._keys)
            name = f"{id}:{content.hexdigest()}"
            return self._store_as(name).repeated


def _add_to(hash: hashlib.blake2b, rows: Iterable[Row], keys: Iterable[str | None]) -> None:
    for (topic, timestamp, value), key in zip(rows, keys, strict=True):
        if key is not None:
            hash.update(b"key %d;" % len(key.encode()))
            hash.update(key.encode())
        text = topic.encode()
        hash.update(b"%d,%d,%s;" % (len(text), len(value), str(timestamp).encode()))
        hash.update(text)
        hash.update(value)

"""The same engine with a journal: a file with a record of each change, from which it is made again.

    4 bytes  size of the record, little-endian
    4 bytes  CRC32 of the record
    …        the record, as JSON

A record that is cut off at the end of the file, since the process was killed in between, was not
acknowledged; it is removed.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

import topicdb
from examples.memory_engine.engine import MemoryEngine
from examples.memory_engine.state import Commit, now_us

_HEAD = struct.Struct("<II")


class JournalEngine(MemoryEngine):
    """A MemoryEngine whose messages are there when it is opened again. Thread-safe."""

    persists: ClassVar[bool] = True

    def __init__(self, path: str, shards: int) -> None:
        super().__init__(path, shards)
        self._is_lost = False  # whether the file is not at its path any more
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        records = list(self._records())
        if not records:
            self._write({"database": self.database.hex(), "created": now_us()}, "disk")
        for record in records:
            self._play(record)

    def record(self, change: object, durability: str) -> None:
        if self._is_lost:
            self._check_in_place()
        self._write(_of_commit(change) if isinstance(change, Commit) else change, durability)

    def _write(self, record: object, durability: str) -> None:
        data = json.dumps(record).encode()
        whole = _HEAD.pack(len(data), zlib.crc32(data)) + data
        if os.write(self._file, whole) != len(whole):
            raise topicdb.StorageError(f"{self.path}: the disk is full")
        if durability == "disk":
            os.fsync(self._file)
            self._check_in_place()

    def _check_in_place(self) -> None:
        """Raises StorageError, from now on always, if the file is not at its path any more."""
        is_there = os.path.exists(self.path)
        if not is_there or not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
            self._is_lost = True
        if self._is_lost:
            raise topicdb.StorageError(f"{self.path} was removed or replaced while it was open")

    def _records(self) -> Iterator[Any]:
        """Yields the records of the file, and cuts off what is behind the last whole one."""
        with open(self._file, "rb", closefd=False) as file:
            data = file.read()
        at = 0
        while at + _HEAD.size <= len(data):
            size, checksum = _HEAD.unpack_from(data, at)
            record = data[at + _HEAD.size : at + _HEAD.size + size]
            if len(record) < size:
                break
            if zlib.crc32(record) != checksum:
                raise topicdb.CorruptionError(f"{self.path}: the record at {at} is damaged")
            yield json.loads(record)
            at += _HEAD.size + size
        os.truncate(self._file, at)
        os.lseek(self._file, at, os.SEEK_SET)

    def _play(self, record: dict[str, Any]) -> None:
        """Makes a change again that was made before."""
        if "database" in record:
            self.database = bytes.fromhex(record["database"])
            for shard in self.shards:
                shard.counts[shard.generation].created_at = record["created"]
        elif "rotate" in record:
            self.rotate_all(record["rotate"], record["resets_clock"])
        elif "drop" in record:
            shard, generation, serial = record["drop"]
            self.shards[shard].drop(generation, serial)
        else:
            commit = _to_commit(record)
            self.shards[commit.shard].apply(commit)

    def flush(self) -> None:
        with self.using():
            os.fsync(self._file)

    def close(self) -> None:
        with self.changed:
            if not self.closed:
                os.fsync(self._file)
                os.close(self._file)
            super().close()


def _of_commit(commit: Commit) -> dict[str, Any]:
    writes = [(topic, timestamp, value.hex()) for topic, timestamp, value in commit.writes]
    return {**vars(commit), "writes": writes}


def _to_commit(record: dict[str, Any]) -> Commit:
    writes = [(topic, time, bytes.fromhex(value)) for topic, time, value in record["writes"]]
    deletes = [((f, start, end), generation) for (f, start, end), generation in record["deletes"]]
    id = None if record["id"] is None else tuple(record["id"])
    return Commit(record["shard"], record["serial"], writes, deletes, id, record["clock"])

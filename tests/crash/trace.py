"""The trace that ``shim.c`` writes: what a program did to its files, in the order of effect.

A trace is a sequence of records, little-endian: kind u32, thread u32, handle u64, two numbers i64,
bytes of the name u32, bytes of the data u32, name, data. Names are relative to the root.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_HEADER = struct.Struct("<IIQqqII")


class Kind(IntEnum):
    """What an operation is, and what its fields are."""

    OPEN = 1  # name; handle: the file's from now on; first: flags
    WRITE = 2  # handle; first: offset; data
    TRUNCATE = 3  # handle; first: size
    ZERO = 4  # handle; first: offset, second: bytes; they are zero where the file had none
    RENAME = 5  # name; data: the new name; first: 1 if the two change places
    UNLINK = 6  # name
    LINK = 7  # name; data: the new name
    MAKE_DIRECTORY = 8  # name
    REMOVE_DIRECTORY = 9  # name
    SYNC = 10  # handle; second: 0 for fsync, 1 for fdatasync
    SYNC_ALL = 11
    MARK = 12  # data: the program's mark, in JSON
    SYMLINK = 13  # name; data: the name beside it to which it leads


@dataclass(frozen=True, slots=True)
class Operation:
    """One record; ``Kind`` says what its fields mean."""

    kind: Kind
    handle: int = 0
    first: int = 0
    second: int = 0
    name: str = ""
    data: bytes = b""
    thread: int = 0

    @property
    def new_name(self) -> str:
        """The new name of a rename or link, or where a symbolic link leads."""
        return os.fsdecode(self.data)

    @property
    def has_effect(self) -> bool:
        """Whether files, names or what is safe may differ after it."""
        if self.kind == Kind.OPEN:
            return bool(self.first & (os.O_CREAT | os.O_TRUNC))
        return self.kind != Kind.MARK

    def __str__(self) -> str:
        if self.kind == Kind.MARK:
            return f"mark {self.data[:200].decode(errors='replace')}"
        parts = [self.kind.name.lower(), self.name]
        if self.kind in (Kind.RENAME, Kind.LINK, Kind.SYMLINK):
            parts.append(f"{'<' if self.first else ''}-> {self.new_name}")
        if self.handle:
            parts.append(f"handle {self.handle & 0xFFFFFFFF}")
        if self.kind in (Kind.WRITE, Kind.TRUNCATE, Kind.ZERO):
            parts.append(f"at {self.first}, {len(self.data) or self.second} bytes")
        if self.kind == Kind.SYNC and self.second:
            parts.append("(data)")
        return " ".join(part for part in parts if part)


def read_trace(path: Path) -> list[Operation]:
    """Returns all operations of a trace. Raises ValueError if it ends within a record."""
    return list(_records(path.read_bytes()))


def _records(data: bytes) -> Iterator[Operation]:
    at = 0
    while at < len(data):
        if at + _HEADER.size > len(data):
            raise ValueError("the trace ends within a record")
        kind, thread, handle, first, second, name_bytes, size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        end = at + name_bytes + size
        if end > len(data):
            raise ValueError("the trace ends within a record")
        name = os.fsdecode(data[at : at + name_bytes])
        content = data[at + name_bytes : end]
        yield Operation(Kind(kind), handle, first, second, name, content, thread)
        at = end

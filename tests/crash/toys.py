"""Small programs that have a fault each, which the simulator must find, and the same without it."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash.programs import Checker, Crash, Mark

Step = Callable[[Path, int], None]
STEPS = 12


@dataclass(frozen=True)
class Toy:
    """Stores the numbers 0, 1, 2 and so on, each with a payload; ``read`` returns those stored."""

    store: Step
    read: Callable[[Path], list[int]]
    begin: Callable[[Path], None] = lambda root: None
    ignore: Sequence[str] = ()
    clock_ahead_s: int = 0

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        self.begin(root)
        for number in range(STEPS):
            self.store(root, number)
            mark({"stored": number})

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        return _ToyChecker(self)


@dataclass(frozen=True)
class _ToyChecker:
    toy: Toy

    def check(self, crash: Crash) -> None:
        found = self.toy.read(crash.directory)
        assert found == list(range(len(found))), f"found {found}"
        assert len(found) >= crash.marks, f"{crash.marks} were stored, {len(found)} are there"


def payload(number: int) -> bytes:
    return bytes([number + 1]) * 1500


def append(root: Path, number: int, *, fsync: bool, pieces: int = 1) -> None:
    """Appends a record of checksum, number and payload to a log, in ``pieces`` writes."""
    body = struct.pack("<I", number) + payload(number)
    record = struct.pack("<I", zlib.crc32(body)) + body
    fd = os.open(root / "log", os.O_WRONLY | os.O_APPEND)
    size = -(-len(record) // pieces)
    for at in range(0, len(record), size):
        os.write(fd, record[at : at + size])
    if fsync:
        os.fsync(fd)
    os.close(fd)


def read_log(root: Path, *, trusting: bool = False) -> list[int]:
    """Returns the numbers of the whole records at the beginning of the log.

    With ``trusting`` it takes all records, and checks no checksums.
    """
    data = (root / "log").read_bytes() if (root / "log").exists() else b""
    size = 8 + len(payload(0))
    found = []
    for at in range(0, len(data), size):
        record = data[at : at + size]
        if trusting:
            found.append(struct.unpack_from("<I", record.ljust(8, b"\0"), 4)[0])
            assert record[8:] == payload(found[-1]), f"record {found[-1]} is not whole"
        elif len(record) == size and zlib.crc32(record[4:]) == struct.unpack_from("<I", record)[0]:
            found.append(struct.unpack_from("<I", record, 4)[0])
        else:
            break
    return found


def begin_log(root: Path) -> None:
    os.close(os.open(root / "log", os.O_WRONLY | os.O_CREAT))
    sync_directory(root)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def replace(root: Path, number: int, *, fsync: bool, fsync_directory: bool) -> None:
    """Stores the state by writing a new file and renaming it over the old one."""
    fd = os.open(root / "state.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, b"".join(payload(one) for one in range(number + 1)))
    if fsync:
        os.fsync(fd)
    os.close(fd)
    os.rename(root / "state.tmp", root / "state")
    if fsync_directory:
        sync_directory(root)


def read_state(root: Path) -> list[int]:
    if not (root / "state").exists():
        return []
    data = (root / "state").read_bytes()
    size = len(payload(0))
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    assert parts, "the state is empty"
    for number, part in enumerate(parts):
        assert part == payload(number), f"part {number} of the state is damaged"
    return list(range(len(parts)))


def overwrite_in_place(root: Path, number: int) -> None:
    fd = os.open(root / "state", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, b"".join(payload(one) for one in range(number + 1)))
    os.fsync(fd)
    os.close(fd)
    sync_directory(root)


log = Toy(lambda root, n: append(root, n, fsync=True), read_log, begin_log)
log_without_fsync = Toy(lambda root, n: append(root, n, fsync=False), read_log, begin_log)
log_without_directory = Toy(
    lambda root, n: append(root, n, fsync=True),
    read_log,
    lambda root: os.close(os.open(root / "log", os.O_WRONLY | os.O_CREAT)),
)
log_without_checksum = Toy(
    lambda root, n: append(root, n, fsync=True, pieces=3),
    lambda root: read_log(root, trusting=True),
    begin_log,
)
state = Toy(lambda root, n: replace(root, n, fsync=True, fsync_directory=True), read_state)
state_without_fsync = Toy(
    lambda root, n: replace(root, n, fsync=False, fsync_directory=True), read_state
)
state_without_directory = Toy(
    lambda root, n: replace(root, n, fsync=True, fsync_directory=False), read_state
)
state_in_place = Toy(overwrite_in_place, read_state)


def _die(root: Path) -> list[int]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return []


def _map(root: Path, number: int) -> None:
    with (root / "file").open("wb") as file:
        os.ftruncate(file.fileno(), 4096)
    fd = os.open(root / "file", os.O_RDWR)
    mmap.mmap(fd, 4096)
    os.close(fd)


def _write_stream(root: Path, number: int) -> None:
    libc = ctypes.CDLL(None)
    libc.fopen(os.fsencode(root / "file"), b"w")


def _use_a_file_without_a_name(root: Path, number: int) -> None:
    fd = os.open(root, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, payload(number))
    assert os.pread(fd, 1500, 0) == payload(number)
    os.close(fd)


def _name_a_file_without_a_name(root: Path, number: int) -> None:
    fd = os.open(root, os.O_TMPFILE | os.O_RDWR)
    os.link(f"/proc/self/fd/{fd}", root / "file")


def _sort_and_append(root: Path, number: int) -> None:
    _use_a_file_without_a_name(root, number)
    append(root, number, fsync=True)


dies = Toy(lambda root, n: append(root, n, fsync=True), _die, begin_log)
log_beside_a_file_without_a_name = Toy(_sort_and_append, read_log, begin_log)
names_a_file_without_a_name = Toy(_name_a_file_without_a_name, read_state)
maps_a_file = Toy(_map, read_state)
writes_a_stream = Toy(_write_stream, read_state)

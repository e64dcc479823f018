"""Reads the lines of a file or pipe with bounded memory."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from typing import BinaryIO

LINE_BYTES_MAX = 32 << 20
_CHUNK_BYTES = 256 << 10
_IDLE_SECONDS = 1.0
_BOM = b"\xef\xbb\xbf"


class LineError(Exception):
    """A line that cannot be used. ``line`` is its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line:,}: {reason}")
        self.line = line


class Lines:
    """Iterates over the lines of ``file`` without their line feed; goes on after a LineError.

    It calls ``on_idle`` when no byte came through a pipe for a second, so that what came before can
    be stored instead of waiting for a batch to fill. ``number`` is that of the last line, from 1.
    ``total_bytes`` is the size of a regular file, else None. Not thread-safe.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file_descriptor = file.fileno()
        status = os.fstat(self._file_descriptor)
        self._regular = stat.S_ISREG(status.st_mode)
        self._ready: list[bytes] = []  # whole lines; the last is the next
        self._partial: list[bytes] = []  # the line that has not ended yet
        self._partial_bytes = 0
        self._ended = False
        self.total_bytes = status.st_size if self._regular else None
        self.bytes_read = 0
        self.number = 0
        self.on_idle: Callable[[], None] = lambda: None

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> bytes:
        """Returns the next line.

        Raises LineError if it is longer than ``LINE_BYTES_MAX``; the next call goes on behind it.
        """
        while not self._ready:
            if self._ended:
                raise StopIteration
            self._read_chunk()
        line = self._ready.pop()
        self.number += 1
        if len(line) > LINE_BYTES_MAX:
            raise LineError(self.number, f"longer than {LINE_BYTES_MAX >> 20} MiB")
        return line.removeprefix(_BOM) if self.number == 1 else line

    def _read_chunk(self) -> None:
        self._wait()
        chunk = os.read(self._file_descriptor, _CHUNK_BYTES)
        self.bytes_read += len(chunk)
        if not chunk:
            self._ended = True
            if self._partial_bytes:
                self._ready = [self._take_partial()]
            return
        first, *rest = chunk.split(b"\n")
        self._extend_partial(first)
        if rest:
            *whole, last = rest
            self._ready = [*reversed(whole), self._take_partial()]
            self._extend_partial(last)

    def _wait(self) -> None:
        if self._regular:
            return
        poller = select.poll()  # select.select takes only file numbers below 1,024
        poller.register(self._file_descriptor, select.POLLIN)
        while not poller.poll(_IDLE_SECONDS * 1_000):
            self.on_idle()  # and Python runs the handler if another thread got a Ctrl-C

    def _extend_partial(self, data: bytes) -> None:
        """Adds to the line, up to one byte beyond the limit, which marks it as too long."""
        room = LINE_BYTES_MAX + 1 - self._partial_bytes
        if data and room > 0:
            self._partial.append(data[:room])
            self._partial_bytes += min(len(data), room)

    def _take_partial(self) -> bytes:
        line = b"".join(self._partial)
        self._partial.clear()
        self._partial_bytes = 0
        return line

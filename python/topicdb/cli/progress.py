"""Shows progress on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text


class Waiting:
    """Shows a line while a call runs that says nothing of its progress."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, markup=False, highlight=False),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._progress.add_task(what, total=None)

    def __enter__(self) -> Waiting:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()


class Meter:
    """Shows how many bytes and messages are done while work goes on.

    ``total_bytes``: of how many bytes, if known. ``of_messages``: shows the part of the messages
    that is done, as ``advance`` is told.
    """

    def __init__(self, total_bytes: int | None = None, *, of_messages: bool = False) -> None:
        console = Console(stderr=True, markup=False, highlight=False)
        columns: tuple[ProgressColumn, ...] = (SpinnerColumn(),)
        if total_bytes is not None:
            columns = (BarColumn(), DownloadColumn())
        elif of_messages:
            columns = (BarColumn(),)
        self._progress = Progress(
            *columns,
            TextColumn("{task.fields[messages]:,} messages"),
            console=console,
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("", total=total_bytes, messages=0)

    def update(self, messages: int, bytes_done: int = 0) -> None:
        """Sets how many messages and bytes are done."""
        self._progress.update(self._task, completed=bytes_done, messages=messages)

    def advance(self, messages: int, total: int | None) -> None:
        """Sets how many of all messages are done; serves as ``progress`` of calls of the API."""
        self._progress.update(self._task, completed=messages, total=total, messages=messages)

    def note(self, text: str) -> None:
        """Prints a line on stderr, above the bar if one is shown."""
        self._progress.console.print(Text(text), soft_wrap=True)

    def __enter__(self) -> Meter:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

"""Shows progress on stderr: at a terminal, of work that takes a second, and not with --json."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, RenderableType
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

AFTER_S = 1.0  # work that is over earlier shows no progress


class _Wanted:
    """Whether the command that runs is to show progress."""

    is_quiet = False


def be_quiet(is_quiet: bool) -> bool:
    """Lets the command that runs show no progress, or show it; returns the argument."""
    _Wanted.is_quiet = is_quiet
    return is_quiet


class _Late(Progress):
    """Progress that is shown when the work has taken ``AFTER_S`` seconds."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self._began_s = time.monotonic()
        super().__init__(
            *columns,
            console=Console(stderr=True, markup=False, highlight=False),
            transient=True,
            disable=_Wanted.is_quiet or not sys.stderr.isatty(),
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Gives what is to be shown now."""
        if time.monotonic() - self._began_s >= AFTER_S:
            yield from super().get_renderables()


class Waiting:
    """Shows a line while a call runs that says nothing of its progress."""

    def __init__(self, what: str) -> None:
        self._progress = _Late(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        )
        self._progress.add_task(what, total=None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Shows nothing in the block, which may ask the person at the terminal."""
        self._progress.stop()
        yield
        self._progress.start()

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
        columns: tuple[ProgressColumn, ...] = (SpinnerColumn(),)
        if total_bytes is not None:
            columns = (BarColumn(), DownloadColumn())
        elif of_messages:
            columns = (BarColumn(),)
        self._progress = _Late(*columns, TextColumn("{task.fields[messages]:,} messages"))
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

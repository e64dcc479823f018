"""A progress bar for reads of many messages, at a terminal and in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

from topicdb.frames.extras import library

Part = TypeVar("Part", bound=Sized)


def with_progress(
    parts: Iterable[Part], about: Callable[[], int | None], purpose: str
) -> Iterator[Part]:
    """Gives parts of a read, and shows how many messages came.

    Arguments:
        parts: batches of messages.
        about: returns about how many messages there are. None: nobody knows, and the bar shows
            only how many came.
        purpose: the method that shows the bar, for the error.

    Returns:
        An iterator of the parts.

    Raises:
        ModuleNotFoundError: tqdm is not installed.
    """
    library("tqdm", purpose, extra="progress")
    from tqdm.auto import tqdm

    return _shown(parts, tqdm(total=about(), unit=" messages", unit_scale=True))


def _shown(parts: Iterable[Part], bar: Any) -> Iterator[Part]:
    with bar:
        for part in parts:
            yield part
            bar.update(len(part))
        bar.total = bar.n  # it was an estimate
        bar.refresh()

"""A queue whose directory was removed or replaced acknowledges nothing that is to be durable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import topicdb
from topicdb import StorageError

GONE = "removed or replaced while it was open"

Change: TypeAlias = "Callable[[Path], object]"


def rename(path: Path) -> None:
    path.rename(path.with_name("moved"))


def remove_files(path: Path) -> None:
    """Removes all files and leaves the directory, as some cleaners of old files do."""
    for file in path.iterdir():
        file.unlink()


def replace(path: Path) -> None:
    """Puts another queue in the place of the one that is open."""
    rename(path)
    with topicdb.Queue.open(path) as other:
        other.append([b"other"])


LOSSES: list[Change] = [shutil.rmtree, rename, remove_files, replace]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest.fixture(params=["topicdb", "replayq"])
def queue(path: Path, request: pytest.FixtureRequest) -> Iterator[topicdb.Queue]:
    options: dict[str, Any] = {"format": request.param, "segment_bytes": 4096}
    opened = topicdb.Queue.open(path, **options)
    opened.append([b"first", b"second"], durability="disk")
    yield opened
    with suppress(topicdb.Error):
        opened.close()


@pytest.mark.parametrize("lose", LOSSES)
def test_a_durable_append_to_a_queue_is_not_acknowledged(
    queue: topicdb.Queue, path: Path, lose: Change
) -> None:
    lose(path)
    with pytest.raises(StorageError, match=GONE):
        queue.append([b"third"], durability="disk")
    with pytest.raises(StorageError, match="takes nothing more"):
        queue.append([b"fourth"])


@pytest.mark.parametrize("lose", LOSSES)
def test_acknowledgements_of_a_lost_queue_are_not_flushed(
    queue: topicdb.Queue, path: Path, lose: Change
) -> None:
    popped = queue.pop(1)
    assert popped.ref is not None
    queue.ack(popped.ref)
    lose(path)
    with pytest.raises(StorageError, match=GONE):
        queue.flush()


def test_the_queue_in_its_place_is_left_alone(queue: topicdb.Queue, path: Path) -> None:
    replace(path)
    with suppress(StorageError):
        for number in range(20):
            queue.append([b"%09d" % number * 500])
            popped = queue.pop(2)
            if popped.ref is not None:
                queue.ack(popped.ref)
    with suppress(StorageError):
        queue.flush()
    with suppress(StorageError):
        queue.close()
    with topicdb.Queue.open(path) as other:
        assert other.pop(10).items == [b"other"]
        assert not other.stats().damage

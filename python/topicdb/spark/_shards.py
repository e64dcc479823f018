"""Opening parts of a database, as a Spark driver or task needs it."""

from __future__ import annotations

import os
import random
import time

import topicdb

_RETRY_FIRST_S = 0.02
_RETRY_LONGEST_S = 0.5


def local_path(path: str | os.PathLike[str]) -> str:
    """``path`` made absolute, since a worker may run in another directory.

    Raises ValueError for a URL: a database is a directory in a file system that every executor sees.
    """
    text = os.fspath(path)
    if "://" in text or text.startswith("file:"):
        raise ValueError(f"path: {text!r} is a URL; give a directory that every executor can open")
    return os.path.abspath(text)


def open_shard(path: str, shard: int, *, lock_timeout: float) -> topicdb.Database:
    """Opens one shard for writing, waiting while another process has it.

    A cancelled task keeps its lock until Spark has killed its worker (some seconds), so that a
    locked shard is tried again, with growing pauses, for ``lock_timeout`` seconds. LockedError then.
    """
    deadline = time.monotonic() + lock_timeout
    pause = _RETRY_FIRST_S
    while True:
        try:
            return topicdb.open(path, only_shards=[shard])
        except topicdb.LockedError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise topicdb.LockedError(f"{error} (tried for {lock_timeout:g} s)") from error
        # Chance keeps tasks that wait for one shard from trying in step.
        time.sleep(min(left, pause * random.uniform(0.5, 1.5)))
        pause = min(2 * pause, _RETRY_LONGEST_S)

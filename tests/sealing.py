"""Waits until the sealer of a database has nothing more to do."""

from __future__ import annotations

import time
from typing import Any

LOOK_S = 0.001  # the pause between two looks: the sealer tells nobody when it is done


def sealing_is_over(db: Any) -> bool:
    """Returns whether the sealer of a database has nothing more to do."""
    return not any(shard["is_sealing"] for shard in db.stats()["shards"])


def wait_for_sealing(db: Any) -> None:
    """Waits until ``sealing_is_over``, however long that takes."""
    while not sealing_is_over(db):
        time.sleep(LOOK_S)

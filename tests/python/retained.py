"""Helpers for tests of retention: they open databases and say what was dropped and what is left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import topicdb
from topicdb.lifecycle.retention import Dropped, RetentionLike

HOUR = 3_600 * 1_000_000


DAY = 24 * HOUR


def now() -> int:
    return time.time_ns() // 1_000


def opened(path: Path, retention: Mapping[str, RetentionLike] | None = None, **options: Any) -> Any:
    return topicdb.open(path, retention=retention, **{"maintenance_interval": None, **options})


def reasons(dropped: list[Dropped]) -> list[tuple[str, str]]:
    return [(item.slab.retention_class, item.reason) for item in dropped]


def values(db: topicdb.Database, filter: str = "#") -> list[bytes]:
    return sorted(message.value for message in db.scan(filter))

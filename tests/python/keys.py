"""Helpers for tests of databases that shard by key."""

from __future__ import annotations

from typing import Any

import topicdb
from model.model import shard_of


def key_in_shard(shard: int, shards: int, prefix: str = "client+") -> str:
    """Returns a key that belongs to ``shard``; no topic may have its ``+``."""
    keys = (f"{prefix}{i}" for i in range(10_000))
    return next(key for key in keys if shard_of(key, shards) == shard)


def by_shard(db: topicdb.Database, filter: str = "#") -> dict[int, list[Any]]:
    """Returns the messages of each shard that has some, in the order of its streams."""
    found: dict[int, list[Any]] = {}
    for stream in db.streams(filter):
        messages = [tuple(message) for message in db.scan(filter, streams=[stream])]
        if messages:
            found.setdefault(stream.shard, []).extend(messages)
    return found


def values_by_shard(db: topicdb.Database, filter: str = "#") -> dict[int, list[bytes]]:
    """Returns the values of each shard's messages, sorted."""
    return {
        shard: sorted(value for _, _, value in messages)
        for shard, messages in by_shard(db, filter).items()
    }

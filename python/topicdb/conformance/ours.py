"""TopicDB's own engines, for the suite.

python -m topicdb.conformance topicdb.conformance.ours:COLUMNAR
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

import topicdb
from topicdb import _core
from topicdb.conformance.subject import Subject
from topicdb.database.completions import Completer
from topicdb.engine import AppendQueue, Engine

SEAL_BYTES = 2_000
"""So little that the sealer works beside every promise."""


def _open(
    path: str, layout: Literal["columnar", "skipstream"], shards: int = 1, **options: int | str
) -> topicdb.Database:
    return topicdb.open(
        path,
        layout=layout,
        shards=shards,
        maintenance_interval=None,
        **options,  # type: ignore[arg-type]
    )


@contextmanager
def columnar(path: str) -> Iterator[Engine]:
    """Opens a database with the layout columnar."""
    with _open(path, "columnar") as db:
        yield db.engine


@contextmanager
def columnar_in_shards(path: str) -> Iterator[Engine]:
    """Opens a database with the layout columnar and three shards, which seals all the time."""
    with _open(path, "columnar", 3, seal_bytes=SEAL_BYTES) as db:
        yield db.engine


@contextmanager
def columnar_by_key(path: str) -> Iterator[Engine]:
    """Opens a database with three shards whose messages may have keys."""
    with _open(path, "columnar", 3, shard_by="key") as db:
        yield db.engine


@contextmanager
def skipstream(path: str) -> Iterator[Engine]:
    """Opens a database with the layout skipstream and two shards."""
    with _open(path, "skipstream", 2) as db:
        yield db.engine


@contextmanager
def to_read(path: str) -> Iterator[Engine]:
    """Opens a database to read."""
    with topicdb.open(path, mode="r") as db:
        yield db.engine


@contextmanager
def without_a_shard(path: str, shard: int) -> Iterator[Engine]:
    """Opens a database of which a shard is lost."""
    with _lost(path, shard), _open_what_is_left(path) as db:
        yield db.engine


@contextmanager
def _lost(path: str, shard: int) -> Iterator[None]:
    """Takes a shard of a closed database away, and puts it back."""
    there = Path(path) / "shards" / f"{shard:04}"
    away = there.rename(f"{path}-shard-{shard}")
    try:
        yield
    finally:
        away.rename(there)


def _open_what_is_left(path: str) -> topicdb.Database:
    return topicdb.open(path, on_damage="skip", maintenance_interval=None)


def completer(engine: Engine) -> AppendQueue:
    """Returns a queue such as ``topicdb.open`` makes one."""
    return Completer(cast(_core.Database, engine))


def appender(engine: Engine) -> AppendQueue:
    """Returns a queue such as ``topicdb.connect`` makes one."""
    from topicdb.remote.client.appender import Appender
    from topicdb.remote.client.engine import RemoteEngine

    assert isinstance(engine, RemoteEngine), f"this is no client: {engine}"
    return Appender(engine.connection)


@contextmanager
def remote(path: str) -> Iterator[Engine]:
    """Opens a database with two shards, and a server for it, and connects to that."""
    with _served(_open(path, "columnar", 2), path) as engine:
        yield engine


@contextmanager
def remote_to_read(path: str) -> Iterator[Engine]:
    """Opens a database to read, and a server for it, and connects to that."""
    with _served(topicdb.open(path, mode="r"), path) as engine:
        yield engine


@contextmanager
def remote_without_a_shard(path: str, shard: int) -> Iterator[Engine]:
    """Opens a database of which a shard is lost, and a server for it, and connects to that."""
    with _lost(path, shard), _served(_open_what_is_left(path), path) as engine:
        yield engine


@contextmanager
def _served(database: topicdb.Database, path: str) -> Iterator[Engine]:
    snapshots = Path(f"{path}-snapshots")
    snapshots.mkdir(exist_ok=True)
    with (
        database,
        topicdb.serve(database, snapshots=snapshots) as server,
        topicdb.connect(server.url) as client,
    ):
        yield client.engine


COLUMNAR = Subject("columnar", columnar, to_read, appends=completer)
SHARDED = Subject("columnar, three shards", columnar_in_shards, to_read, without_a_shard, completer)
KEYED = Subject("columnar, by key", columnar_by_key, to_read, without_a_shard, completer)
SKIPSTREAM = Subject("skipstream", skipstream, to_read, without_a_shard, completer)
REMOTE = Subject("remote", remote, remote_to_read, remote_without_a_shard, appender)
ALL = (COLUMNAR, SHARDED, KEYED, SKIPSTREAM, REMOTE)

"""``topicdb.open``, and the translation of its options for the core."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal

from topicdb import _core
from topicdb.arguments.sizes import Size
from topicdb.arguments.times import duration_us
from topicdb.creating import directories_for, settled_path
from topicdb.database.completions import Completer
from topicdb.database.database import Database
from topicdb.lifecycle.quota import quota_size, trim_part
from topicdb.lifecycle.retention import RetentionLike, retention_classes
from topicdb.types import Durability

NO_MAINTENANCE = 0


def open(
    path: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    shards: int | None = None,
    shard_by: Literal["topic", "key"] | None = None,
    layout: Literal["columnar", "skipstream"] | None = None,
    timestamp_bytes: Literal[0, 8] | None = None,
    structures: Sequence[str] | None = None,
    thresholds: Sequence[int] | None = None,
    retention: Mapping[str, RetentionLike] | None = None,
    durability: Durability = "os",
    only_shards: Sequence[int] | None = None,
    on_damage: Literal["raise", "skip"] = "raise",
    cache_bytes: int = 32 << 20,
    write_buffer_bytes: int = 64 << 20,
    seal_bytes: int = 16 << 20,
    learning: Literal["adaptive", "base"] = "adaptive",
    streams_max: int = 4096,
    flush_interval: str | timedelta = "10ms",
    idle_flush_interval: str | timedelta = "1ms",
    max_pending: int = 10_000,
    max_pending_bytes: int = 64 << 20,
    conflict_window: str | timedelta = "5s",
    quota_bytes: Size | None = None,
    quota_trim: float | None = 0.9,
    maintenance_interval: str | timedelta | None = "10s",
    directory_mode: int | None = None,
) -> Database:
    """Opens the database at ``path``, or creates it there (``mode="rw"``) with the given schema.

    The schema is fixed at creation. These arguments are part of it: ``shards``, ``shard_by``,
    ``layout``, ``timestamp_bytes``, ``structures``, ``thresholds`` and ``retention``. None stands
    for what is stored, or for the default in a new database. Another value must agree with what is
    stored. All other arguments are settings of this handle.

    Arguments:
        path: the directory of the database.
        mode: ``"rw"`` reads and writes, ``"r"`` only reads, also beside a process that writes.
        shards: the number of shards, 1 to 1,024 (default 1). One process writes a shard.
        shard_by: what decides in which shard a message is stored. ``"topic"`` (the default): its
            topic, so that all messages of a topic are in one shard. ``"key"``: the key that
            ``append`` is given with it, such as the client that has published it; without a key,
            its topic.
        layout: ``"columnar"`` (the default: for messages, which are all kept) or ``"skipstream"``
            (for state: the same topic and timestamp overwrites). It is the layout of the first
            generations; ``Database.rotate`` and ``Retention.layout`` begin others.
        timestamp_bytes: 8, or 0 for a pure map of topics (every timestamp is then 0).
        structures: hints, such as ``["metrics/+/cpu/#"]``: levels that are known to vary.
        thresholds: how many distinct words a level may have before it counts as varying, by depth;
            the last number repeats (default ``[100, 10]``).
        retention: topic filter to age (``"7d"``, a timedelta), ``Retention`` (age, bytes, layout),
            or None for "keep". The first filter that matches a topic decides its retention class.
            Topics that no filter matches are kept. ``Database.set_retention`` changes it.
        durability: the default of ``append``. A message survives a ``close`` with ``"none"``, a
            ``kill -9`` with ``"os"``, and a power cut with ``"disk"``.
        only_shards: opens these shards only; other processes may write the others.
        on_damage: ``"raise"`` refuses a database with a shard that is damaged or gone. ``"skip"``
            opens it without such shards, unless all are: ``Database.missing_shards`` names them,
            and what needs one of them raises MissingShardError. See docs/concepts/partial.md.
        cache_bytes: memory for reads, shared by all shards (default 32 MiB).
        write_buffer_bytes: memory for written messages before they go to files, shared by all
            shards (default 64 MiB).
        seal_bytes: layout columnar: each slab keeps this many bytes of messages as they came,
            before it sorts, compresses and indexes them in the background (default 16 MiB). Reading
            takes longest there.
        learning: how structures are learned. ``"adaptive"``: within a budget of streams for each
            slab, and anew whenever a generation ends. ``"base"``: by ``thresholds`` alone.
        streams_max: the budget of streams for each slab.
        flush_interval: asynchronous appends gather until the oldest has waited this long. Other
            appends are written at once.
        idle_flush_interval: asynchronous appends are also written when none came for this long.
        max_pending: how many commits may wait in a shard. A caller that brings more waits itself.
        max_pending_bytes: how many bytes of commits may wait in a shard (default 64 MiB).
        conflict_window: the longest time that a transaction which writes may be open.
        quota_bytes: once the open shards have this many bytes on disk (a number, or ``"30GB"``;
            measured once a second), calls that add data raise QuotaError; deletes pass. None: no
            limit. ``Database.set_quota`` changes it.
        quota_trim: the part of the quota from which on the oldest generations are dropped, 0 to 1.
            None: they never are.
        maintenance_interval: how often ``Database.maintain`` runs in the background. It drops what
            ``retention`` and ``quota_trim`` no longer keep. None: only when you call it.
        directory_mode: the permissions of the directory ``path``, such as ``0o700``, when this call
            makes it: whoever may not enter it can read nothing. None: what the umask leaves, often
            readable for everybody. Directories above it are made as the umask has it.

    Returns:
        The handle. Many threads may use it, but no forked child: that opens its own. Close the
        handle, or use ``with``.

    Raises:
        NotFoundError: there is no database, and ``mode="r"``.
        CorruptionError: something else is there, or the database is damaged.
        SchemaError: the arguments disagree with what is stored, are malformed, or a newer TopicDB
            wrote the database.
        LockedError: another process (its pid is named) writes it.
        ForkedError: it would write, and this process was forked while its parent had a database
            open for writing.
        StorageError: the file system failed. With ``mode="r"`` also: the power failed while the
            database was written, and nobody has opened it for writing since.
        ValueError, TypeError: another option is wrong.

    Example:
        >>> with topicdb.open("plant.db", retention={"#": "30d"}) as plant:
        ...     plant.append([("metrics/h1/cpu", None, b"42")]).count
        1
    """
    if mode not in ("rw", "r"):
        raise ValueError(f"mode: expected 'rw' or 'r', got {mode!r}")
    where = settled_path(path)
    options = core_options(
        shards=shards,
        shard_by=shard_by,
        layout=layout,
        timestamp_bytes=timestamp_bytes,
        structures=structures,
        thresholds=thresholds,
        retention=retention,
        durability=durability,
        cache_bytes=cache_bytes,
        write_buffer_bytes=write_buffer_bytes,
        seal_bytes=seal_bytes,
        learning=learning,
        streams_max=streams_max,
        flush_interval=flush_interval,
        idle_flush_interval=idle_flush_interval,
        max_pending=max_pending,
        max_pending_bytes=max_pending_bytes,
        conflict_window=conflict_window,
        quota_bytes=quota_bytes,
        quota_trim=quota_trim,
        maintenance_interval=maintenance_interval,
    )
    if only_shards is not None:
        options.only_shards = only_shards
    options.read_only = mode == "r"
    options.on_damage = on_damage
    if mode == "r":
        core = _core.Database.open(where, options)
    else:
        with directories_for(where, directory_mode):
            core = _core.Database.open(where, options)
    appends = Completer(core)
    database = Database(core, appends)
    appends.retire_with(database)
    return database


def core_options(
    *,
    shards: int | None = None,
    shard_by: Literal["topic", "key"] | None = None,
    layout: Literal["columnar", "skipstream"] | None = None,
    timestamp_bytes: Literal[0, 8] | None = None,
    structures: Sequence[str] | None = None,
    thresholds: Sequence[int] | None = None,
    retention: Mapping[str, RetentionLike] | None = None,
    durability: Durability | None = None,
    cache_bytes: int = 32 << 20,
    write_buffer_bytes: int = 64 << 20,
    seal_bytes: int = 16 << 20,
    learning: Literal["adaptive", "base"] = "adaptive",
    streams_max: int = 4096,
    flush_interval: str | timedelta = "10ms",
    idle_flush_interval: str | timedelta = "1ms",
    max_pending: int = 10_000,
    max_pending_bytes: int = 64 << 20,
    conflict_window: str | timedelta = "5s",
    quota_bytes: Size | None = None,
    quota_trim: float | None = 0.9,
    maintenance_interval: str | timedelta | None = "10s",
) -> _core.OpenOptions:
    """Returns the options of ``open`` for the core, which has the same defaults.

    Raises ValueError or TypeError if one is wrong.
    """
    quota, trim = quota_size(quota_bytes), trim_part(quota_trim)
    options = _core.OpenOptions()
    given = {
        "shards": shards,
        "shard_by": shard_by,
        "layout": layout,
        "timestamp_bytes": timestamp_bytes,
        "structures": structures,
        "thresholds": thresholds,
        "retention": None if retention is None else retention_classes(retention),
        "durability": durability,
    }
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    options.cache_bytes = cache_bytes
    options.write_buffer_bytes = write_buffer_bytes
    options.seal_bytes = seal_bytes
    options.learning = learning
    options.streams_max = streams_max
    options.flush_interval_us = duration_us(flush_interval, what="flush_interval")
    options.idle_flush_interval_us = duration_us(idle_flush_interval, what="idle_flush_interval")
    options.conflict_window_us = duration_us(conflict_window, what="conflict_window")
    options.max_pending = max_pending
    options.max_pending_bytes = max_pending_bytes
    options.quota_bytes = quota
    options.quota_trim = trim
    options.maintenance_interval_us = (
        NO_MAINTENANCE
        if maintenance_interval is None
        else duration_us(maintenance_interval, what="maintenance_interval")
    )
    return options

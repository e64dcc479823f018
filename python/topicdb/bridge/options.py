"""Checks of the options of a bridge, before anything is connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from topicdb import _core
from topicdb.arguments.filters import SHARED, covers
from topicdb.arguments.times import duration_us

_U16_MAX = (1 << 16) - 1
_U32_MAX = (1 << 32) - 1


def check_bridge(
    filters: Sequence[str],
    name: str,
    qos: int,
    protocol: str,
    deduplicate_by: str | None,
    history: Sequence[str],
) -> None:
    """Raises ValueError, which names the option, for an option that cannot be."""
    if not filters:
        raise ValueError("filters: at least one topic filter is needed, such as '#'")
    if not name or "\0" in name or len(name.encode()) > _U16_MAX:
        raise ValueError(
            f"name: expected 1 to {_U16_MAX} bytes without NUL, under which the broker keeps the "
            f"session, got {name!r}"
        )
    for one in filters:
        if one.startswith(SHARED) and len(one.split("/", 2)) < 3:
            raise ValueError(f"filters: expected $share/<group>/<filter>, got {one!r}")
    if qos not in (0, 1, 2):
        raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
    if protocol not in ("5", "3.1.1"):
        raise ValueError(f"protocol: expected '5' or '3.1.1', got {protocol!r}")
    if protocol != "5" and (deduplicate_by is not None or history):
        raise ValueError("deduplicate_by and history need protocol='5': they are user properties")


def check_sharding(
    shard_by: str, client_level: int | None, protocol: str, schema: Mapping[str, Any], path: str
) -> None:
    """Checks how messages go to the shards of a database, which has this schema and path.

    Raises ValueError, which names the option, for an option that cannot be; SchemaError if the
    database shards by topic and the messages are to go by clients.
    """
    if shard_by not in ("topic", "client"):
        raise ValueError(f"shard_by: expected 'topic' or 'client', got {shard_by!r}")
    if shard_by == "topic":
        if client_level is not None:
            raise ValueError("client_level: it names the client for shard_by='client' only")
        return
    if client_level is not None and client_level < 1:
        raise ValueError(f"client_level: levels of a topic count from 1, got {client_level}")
    if client_level is None and protocol != "5":
        raise ValueError(
            "shard_by: with protocol '3.1.1' a message says of its client only what is in its "
            "topic: give client_level, or protocol='5', whose user properties may name the client"
        )
    if schema.get("shard_by", "topic") != "key":
        raise _core.SchemaError(
            f"shard_by: {path} is sharded by topic: leave it out, or store in a database that was "
            "created with shard_by='key'"
        )


def check_connection(keepalive: int, login: tuple[str, str | None] | None) -> None:
    """Raises ValueError, which names the option, for an option that cannot be."""
    if not 0 < keepalive <= _U16_MAX:
        raise ValueError(f"keepalive: expected 1 to {_U16_MAX} s, got {keepalive}")
    for what, text in zip(("username", "password"), login or (), strict=False):
        if text is not None and len(text.encode()) > _U16_MAX:
            raise ValueError(f"{what}: at most {_U16_MAX} bytes")


def expiry_s(session_expiry: str | timedelta) -> int:
    """Returns a duration in whole seconds. Raises ValueError if MQTT cannot express it."""
    seconds = duration_us(session_expiry, what="session_expiry") // 1_000_000
    if not 0 < seconds <= _U32_MAX:
        raise ValueError(
            f"session_expiry: expected one second to {_U32_MAX} s, got {session_expiry!r}"
        )
    return seconds


def widest(filters: Sequence[str]) -> list[str]:
    """Returns the filters without those that another one covers."""
    kept: list[str] = []
    for one in filters:
        if not any(covers(other, one) for other in kept):
            kept = [*(other for other in kept if not covers(one, other)), one]
    return kept

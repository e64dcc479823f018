"""What a read must see, as the calls of a database take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from topicdb.arguments.times import timeout_us
from topicdb.arguments.wrong_types import wrong_type
from topicdb.types import AtLeast, AtLeastLike, Receipt

_SERIAL_END = 1 << 64


class Needs(NamedTuple):
    """What a read must see, checked: the arguments of ``Engine.seeing``.

    Attributes:
        serials: {shard: serial}: these commits. None: everything that was acknowledged before.
        timeout_us: how long the read waits for that, in µs.
    """

    serials: dict[int, int] | None
    timeout_us: int


def needs_of(at_least: AtLeastLike | None, schema: Mapping[str, Any]) -> Needs | None:
    """Returns what a read of a database with this schema must see; None: nothing in particular.

    Raises TypeError or ValueError, which name what is wrong.
    """
    if at_least is None:
        return None
    given = at_least if isinstance(at_least, AtLeast) else AtLeast(at_least)
    wait_us = timeout_us(given.timeout, what="at_least: timeout")
    if wait_us is None:
        raise ValueError("at_least: timeout: expected seconds from 0 on, got None")
    if given.seen == "acknowledged":
        return Needs(None, wait_us)
    seen = given.seen.serials if isinstance(given.seen, Receipt) else given.seen
    if not isinstance(seen, Mapping):
        raise wrong_type("at_least", "Receipt, {shard: serial} or 'acknowledged'", given.seen)
    shards = schema["shards"]
    for shard, serial in seen.items():
        if not _is_below(shard, shards):
            raise ValueError(f"at_least: there is no shard {shard!r}, only 0 to {shards - 1}")
        if not _is_below(serial, _SERIAL_END):
            raise ValueError(f"at_least: shard {shard}: expected a serial, got {serial!r}")
    return Needs(dict(seen), wait_us)


def _is_below(number: object, end: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < end

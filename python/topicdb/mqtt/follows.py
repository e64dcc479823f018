"""What the bridges of a database follow, as it is stored: for them, and for replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from topicdb.engine import Engine
from topicdb.map import unescape

_PREFIX = "$topicdb/bridge/"
LEVEL = "follows"


class Follows(NamedTuple):
    """A bridge follows these ``filters`` (shared ones, too) of the broker at ``host``, ``port``.

    ``confirmed``: those that the broker has certainly accepted, in the session that it keeps, with
    the bridge's subscription identifier. ``stores_replays``: also what a replay publishes.
    """

    host: str
    port: int
    protocol: str
    filters: tuple[str, ...]
    confirmed: tuple[str, ...] = ()
    stores_replays: bool = False

    def encode(self) -> bytes:
        """The bytes that are stored; docs/format.md draws them."""
        return json.dumps(self._asdict(), ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def decode(value: bytes) -> Follows:
        """What ``encode`` was given."""
        found = json.loads(value)
        return Follows(
            found["host"],
            found["port"],
            found["protocol"],
            tuple(found["filters"]),
            tuple(found["confirmed"]),
            found["stores_replays"],
        )


def stored(core: Engine) -> Iterator[tuple[str, Follows]]:
    """The names of all bridges of a database that ever had a connection, and what they follow."""
    scan = core.scan(f"{_PREFIX}+/{LEVEL}", None, None, "stream", None)
    try:
        while (batch := scan.next_batch(1_000, 8 << 20)) is not None:
            for topic, _, value in batch:
                yield unescape(topic.split("/")[2]), Follows.decode(value)
    finally:
        scan.close()

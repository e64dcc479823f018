"""The stored record of which filters a bridge follows, for bridges and replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from topicdb.engine import Engine
from topicdb.map import unescape

_PREFIX = "$topicdb/bridge/"
LEVEL = "follows"


class Follows(NamedTuple):
    """The ``filters`` that a bridge follows of the broker at ``host`` and ``port``.

    Some of them may be shared ones.

    ``confirmed``: the filters that the broker has certainly accepted, in the session that it keeps,
    with the bridge's subscription identifier. ``stores_replays``: the bridge also stores what a
    replay publishes.
    """

    host: str
    port: int
    protocol: str
    filters: tuple[str, ...]
    confirmed: tuple[str, ...] = ()
    stores_replays: bool = False

    def encode(self) -> bytes:
        """Returns the bytes to store; docs/internals/format.md draws them."""
        return json.dumps(self._asdict(), ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def decode(value: bytes) -> Follows:
        """Returns the record that ``encode`` has encoded."""
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
    """Gives the name and the record of each bridge of a database that ever had a connection."""
    scan = core.scan(f"{_PREFIX}+/{LEVEL}", None, None, "stream", None)
    try:
        while (batch := scan.next_batch(1_000, 8 << 20)) is not None:
            for topic, _, value in batch:
                yield unescape(topic.split("/")[2]), Follows.decode(value)
    finally:
        scan.close()

"""Remembers which retained messages a bridge has stored: brokers send copies of them."""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from topicdb import _core
from topicdb.arguments.filters import unshared
from topicdb.engine import Engine, TransactionEngine
from topicdb.mqtt.envelope import Envelope
from topicdb.transaction import begun

Known: TypeAlias = "dict[str, bytes]"
"""Digests of retained messages, by topic."""

DIGEST_BYTES = 16
_ONE_BY_ONE_MAX = 16  # more topics are looked up together
_RECENT_MAX = 20_000
_SIZE = struct.Struct("<q")


@dataclass(slots=True)
class State:
    """The state of a topic: digests of its newest message, and of the last retained one.

    ``newest``: of the newest stored message. ``remembered``: of the message that the broker
    retained when the bridge last heard of it. None: there is none.
    """

    newest: bytes | None = None
    is_newest_retained: bool = False
    remembered: bytes | None = None

    def has(self, digest: bytes, tells_retained: bool) -> bool:
        """Returns whether a copy with this digest is stored, or was.

        A message that is stored behind the remembered one may have been retained since. Then a copy
        that equals the remembered one was published again. Only MQTT 5 tells whether it was
        retained.
        """
        if digest == self.newest:
            return True
        if digest != self.remembered:
            return False
        return self.newest is None or (tells_retained and not self.is_newest_retained)


class Retained:
    """The retained messages of one bridge. Not thread-safe: the bridge's thread uses it.

    For most copies, the stored messages show that they are known. In addition it stores for each
    topic the digest of the message that was last retained, under ``<prefix>retained/<digest of the
    topic>`` in the shard of the topic, wherever the messages themselves are: retention and
    ``delete`` may have removed that message, and other messages of the topic may have come since.
    """

    def __init__(
        self, core: Engine, prefix: str, filters: Sequence[str], has_properties: bool
    ) -> None:
        self.has_properties = has_properties
        self._core = core
        self._prefix = f"{prefix}retained/"
        self._filters = [unshared(one) for one in filters]
        self._recent: OrderedDict[str, bytes] = OrderedDict()  # stored digests of some topics

    def states(self, topics: Mapping[int, Iterable[str]]) -> dict[str, State]:
        """Returns what is known of these topics, which are given by the shards of topics."""
        found: dict[str, State] = {}
        for shard, names in topics.items():
            if names:
                with begun(self._core, shard, None) as transaction:
                    for topic in names:
                        remembered = transaction.get(self._key(topic), 0)
                        found[topic] = State(remembered=remembered)
        for batch in self._newest(found):
            for topic, _, value in batch:
                if (state := found.get(topic)) is not None:
                    envelope = Envelope.read(value)
                    state.newest = digest_of(envelope, self.has_properties)
                    state.is_newest_retained = envelope.retain
        return found

    def _newest(self, topics: Mapping[str, object]) -> Iterable[_core.Batch]:
        filters: Iterable[str] = topics
        if len(topics) > _ONE_BY_ONE_MAX and self._filters:
            filters = self._filters
        for one in filters:
            scan = self._core.last(one, None, None)
            try:
                while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                    yield batch
            finally:
                scan.close()

    def is_news(self, topic: str, digest: bytes) -> bool:
        """Returns whether the digest is new: most retained messages repeat the last one."""
        return self._recent.get(topic) != digest

    def write(self, transaction: TransactionEngine, known: Known) -> None:
        """Lets a transaction store these digests."""
        for topic, digest in known.items():
            transaction.write(self._key(topic), 0, digest, reserved=True)

    def wrote(self, known: Known) -> None:
        """Notes that these digests are committed."""
        for topic, digest in known.items():
            self._recent.pop(topic, None)
            self._recent[topic] = digest
        while len(self._recent) > _RECENT_MAX:
            self._recent.popitem(last=False)

    def _key(self, topic: str) -> str:
        # A topic of the greatest length would leave no room for the prefix.
        return self._prefix + hashlib.blake2b(topic.encode(), digest_size=DIGEST_BYTES).hexdigest()


def digest_of(envelope: Envelope, has_properties: bool) -> bytes:
    """Returns a digest of what tells messages apart: the payload, and with it the properties.

    It leaves out how the message came, and how long it lives, which counts down.
    """
    content = hashlib.blake2b(envelope.payload, digest_size=DIGEST_BYTES)
    if has_properties:
        fields: list[str | bytes | None] = [
            envelope.content_type,
            envelope.response_topic,
            envelope.correlation_data,
            *(text for user in envelope.user_properties for text in user),
        ]
        format = envelope.payload_format
        content.update(_SIZE.pack(len(envelope.payload)))
        content.update(_SIZE.pack(-1 if format is None else format))
        for one in fields:
            data = one.encode() if isinstance(one, str) else one
            content.update(_SIZE.pack(-1 if data is None else len(data)))
            content.update(data or b"")
    return content.digest()

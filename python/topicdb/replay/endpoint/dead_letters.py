"""Dead letters: what an endpoint could give to nobody is stored again under another topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.filters import overlap
from topicdb.arguments.times import now_us
from topicdb.follow.positions import Place
from topicdb.mqtt.envelope import Envelope
from topicdb.replay.endpoint.spool import Lent
from topicdb.replay.host import Host
from topicdb.replay.ids import MessageId
from topicdb.replay.records import EndpointRecord, Expired
from topicdb.types import Message

Reason: TypeAlias = Literal["rejected", "expired"]
PROPERTY = "topicdb-dead-"
"""What the names of the user properties begin with that say why a message is a dead letter."""
TOPIC_BYTES_MAX = 65_535
_RESERVED = ("$topicdb", "$share")


class DeadLetters:
    """Stores messages that one endpoint removes once more, under the topic for its dead letters.

    A dead letter is a message of the database like any other, so that neither trimming nor the
    retention of the message itself takes it away. The endpoint's ``Parts`` own this object, and
    their lock is held for every call.
    """

    def __init__(self, host: Host, record: EndpointRecord) -> None:
        self._host = host
        self._record = record

    def send(self, lents: Sequence[Lent], reason: Reason, client: str) -> bool:
        """Stores these messages as dead letters, all or none, if there is a topic for them.

        Returns whether there is one. ``client``: who has rejected them, or "". Raises what an
        append raises; then nothing is stored. REQUIRES: the messages are not done with.
        """
        if self._record.dead_letter is None:
            return False
        rows = [
            self._letter(lent.held.message(index), lent.held.place(index), reason, client)
            for lent in lents
            for index in lent.indexes
        ]
        if rows:
            self._host.append(rows)
        return True

    def _letter(self, message: Message, place: Place, reason: Reason, client: str) -> Message:
        topic, timestamp, value = message
        told = {
            "reason": reason,
            "endpoint": f"{self._host.name}/{self._record.name}",
            "topic": topic,
            "id": str(MessageId(self._host.origin, *place)),
            "client": client,
            "time": str(now_us()),
        }
        envelope = Envelope.read(value)
        properties = (*envelope.user_properties, *((PROPERTY + k, v) for k, v in told.items()))
        # What it was for has not become of it in time, so nobody waits for it to expire again.
        dead = envelope._replace(message_expiry_s=None, user_properties=properties)
        return Message(self._topic_of(topic), timestamp, dead.encode())

    def _topic_of(self, topic: str) -> str:
        assert self._record.dead_letter is not None
        longer = f"{self._record.dead_letter}/{topic}"
        return longer if len(longer.encode()) <= TOPIC_BYTES_MAX else self._record.dead_letter


def check_expired(expired: Expired) -> None:
    """Raises ValueError if this says not what becomes of expired messages."""
    if expired not in ("give", "remove"):
        raise ValueError(f"expired: expected 'give' or 'remove', got {expired!r}")


def check_dead_letter(topic: str | None, subscriptions: Iterable[str]) -> None:
    """Raises TopicError or ValueError if dead letters of an endpoint cannot have this topic.

    ``subscriptions``: those of the endpoint. None stands for an endpoint without dead letters.
    """
    if topic is None:
        return
    _core.check_topic(topic)
    if topic.split("/", 1)[0] in _RESERVED:
        raise ValueError(f"dead_letter: topics below {topic.split('/', 1)[0]!r} are TopicDB's own")
    for filter in subscriptions:
        if overlap(filter, f"{topic}/#"):
            raise ValueError(
                f"dead_letter: {topic!r} would bring the endpoint its own dead letters, as it "
                f"subscribes to {filter!r}; choose a topic that begins with '$', such as '$dead/…'"
            )

"""What selectors see of a message."""

from __future__ import annotations

from collections.abc import Mapping

from topicdb.mqtt.envelope import Envelope
from topicdb.replay.selector.selector import Selector
from topicdb.types import Message


def properties_of(message: Message) -> Mapping[str, object]:
    """``topic``, ``timestamp`` (µs), and what an envelope holds; see ``Envelope.properties``."""
    envelope = Envelope.decode(message.value)
    found: dict[str, object] = {} if envelope is None else dict(envelope.properties())
    found["topic"] = message.topic
    found["timestamp"] = message.timestamp
    return found


class MessageSelector:
    """A selector, for messages."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector

    def __call__(self, message: Message, /) -> bool:
        return self.selector.matches(properties_of(message))


def selector_of(text: str | None) -> MessageSelector | None:
    """ValueError: it is no condition. ImportError: sqlglot is needed."""
    return None if text is None else MessageSelector(Selector(text))

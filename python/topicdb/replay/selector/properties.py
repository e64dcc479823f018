"""The properties of a message that selectors can use."""

from __future__ import annotations

from collections.abc import Mapping

from topicdb.mqtt.envelope import Envelope
from topicdb.replay.selector.selector import Selector
from topicdb.types import Message


def properties_of(message: Message) -> Mapping[str, object]:
    """Returns the properties of a message by name.

    These are ``topic``, ``timestamp`` (µs since 1970), and if a bridge has stored the message with
    its MQTT properties, those of ``Envelope.properties``.
    """
    envelope = Envelope.decode(message.value)
    found: dict[str, object] = {} if envelope is None else dict(envelope.properties())
    found["topic"] = message.topic
    found["timestamp"] = message.timestamp
    return found


class MessageSelector:
    """Tells whether a selector matches a stored message. Thread-safe."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector

    def __call__(self, message: Message, /) -> bool:
        return self.selector.matches(properties_of(message))


def selector_of(text: str | None) -> MessageSelector | None:
    """Returns the selector with this text, or None if there is no text.

    Raises ValueError if the text is no condition, and ImportError if sqlglot is not installed.
    """
    return None if text is None else MessageSelector(Selector(text))

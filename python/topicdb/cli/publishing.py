"""The options of ``topicdb publish`` that say how a message was published."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from topicdb import _core
from topicdb.arguments.times import duration_us
from topicdb.mqtt.envelope import Envelope

_EXPIRY_S_MAX = (1 << 32) - 1  # MQTT 5 sends it in four bytes


class PayloadFormat(str, Enum):
    """MQTT 5's payload format indicator."""

    BYTES = "bytes"
    TEXT = "text"


QosOption = Annotated[
    int | None,
    typer.Option(
        "--qos", min=0, max=2, help="Store this QoS with the message, as a bridge stores it."
    ),
]
RetainOption = Annotated[
    bool, typer.Option("--retain", help="Store the retain flag with the message.")
]
ContentTypeOption = Annotated[
    str | None,
    typer.Option(
        "--content-type", metavar="TYPE", help="Store this content type: application/json."
    ),
]
UserPropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--user-property",
        metavar="NAME=VALUE",
        help="Store this user property with the message. You may repeat it.",
    ),
]
ResponseTopicOption = Annotated[
    str | None,
    typer.Option("--response-topic", metavar="TOPIC", help="Store this topic for responses."),
]
CorrelationDataOption = Annotated[
    str | None,
    typer.Option("--correlation-data", metavar="TEXT", help="Store this correlation data."),
]
MessageExpiryOption = Annotated[
    str | None,
    typer.Option(
        "--message-expiry",
        metavar="AGE",
        help="Let the message expire after this time, in whole seconds: 90s, 1h. A replay to a "
        "broker leaves out messages that have expired.",
    ),
]
PayloadFormatOption = Annotated[
    PayloadFormat | None,
    typer.Option("--payload-format", help="Store whether the value is text in UTF-8, or bytes."),
]
PublisherOption = Annotated[
    str | None,
    typer.Option("--client-id", metavar="ID", help="Store this client id as the publisher's."),
]


@dataclass(frozen=True)
class Published:
    """How a message was published, by the options of the command."""

    qos: int | None = None
    retain: bool = False
    content_type: str | None = None
    user_property: list[str] | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    message_expiry: str | None = None
    payload_format: PayloadFormat | None = None
    client_id: str | None = None

    def envelope(self) -> Envelope | None:
        """Returns the properties around an empty payload; None if no option was given.

        Raises:
            typer.BadParameter: a user property has no name.
            TopicError: the topic for responses is no topic.
            ValueError: the time until the message expires is none.
        """
        if self == Published():
            return None
        if self.response_topic is not None:
            _core.check_topic(self.response_topic)
        given = self.correlation_data
        return Envelope(
            b"",
            qos=self.qos or 0,
            retain=self.retain,
            client_id=self.client_id or "",
            payload_format=_payload_format(self.payload_format),
            message_expiry_s=_expiry_s(self.message_expiry),
            content_type=self.content_type,
            response_topic=self.response_topic,
            correlation_data=None if given is None else given.encode(),
            user_properties=tuple(_pair(text) for text in self.user_property or ()),
        )


def _payload_format(given: PayloadFormat | None) -> int | None:
    return None if given is None else int(given is PayloadFormat.TEXT)


def _expiry_s(text: str | None) -> int | None:
    if text is None:
        return None
    seconds, rest = divmod(duration_us(text, what="--message-expiry"), 1_000_000)
    if rest or not 0 < seconds <= _EXPIRY_S_MAX:
        raise ValueError(
            f"--message-expiry: MQTT counts whole seconds, from 1s to {_EXPIRY_S_MAX}s, got "
            f"{text!r}"
        )
    return seconds


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise typer.BadParameter(
            f"{text!r}: expected NAME=VALUE, such as unit=K", param_hint="--user-property"
        )
    return name, value

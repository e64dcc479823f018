"""A client that publishes, and learns of every message that the broker refuses.

By itself paho-mqtt passes over the reason code of a PUBREC. It answers a refusal with PUBREL, as if
the broker had the message; brokers then send PUBCOMP, which says that all is well.
"""

from __future__ import annotations

from paho.mqtt.client import Client
from paho.mqtt.enums import MessageState, MQTTErrorCode

_NEEDED = ("_handle_pubrec", "_handle_pubackcomp", "_messages_reconnect_reset_out")
_RELEASED = (MessageState.MQTT_MS_WAIT_FOR_PUBCOMP, MessageState.MQTT_MS_RESEND_PUBREL)
_REASON_AT = 2  # where the reason code is in a PUBREC, behind the packet identifier; MQTT 5 only
_FAILURE = 0x80  # reason codes from here on are failures


def check_methods(*names: str) -> None:
    """Raises ImportError if paho's client lacks one of these private methods.

    Whoever overrides or calls such methods names them here. ``pyproject.toml`` has the versions
    that are known to have them.
    """
    for name in names:
        if not hasattr(Client, name):
            raise ImportError(
                f"this version of paho-mqtt has no Client.{name}; TopicDB is known to work with "
                "2.0 to 2.2"
            )


def check_publishing() -> None:
    """Raises ImportError if ``PublishingClient`` cannot work with this version of paho-mqtt."""
    check_methods(*_NEEDED)


class PublishingClient(Client):
    """A client whose ``on_publish`` gets the reason code of a refusal with QoS 2, too.

    As with QoS 1, the client forgets a message that the broker has refused: others have its place
    among those that are on their way, and nothing more goes out about it. Not thread-safe.

    If it connects again without a clean start, it never publishes a message anew that the broker
    has answered with PUBREC, but sends PUBREL. paho-mqtt forgets that when an attempt to connect
    fails.
    """

    def _handle_pubrec(self) -> MQTTErrorCode:
        packet = bytes(self._in_packet["packet"])
        if len(packet) > _REASON_AT and packet[_REASON_AT] >= _FAILURE:
            # It ends the exchange like a PUBACK, which has the same form and the same codes.
            return self._handle_pubackcomp("PUBACK")
        return super()._handle_pubrec()

    def _messages_reconnect_reset_out(self) -> None:
        released = [one for one in self._out_messages.values() if one.state in _RELEASED]
        super()._messages_reconnect_reset_out()
        if not self._check_clean_session():
            for message in released:
                message.state = MessageState.MQTT_MS_RESEND_PUBREL

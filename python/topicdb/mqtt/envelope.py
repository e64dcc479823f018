"""The envelope: the value under which a bridge stores a message with its MQTT properties."""

from __future__ import annotations

from typing import NamedTuple

from topicdb import _core


class Envelope(NamedTuple):
    """A published message: its payload, how it was published, and its MQTT 5 properties.

    A field is None or empty if the message had no such property.

    - ``client_id``: of the publisher, if the bridge was told.
    - ``message_expiry_s``: how many seconds the message had left to live when it was received.
    - ``received``: when it was received, in µs since 1970, if that is not the timestamp of the
      message.
    """

    payload: bytes
    qos: int = 0
    retain: bool = False
    client_id: str = ""
    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    subscription_ids: tuple[int, ...] = ()
    received: int | None = None

    def encode(self) -> bytes:
        """Returns the bytes to store, for ``append(raw=True)``: docs/internals/format.md.

        Raises ValueError if a number is negative, TypeError if a field has another type.
        """
        try:
            return _core.encode_envelope(*self)
        except TypeError:
            raise TypeError(
                "envelope: a field has another type than the class says, or a number does not fit"
            ) from None

    @staticmethod
    def decode(value: bytes) -> Envelope | None:
        """Returns the envelope in a value that ``scan(raw=True)`` gave.

        Returns None if the value is no envelope, or is damaged.
        """
        return _core.decode_envelope(value)

    @staticmethod
    def read(value: bytes, qos: int = 0) -> Envelope:
        """Returns the envelope in a value, or for one without properties an envelope with ``qos``.

        Such an envelope has nothing else but the payload.
        """
        envelope = Envelope.decode(value)
        return Envelope(_core.payload_of(value), qos) if envelope is None else envelope

    def properties(self) -> dict[str, str | int | bool]:
        """Returns the properties for selectors.

        These are the user properties by name (the last one of a name), and ``mqtt_qos``,
        ``mqtt_retain``, ``mqtt_client_id``, ``mqtt_payload_format``, ``mqtt_message_expiry_s``,
        ``mqtt_content_type`` and ``mqtt_response_topic``, if the message has them.
        """
        found: dict[str, str | int | bool] = dict(self.user_properties)
        found["mqtt_qos"] = self.qos
        found["mqtt_retain"] = self.retain
        for name, value in (
            ("mqtt_client_id", self.client_id or None),
            ("mqtt_payload_format", self.payload_format),
            ("mqtt_message_expiry_s", self.message_expiry_s),
            ("mqtt_content_type", self.content_type),
            ("mqtt_response_topic", self.response_topic),
        ):
            if value is not None:
                found[name] = value
        return found

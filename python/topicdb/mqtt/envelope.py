"""A message with its MQTT properties, as the value under which a bridge stores it."""

from __future__ import annotations

from typing import NamedTuple

from topicdb import _core


class Envelope(NamedTuple):
    """What was published: the ``payload``, how, and the MQTT 5 properties; None or empty where
    there was nothing. ``client_id``: of the publisher, where the bridge was told. ``received``:
    when it was received, µs since 1970, if that is not the timestamp of the message."""

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
        """The bytes that are stored, for ``append(raw=True)``; docs/format.md draws them.

        ValueError: a number is negative. TypeError: a field is of another type.
        """
        try:
            return _core.encode_envelope(*self)
        except TypeError:
            raise TypeError(
                "envelope: a field has another type than the class says, or a number does not fit"
            ) from None

    @staticmethod
    def decode(value: bytes) -> Envelope | None:
        """Of a value as ``scan(raw=True)`` gives it: the envelope, or None; the value is none, or
        is damaged."""
        return _core.decode_envelope(value)

    @staticmethod
    def read(value: bytes, qos: int = 0) -> Envelope:
        """As ``decode``; of a value without properties one that has this ``qos``, and nothing else
        beside the payload."""
        envelope = Envelope.decode(value)
        return Envelope(_core.payload_of(value), qos) if envelope is None else envelope

    def properties(self) -> dict[str, str | int | bool]:
        """For selectors: user properties by name (of several the last), and ``mqtt_qos``,
        ``mqtt_retain``, ``mqtt_client_id``, ``mqtt_payload_format``, ``mqtt_message_expiry_s``,
        ``mqtt_content_type``, ``mqtt_response_topic``, where there are such."""
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

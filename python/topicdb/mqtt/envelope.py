"""The envelope: the value under which a bridge stores a message with its MQTT properties."""

from __future__ import annotations

from typing import NamedTuple

from topicdb import _core


class Envelope(NamedTuple):
    """A published message: its payload, how it was published, and its MQTT 5 properties.

    A field is None or empty if the message had no such property.

    Attributes:
        payload: the payload, as bytes.
        qos: the QoS with which the message was published, 0 to 2.
        retain: whether it was published with the retain flag.
        client_id: the client that published it, if the bridge was told.
        payload_format: MQTT 5's payload format indicator: 0 bytes, 1 UTF-8 text.
        message_expiry_s: how many seconds the message had left to live when it was received.
        content_type: MQTT 5's content type.
        response_topic: MQTT 5's response topic.
        correlation_data: MQTT 5's correlation data.
        user_properties: (name, value) pairs in their order; a name may occur more than once.
        subscription_ids: MQTT 5's subscription identifiers.
        received: when it was received, in µs since 1970, if that is not the timestamp of the
            message.

    Example:
        >>> from topicdb.replay import Envelope
        >>> value = Envelope(b"42", qos=1, content_type="text/plain").encode()
        >>> receipt = db.append([("metrics/h2/cpu", None, value)], raw=True)
        >>> db.scan("metrics/h2/cpu", properties=True).to_list()[0].properties.content_type
        'text/plain'
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

        Raises:
            ValueError: a number is negative.
            TypeError: a field has another type.
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

        Arguments:
            value: the bytes as they are stored.

        Returns:
            The envelope. None if the value is no envelope, or is damaged.
        """
        return _core.decode_envelope(value)

    @staticmethod
    def read(value: bytes, qos: int = 0) -> Envelope:
        """Returns the envelope in a value, also for a value without properties.

        Arguments:
            value: the bytes as they are stored.
            qos: of an envelope for a value without properties. It has nothing else but the payload.

        Returns:
            The envelope.
        """
        envelope = Envelope.decode(value)
        return Envelope(_core.payload_of(value), qos) if envelope is None else envelope

    def properties(self) -> dict[str, str | int | bool]:
        """Returns the properties for selectors.

        Returns:
            The user properties by name (the last one of a name), and ``mqtt_qos``, ``mqtt_retain``,
            ``mqtt_client_id``, ``mqtt_payload_format``, ``mqtt_message_expiry_s``,
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

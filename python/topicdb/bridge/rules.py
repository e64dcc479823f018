"""Rules for the packets that a client may get from a broker, except PUBLISH; MQTT 5.0 and 3.1.1.

paho-mqtt accepts many packets that a conforming client has to refuse, and some make it fail with
errors of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn

_U16 = struct.Struct("!H")
MALFORMED, PROTOCOL_ERROR = 0x81, 0x82  # reason codes


class PacketError(ValueError):
    """A packet that no broker may send; ``reason`` is the code to end the connection with."""

    def __init__(self, text: str, reason: int = MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason


def protocol_error(text: str) -> NoReturn:
    """Raises a PacketError for a packet that is well-formed and still not allowed."""
    raise PacketError(text, PROTOCOL_ERROR)


def prefixed(packet: bytes, at: int) -> tuple[bytes, int]:
    """Returns the bytes behind a length of two bytes, and where they end.

    Raises PacketError if they are cut off.
    """
    begin = at + 2
    if begin > len(packet):
        raise PacketError("a length is cut off")
    end = begin + int(_U16.unpack_from(packet, at)[0])
    if end > len(packet):
        raise PacketError("text or data is cut off")
    return bytes(packet[begin:end]), end


def text(packet: bytes, at: int) -> tuple[str, int]:
    """Returns text behind a length of two bytes, and where it ends.

    Raises PacketError if it is no UTF-8 or has a NUL.
    """
    data, end = prefixed(packet, at)
    try:
        found = data.decode()
    except UnicodeDecodeError as error:
        raise PacketError(f"{data!r} is no UTF-8: {error.reason}") from None
    if "\0" in found:
        raise PacketError(f"{data!r} has a NUL")
    return found, end


def varint(packet: bytes, at: int) -> tuple[int, int]:
    """Returns a variable byte integer, and where it ends.

    Raises PacketError unless it has one to four bytes, and no more than it needs.
    """
    number = 0
    for shift in (0, 7, 14, 21):
        if at >= len(packet):
            raise PacketError("a number is cut off")
        byte = packet[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise PacketError("a number has more bytes than it needs")
            return number, at
    raise PacketError("a number of more than four bytes")


def _number(size: int, allowed: Callable[[int], bool]) -> Callable[[bytes, int], int]:
    def skip(packet: bytes, at: int) -> int:
        if at + size > len(packet):
            raise PacketError("a property is cut off")
        number = int.from_bytes(packet[at : at + size], "big")
        if not allowed(number):
            protocol_error(f"the value of a property is {number}")
        return at + size

    return skip


def _skip_text(packet: bytes, at: int) -> int:
    return text(packet, at)[1]


def _skip_pair(packet: bytes, at: int) -> int:
    return _skip_text(packet, _skip_text(packet, at))


def _skip_data(packet: bytes, at: int) -> int:
    return prefixed(packet, at)[1]


_FLAG = _number(1, lambda number: number <= 1)
_POSITIVE_2 = _number(2, lambda number: number > 0)
_POSITIVE_4 = _number(4, lambda number: number > 0)
_ANY_2 = _number(2, lambda number: True)
_ANY_4 = _number(4, lambda number: True)
REASON_STRING, USER_PROPERTY = 0x1F, 0x26
_ANSWER = {REASON_STRING: _skip_text, USER_PROPERTY: _skip_pair}
_CONNACK = {
    **_ANSWER,
    0x11: _ANY_4,  # session expiry interval
    0x12: _skip_text,  # assigned client identifier
    0x13: _ANY_2,  # server keep alive
    0x15: _skip_text,  # authentication method
    0x16: _skip_data,  # authentication data
    0x1A: _skip_text,  # response information
    0x1C: _skip_text,  # server reference
    0x21: _POSITIVE_2,  # receive maximum
    0x22: _ANY_2,  # topic alias maximum
    0x24: _FLAG,  # maximum QoS
    0x25: _FLAG,  # retain available
    0x27: _POSITIVE_4,  # maximum packet size
    0x28: _FLAG,  # wildcard subscriptions available
    0x29: _FLAG,  # subscription identifiers available
    0x2A: _FLAG,  # shared subscriptions available
}
_DISCONNECT = {**_ANSWER, 0x1C: _skip_text}

_PUBACK_CODES = {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
_PUBREL_CODES = {0, 0x92}
_SUBACK_CODES = {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}
_UNSUBACK_CODES = {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}
_CONNACK_CODES = {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F}
_DISCONNECT_CODES = {
    *(0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90),
    *range(0x93, 0xA3),
}

_Properties = Mapping[int, Callable[[bytes, int], int]]


def _skip_properties(packet: bytes, at: int, allowed: _Properties) -> int:
    size, at = varint(packet, at)
    end = at + size
    if end > len(packet):
        raise PacketError("properties are cut off")
    packet = packet[:end]
    seen: set[int] = set()
    while at < end:
        kind, at = varint(packet, at)
        if kind not in allowed:
            protocol_error(f"property {kind} has no place in it")
        if kind in seen and kind != USER_PROPERTY:
            protocol_error(f"property {kind} is there twice")
        seen.add(kind)
        at = allowed[kind](packet, at)
    return at


def _check_id(packet: bytes) -> None:
    if len(packet) < 2:
        raise PacketError(f"its size is {len(packet)}, too small for a packet identifier")
    if packet[:2] == b"\0\0":
        protocol_error("packet identifier 0")


def _check_code(code: int, allowed: Collection[int]) -> None:
    if code not in allowed:
        protocol_error(f"reason code {code:#04x} has no place in it")


def _check_size(packet: bytes, size: int) -> None:
    if len(packet) != size:
        raise PacketError(f"its size is {len(packet)} instead of {size}")


def _answer_to_publish(codes: Collection[int]) -> Callable[[bytes, bool], None]:
    def check(packet: bytes, is_v5: bool) -> None:
        _check_id(packet)
        if not is_v5:
            _check_size(packet, 2)
        elif len(packet) > 2:
            _check_code(packet[2], codes)
            if len(packet) > 3:
                _check_size(packet, _skip_properties(packet, 3, _ANSWER))

    return check


def _connack(packet: bytes, is_v5: bool) -> None:
    if len(packet) < 2:
        raise PacketError(f"its size is {len(packet)}")
    flags, code = packet[0], packet[1]
    if flags > 1:
        raise PacketError(f"reserved flags are set: {flags:#04x}")
    if flags and code:
        protocol_error("a session is present, and the connection refused")
    if not is_v5 or (len(packet) == 2 and code == 1):  # 1: the broker speaks only 3.1.1
        _check_size(packet, 2)
        _check_code(code, range(6))
        return
    _check_code(code, _CONNACK_CODES)
    _check_size(packet, _skip_properties(packet, 2, _CONNACK))


def _suback(packet: bytes, is_v5: bool) -> None:
    _check_id(packet)
    at = _skip_properties(packet, 2, _ANSWER) if is_v5 else 2
    if at == len(packet):
        protocol_error("no reason codes")
    for code in packet[at:]:
        _check_code(code, _SUBACK_CODES if is_v5 else (0, 1, 2, 0x80))


def _unsuback(packet: bytes, is_v5: bool) -> None:
    _check_id(packet)
    if not is_v5:
        _check_size(packet, 2)
        return
    at = _skip_properties(packet, 2, _ANSWER)
    if at == len(packet):
        protocol_error("no reason codes")
    for code in packet[at:]:
        _check_code(code, _UNSUBACK_CODES)


def _pingresp(packet: bytes, is_v5: bool) -> None:
    _check_size(packet, 0)


def _disconnect(packet: bytes, is_v5: bool) -> None:
    if not is_v5:
        protocol_error("brokers do not send it")
    if packet:
        _check_code(packet[0], _DISCONNECT_CODES)
        if len(packet) > 1:
            _check_size(packet, _skip_properties(packet, 1, _DISCONNECT))


_CHECKS: dict[int, tuple[str, int, Callable[[bytes, bool], None]]] = {  # by type: name, flags
    2: ("CONNACK", 0, _connack),
    4: ("PUBACK", 0, _answer_to_publish(_PUBACK_CODES)),
    5: ("PUBREC", 0, _answer_to_publish(_PUBACK_CODES)),
    6: ("PUBREL", 2, _answer_to_publish(_PUBREL_CODES)),
    7: ("PUBCOMP", 0, _answer_to_publish(_PUBREL_CODES)),
    9: ("SUBACK", 0, _suback),
    11: ("UNSUBACK", 0, _unsuback),
    13: ("PINGRESP", 0, _pingresp),
    14: ("DISCONNECT", 0, _disconnect),
}
_OTHERS = {1: "CONNECT", 8: "SUBSCRIBE", 10: "UNSUBSCRIBE", 12: "PINGREQ", 15: "AUTH"}


def check_packet(command: int, packet: bytes, is_v5: bool) -> None:
    """Checks a packet: ``command`` is its first byte, ``packet`` what follows the remaining length.

    Raises PacketError, which names the kind of packet, if no broker may send it to this client.
    """
    kind = command >> 4
    if kind not in _CHECKS:
        name = _OTHERS.get(kind, f"packet of type {kind}")
        protocol_error(f"{name}: brokers do not send it to a client that has not asked for it")
    name, flags, check = _CHECKS[kind]
    try:
        if command & 0xF != flags:
            raise PacketError(f"its flags are {command & 0xF}, not {flags}")
        check(packet, is_v5)
    except PacketError as error:
        raise PacketError(f"{name}: {error}", error.reason) from None

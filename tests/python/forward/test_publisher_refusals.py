"""Tests of a publisher with a server that answers as brokers may, and Mosquitto does not."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, wait_until

import topicdb

QUICK: dict[str, Any] = {"retry_min": 0.001, "retry_max": 0.01}
CONNECT, PUBLISH = 1, 3
CONNACK, PUBACK = 0x20, 0x40
CONNECT_FLAGS_AT, CLEAN_START = 7, 0x02
QUOTA_EXCEEDED, UNSPECIFIED, NOT_AUTHORIZED = 0x97, 0x80, 0x87
MAXIMUM_QOS, RETAIN_AVAILABLE = 0x24, 0x25


class Server:
    """Speaks as much of MQTT 5 as a publisher hears, and answers each PUBLISH with QoS 1 as told.

    ``properties`` go into each CONNACK; ``answer`` gets a payload, and returns a reason code.
    """

    def __init__(self, answer: Callable[[bytes], int], properties: bytes = b"") -> None:
        self.payloads: list[bytes] = []  # in the order in which they came
        self._answer = answer
        self._properties = properties
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            # The publisher may cut the connection at any time, also within a packet.
            with (
                suppress(OSError, IndexError, struct.error),
                client,
                client.makefile("rwb") as stream,
            ):
                while (head := stream.read(1)) != b"":
                    self._packet(stream, head[0])

    def _packet(self, stream: Any, head: int) -> None:
        length, shift = 0, 0
        while True:
            byte = stream.read(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        body = stream.read(length)
        if head >> 4 == CONNECT:
            knows_session = 0 if body[CONNECT_FLAGS_AT] & CLEAN_START else 1
            packet = bytes([knows_session, 0, len(self._properties)]) + self._properties
            stream.write(bytes([CONNACK, len(packet)]) + packet)
        elif head >> 4 == PUBLISH:
            assert head & 0x06 == 2, "only QoS 1 is answered"
            (topic_bytes,) = struct.unpack_from("!H", body)
            packet_id = body[2 + topic_bytes : 4 + topic_bytes]
            payload = body[5 + topic_bytes :]  # it has no properties
            self.payloads.append(payload)
            stream.write(bytes([PUBACK, 4]) + packet_id + bytes([self._answer(payload), 0]))
        stream.flush()

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.mark.parametrize("reason", [QUOTA_EXCEEDED, UNSPECIFIED])
def test_what_may_pass_is_sent_again(tmp_path: Path, reason: int) -> None:
    refusals = 5

    def answer(payload: bytes) -> int:
        nonlocal refusals
        if payload == b"1" and refusals > 0:
            refusals -= 1
            return reason
        return 0

    with Server(answer) as server, topicdb.Publisher(tmp_path / "q", server.url, **QUICK) as one:
        one.publish_many([("t", str(number)) for number in range(5)])
        assert one.wait(PATIENCE_S)
        assert (one.stats().acknowledged, one.stats().refused) == (5, 0)
        assert one.stats().failures == 5
    assert server.payloads.count(b"1") == 6
    assert list(dict.fromkeys(server.payloads)) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_does_not_pass_is_put_aside_in_the_end(tmp_path: Path) -> None:
    def answer(payload: bytes) -> int:
        return QUOTA_EXCEEDED if payload in (b"1", b"3") else 0

    with (
        Server(answer) as server,
        topicdb.Publisher(tmp_path / "q", server.url, refuse_after=0.2, **QUICK) as publisher,
    ):
        publisher.publish_many([("t", str(number)) for number in range(100)])
        assert publisher.wait(PATIENCE_S)
        assert publisher.stats().acknowledged == 98
        letters = list(publisher.refused)
    assert sorted(letter.payload for letter in letters) == [b"1", b"3"]
    assert all("Quota exceeded" in letter.reason for letter in letters)
    assert server.payloads.count(b"1") > 1


@pytest.mark.parametrize(
    ("properties", "message", "reason"),
    [
        (bytes([MAXIMUM_QOS, 1]), {"qos": 2}, "takes messages with QoS 1 at most"),
        (bytes([RETAIN_AVAILABLE, 0]), {"retain": True}, "takes no retained messages"),
    ],
    ids=["QoS", "retain"],
)
def test_what_the_broker_has_ruled_out_is_not_sent(
    tmp_path: Path, properties: bytes, message: dict[str, Any], reason: str
) -> None:
    with (
        Server(lambda payload: 0, properties) as server,
        topicdb.Publisher(tmp_path / "q", server.url, **QUICK) as publisher,
    ):
        publisher.publish("t", "ruled out", **message)
        publisher.publish("t", "1")
        assert publisher.wait(PATIENCE_S)
        (letter,) = publisher.refused
        assert reason in letter.reason
    assert server.payloads == [b"1"]


def test_what_cannot_be_put_aside_stays(tmp_path: Path) -> None:
    """The queue of refused messages belongs to another process: nothing is lost meanwhile."""
    beside = tmp_path / "q.refused"
    with (
        Server(lambda payload: NOT_AUTHORIZED if payload == b"bad" else 0) as server,
        topicdb.Publisher(tmp_path / "q", server.url, **QUICK) as publisher,
    ):
        with topicdb.Queue.open(beside):
            publisher.publish("t", "bad")
            publisher.publish("t", "good")
            wait_until(lambda: isinstance(publisher.stats().error, topicdb.LockedError))
            assert publisher.pending.items == 2
        assert publisher.wait(PATIENCE_S)
        assert [letter.payload for letter in publisher.refused] == [b"bad"]
    assert server.payloads.count(b"bad") > 1
    assert b"good" in server.payloads

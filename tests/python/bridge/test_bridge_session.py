"""Tests of the bridge with a scripted broker, which gives answers that a real one seldom gives."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.replay import Envelope

CONNECT, PUBLISH, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE = 1, 3, 5, 6, 7, 8, 10
PUBACK, DISCONNECT = 4, 14
NOT_AUTHORIZED = 0x87


class Talk:
    """The broker's side of a connection of the bridge, with MQTT 5."""

    def __init__(self, sock: socket.socket) -> None:
        self._file = sock.makefile("rb")
        self._sock = sock

    def read(self) -> tuple[int, bytes]:
        """Reads a packet and returns its kind and content. Raises EOFError at the end."""
        head = self._file.read(1)
        if not head:
            raise EOFError
        size = shift = 0
        while True:
            byte = self._file.read(1)[0]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return head[0] >> 4, self._file.read(size)

    def expect(self, kind: int) -> bytes:
        """Returns the content of the next packet of that kind, and passes over others."""
        while True:
            found, content = self.read()
            if found == kind:
                return content

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def accept(self, session_present: bool = False, identifiers: bool = False) -> None:
        """Accepts the connection.

        ``identifiers`` says that the broker knows subscription identifiers. Then the bridge
        subscribes to each new filter twice.
        """
        self.expect(CONNECT)
        self.send(bytes([0x20, 5, session_present, 0, 2, 0x29, identifiers]))

    def answer(self, kind: int, *codes: int) -> bytes:
        """Waits for SUBSCRIBE or UNSUBSCRIBE, answers it, and returns its content."""
        content = self.expect(kind)
        packet = content[:2] + b"\0" + bytes(codes)
        self.send(bytes([(kind + 1) << 4, len(packet)]) + packet)
        return content

    def publish(self, payload: bytes, mid: int, qos: int, dup: bool = False) -> None:
        packet = b"\0\1a" + struct.pack("!H", mid) + b"\0" + payload
        self.send(bytes([0x30 | dup << 3 | qos << 1, len(packet)]) + packet)


class Script:
    """Plays one part per connection, one after the other; keeps an error of a part in ``error``."""

    def __init__(self, *parts: Callable[[Talk], None]) -> None:
        self.error: BaseException | None = None
        self.played = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._parts = parts
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for part in self._parts:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE_S)
            with sock:
                talk = Talk(sock)
                try:
                    part(talk)
                except BaseException as error:
                    self.error = error
                    return
                finally:
                    talk._file.close()
            self.played += 1

    def close(self) -> None:
        with suppress(OSError):  # wakes the thread that accepts connections
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def script(*parts: Callable[[Talk], None]) -> Iterator[Script]:
    one = Script(*parts)
    try:
        yield one
        wait_until(lambda: one.played == len(parts) or one.error is not None)
    finally:
        one.close()
    assert one.error is None, repr(one.error)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=2) as database:
        yield database


def until_it_leaves(talk: Talk) -> None:
    with suppress(EOFError, ConnectionError):
        while True:
            talk.read()


def payloads(db: topicdb.Database) -> list[bytes]:
    found = [Envelope.decode(message.value) for message in db.scan("#", order="time", raw=True)]
    return [one.payload for one in found if one is not None]


def test_filters_that_the_broker_refuses_are_told(db: topicdb.Database) -> None:
    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2, NOT_AUTHORIZED)
        until_it_leaves(talk)

    with script(part, part) as broker:
        bridge = Bridge(db, "127.0.0.1", broker.port, filters=["a", "secret/#"])
        with bridge:
            wait_until(lambda: broker.played == 2)
            error = bridge.status().last_error
            assert "'secret/#'" in error and "'a'" not in error
            assert bridge.status().connections == 0


def test_it_is_connected_when_its_filters_are_accepted(db: topicdb.Database) -> None:
    may_answer = threading.Event()

    def part(talk: Talk) -> None:
        talk.accept()
        content = talk.expect(SUBSCRIBE)
        talk.publish(b"early", 1, 1)
        talk.expect(PUBACK)
        assert may_answer.wait(PATIENCE_S)
        talk.send(b"\x90\4" + content[:2] + b"\0\2")
        until_it_leaves(talk)

    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: bridge.status().stored == 1)
        assert bridge.status().state == "connecting" and bridge.status().connections == 0
        may_answer.set()
        wait_until(lambda: bridge.status().state == "connected")
        assert bridge.status().connections == 1


def test_stale_filters_are_given_up_until_the_broker_has_heard_it(db: topicdb.Database) -> None:
    def first(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        until_it_leaves(talk)

    def dies(talk: Talk) -> None:
        talk.accept(session_present=True)
        assert b"\0\3old" in talk.expect(UNSUBSCRIBE)

    def hears(talk: Talk) -> None:
        talk.accept(session_present=True)
        assert b"\0\3old" in talk.answer(UNSUBSCRIBE, 0)
        talk.answer(SUBSCRIBE, 2)
        until_it_leaves(talk)

    def knows(talk: Talk) -> None:
        talk.accept(session_present=True)
        kind, _ = talk.read()
        assert kind == SUBSCRIBE

    with script(first, dies, hears, knows) as broker:
        with Bridge(db, "127.0.0.1", broker.port, filters="old") as bridge:
            wait_until(lambda: bridge.status().connections == 1)
        with Bridge(db, "127.0.0.1", broker.port, filters="new") as bridge:
            wait_until(lambda: bridge.status().connections == 1)
        with Bridge(db, "127.0.0.1", broker.port, filters="new"):
            wait_until(lambda: broker.played == 4)


def test_a_new_session_has_no_stale_filters(db: topicdb.Database) -> None:
    def part(talk: Talk) -> None:
        talk.accept()
        kind, content = talk.read()
        assert kind == SUBSCRIBE
        talk.send(b"\x90\4" + content[:2] + b"\0\2")
        until_it_leaves(talk)  # or the first bridge could come back and play the second part

    with script(part, part) as broker:
        for filters in ("old", "new"):
            with Bridge(db, "127.0.0.1", broker.port, filters=filters) as bridge:
                wait_until(lambda: bridge.status().connections == 1)


def test_qos_2_step_by_step(db: topicdb.Database) -> None:
    """PUBREC is lost and the message comes again; it is released twice; its id is used again."""

    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        talk.publish(b"1", 7, 2)
        assert talk.expect(PUBREC) == b"\0\7"
        assert payloads(db) == [b"1"]

    def again(talk: Talk) -> None:
        talk.accept(session_present=True)
        talk.answer(SUBSCRIBE, 2)
        talk.publish(b"1", 7, 2, dup=True)
        assert talk.expect(PUBREC) == b"\0\7"
        for _ in range(2):
            talk.send(b"\x62\2\0\7")
            assert talk.expect(PUBCOMP) == b"\0\7"
        talk.publish(b"1", 7, 2)
        talk.publish(b"2", 8, 2)
        talk.publish(b"3", 9, 1)
        got = sorted(talk.read() for _ in range(3))
        assert got == [(PUBACK, b"\0\x09"), (PUBREC, b"\0\7"), (PUBREC, b"\0\x08")]

    with script(part, again) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: broker.played == 2)
        assert bridge.status().duplicates == 1
    assert payloads(db) == [b"1", b"1", b"2", b"3"]


@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_no_publish_ends_the_connection(db: topicdb.Database, at_once: bool) -> None:
    good = b"\x32\7\0\1a\0\1\0x"

    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        if at_once:
            talk.send(good + b"\x36\7\0\1a\0\2\0x")
        else:
            talk.send(good)
            talk.expect(PUBACK)
            talk.send(b"\x36\7\0\1a\0\2\0x")
        until_it_leaves(talk)

    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: "QoS 3" in bridge.status().last_error)
        assert bridge.status().stored == 1


def test_shared_filters_are_asked_for_as_mqtt_wants_it(db: topicdb.Database) -> None:
    """The bridge asks for "no local", but not with shared filters, for which it is an error."""

    def part(talk: Talk) -> None:
        talk.accept()
        content = talk.answer(SUBSCRIBE, 2, 2)
        assert content.endswith(b"\0\1a\x16" + b"\0\x0a$share/g/b\x12")
        until_it_leaves(talk)

    filters = ["a", "$share/g/b"]
    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port, filters=filters) as bridge:
        wait_until(lambda: bridge.status().state == "connected")


def retained(payload: bytes, identifier: int) -> bytes:
    """Returns a retained PUBLISH to "a" with QoS 0 and the identifier of a subscription."""
    packet = b"\0\1a\2\x0b" + bytes([identifier]) + payload
    return bytes([0x31, len(packet)]) + packet


def test_identifiers_tell_copies_from_what_is_published_with_retain(db: topicdb.Database) -> None:
    """A new filter brings copies under an identifier of its own; a known filter brings none."""
    new_copies, new_live = b"\2\x0b\1\0\1a\x1e", b"\2\x0b\2\0\1a\x2e"

    def new(talk: Talk) -> None:
        talk.accept(identifiers=True)
        assert talk.answer(SUBSCRIBE, 2).endswith(new_copies)
        assert talk.answer(SUBSCRIBE, 2).endswith(new_live)
        talk.send(retained(b"x", 1) + retained(b"x", 2) + retained(b"x", 1))
        talk.publish(b"end", 1, 1)
        talk.expect(PUBACK)

    def resumed(talk: Talk) -> None:
        talk.accept(session_present=True, identifiers=True)
        kind, content = talk.read()
        assert kind == SUBSCRIBE and content.endswith(b"\2\x0b\2\0\1a\x1e")
        talk.send(b"\x90\4" + content[:2] + b"\0\2" + retained(b"x", 2))
        talk.publish(b"end", 1, 1)
        talk.expect(PUBACK)

    def lost(talk: Talk) -> None:
        talk.accept(identifiers=True)
        assert talk.answer(SUBSCRIBE, 2).endswith(new_copies)
        assert talk.answer(SUBSCRIBE, 2).endswith(new_live)
        until_it_leaves(talk)

    parts = new, resumed, lost
    with script(*parts) as broker, Bridge(db, "127.0.0.1", broker.port, filters="a") as bridge:
        wait_until(lambda: bridge.status().connections == 3)
        assert bridge.status().copies == 1
    assert payloads(db) == [b"x", b"x", b"end", b"x", b"end"]


def test_a_session_of_another_broker_is_not_trusted(db: topicdb.Database) -> None:
    def connects(talk: Talk) -> None:
        talk.accept(session_present=True, identifiers=True)
        talk.answer(SUBSCRIBE, 2)
        talk.answer(SUBSCRIBE, 2)
        until_it_leaves(talk)

    for _ in range(2):
        with script(connects) as broker, Bridge(db, "127.0.0.1", broker.port, filters="a") as one:
            wait_until(lambda: one.status().connections == 1)


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (b"\x62\1\0", "PUBREL"),
        (b"\x62\0", "PUBREL"),
        (b"\x62\2\0\0", "packet identifier 0"),
        (b"\x60\2\0\1", "PUBREL"),  # reserved flags
        (b"\x30\0", "PUBLISH"),
        (b"\x32\5\0\1a\0\0", "packet identifier 0"),
        (b"\x38\4\0\1a\0", "DUP"),
        (b"\x30\x0a\0\1a\4\1\0\1\1xy", "twice"),
        (b"\x30\6\0\1a\2\1\7", "payload format"),
        (b"\x40\1\0", "PUBACK"),
        (b"\x90\2\0\1", "SUBACK"),
        (b"\xb0\1\0", "UNSUBACK"),
        (b"\x20\1\0", "CONNACK"),
        (b"\xd0\1\0", "PINGRESP"),
        (b"\xe0\1\x05", "DISCONNECT"),
        (b"\xf0\0", "AUTH"),
        (b"\x10\0", "CONNECT"),
        (b"\0\0", "type 0"),
        (b"\x62\xff\xff\xff\xff\1", "length"),
    ],
)
def test_what_is_malformed_ends_the_connection_and_not_the_bridge(
    db: topicdb.Database, caplog: pytest.LogCaptureFixture, packet: bytes, why: str
) -> None:
    """The bridge tells the broker and the log what is wrong, and connects again."""
    goodbyes: list[bytes] = []

    def malformed(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        talk.publish(b"before", 1, 1)
        talk.expect(PUBACK)
        talk.send(packet)
        with suppress(EOFError, ConnectionError):
            while True:
                kind, content = talk.read()
                if kind == DISCONNECT:
                    goodbyes.append(content)

    def well(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        talk.publish(b"after", 1, 1)
        talk.expect(PUBACK)
        until_it_leaves(talk)

    with script(malformed, well) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: bridge.status().stored == 2)
    (warning,) = (one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert why in warning and f"127.0.0.1:{broker.port}: " in warning
    assert payloads(db) == [b"before", b"after"]
    if why != "length":
        assert [content[:1] for content in goodbyes] in ([b"\x81"], [b"\x82"])


def test_topics_that_are_no_utf_8_are_refused(db: topicdb.Database) -> None:
    """No such message is stored under another topic; other messages are stored."""

    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        for mid, topic in enumerate((b"a\xff", b"a\xfe", b"\xed\xa0\x80", b"a+", b"a\0"), 1):
            packet = len(topic).to_bytes(2, "big") + topic + struct.pack("!H", mid) + b"\0x"
            talk.send(bytes([0x34, len(packet)]) + packet)
            assert talk.expect(PUBREC) == struct.pack("!H", mid)
        talk.publish(b"good", 9, 1)
        talk.expect(PUBACK)
        until_it_leaves(talk)

    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: bridge.status().stored == 1)
        assert bridge.status().refused == 5
    assert [message.topic for message in db.scan("#")] == ["a"]


def test_one_that_is_no_utf_8_is_named(db: topicdb.Database) -> None:
    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, 2)
        talk.send(b"\x30\6\0\2a\xff\0x")
        until_it_leaves(talk)

    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: bridge.status().refused == 1)
        assert r"b'a\xff' is no UTF-8" in bridge.status().last_error


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_for_other_filters_is_told(db: topicdb.Database, count: int) -> None:
    def part(talk: Talk) -> None:
        talk.accept()
        talk.answer(SUBSCRIBE, *[2] * count)
        until_it_leaves(talk)

    filters = ["a", "b"]
    with script(part) as broker, Bridge(db, "127.0.0.1", broker.port, filters=filters) as bridge:
        wait_until(lambda: f"{count} reason codes" in bridge.status().last_error)
        assert bridge.status().connections == 0

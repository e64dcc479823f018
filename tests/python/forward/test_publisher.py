"""Tests of what a publisher takes and refuses; the broker that they name is not there."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import free_port
from support import Child, fork_and_run, run_child, wait_until

import topicdb
from topicdb.publisher.messages import Outgoing

AWAY = "mqtt://127.0.0.1:1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.q"


@pytest.fixture
def publisher(path: Path) -> Iterator[topicdb.Publisher]:
    with topicdb.Publisher(path, AWAY, close_timeout=0) as opened:
        yield opened


def publisher_of(path: Path | None, **options: Any) -> topicdb.Publisher:
    return topicdb.Publisher(path, AWAY, **{"close_timeout": 0, **options})


def pending(path: Path) -> list[tuple[str, bytes]]:
    """Returns topics and payloads of the messages that a closed publisher has left."""
    with topicdb.Queue.open(path) as queue:
        found = [Outgoing.decode(item) for item in queue.pop(1_000_000).items]
    return [(one.topic, one.envelope.payload) for one in found]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"url": "http://broker"}, ValueError, "url: expected mqtt://"),
        ({"url": "mqtt://broker/topic"}, ValueError, "url: the URL of a broker ends"),
        ({"url": "broker:0"}, ValueError, "url: expected HOST"),
        ({"url": "mqtt://u:p@"}, ValueError, "url: expected mqtt"),
        ({"url": 1883}, TypeError, "url: expected str"),
        ({"durability": "none"}, ValueError, "durability: expected one of"),
        ({"path": None}, ValueError, "path: None keeps messages in memory only"),
        ({"overflow": "reject"}, ValueError, "overflow: expected one of"),
        ({"max_bytes": 0}, ValueError, "max_bytes: expected at least 1"),
        ({"max_bytes": "1GB"}, TypeError, "max_bytes: expected int"),
        ({"in_flight_max": 0}, ValueError, "in_flight_max: expected 1 to 10000"),
        ({"codec": "pickle"}, ValueError, "codec: 'pickle'"),
        ({"codec": 5}, TypeError, "codec: expected"),
        ({"expiry": "soon"}, ValueError, "expiry: 'soon' is not a duration"),
        ({"protocol": "3"}, ValueError, "protocol: expected '5' or '3.1.1'"),
        ({"keepalive": -1}, ValueError, "keepalive: expected 0"),
        ({"password": "p"}, ValueError, "password: it goes with username"),
        ({"ca": "ca.pem"}, ValueError, "ca: only a URL that begins with mqtts://"),
        ({"url": "mqtts://b", "ca": "none.pem"}, FileNotFoundError, "ca: there is no file"),
        ({"url": "mqtts://b", "key": __file__}, ValueError, "key: it goes with cert"),
        ({"url": "mqtts://b", "cert": __file__}, OSError, "no certificate or key"),
        ({"will": "gone"}, TypeError, "will: expected a tuple"),
        ({"will": ("a/#", "gone")}, topicdb.TopicError, "contains a wildcard"),
        ({"will": ("a", "gone", 3)}, ValueError, "qos: expected 0, 1 or 2"),
        ({"on_error": 1}, TypeError, "on_error: expected a function"),
        ({"on_drop": 1}, TypeError, "on_drop: expected a function"),
        ({"retry_min": 0}, ValueError, "retry_min"),
        ({"refuse_after": None}, ValueError, "refuse_after"),
    ],
    ids=str,
)
def test_a_bad_option_is_named_and_nothing_is_made(
    path: Path, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    before = threading.active_count()
    with pytest.raises(kind) as raised:
        topicdb.Publisher(**{"path": path, "url": AWAY, **options})
    assert text in str(raised.value)
    assert "u:p@" not in str(raised.value)
    assert not path.exists()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"topic": "a/#"}, topicdb.TopicError, "contains a wildcard"),
        ({"topic": ""}, topicdb.TopicError, "at least one character"),
        ({"topic": "a" * 65_536}, topicdb.TopicError, "at most 65535"),
        ({"topic": "a\0"}, topicdb.TopicError, "NUL"),
        ({"topic": "a\nb"}, topicdb.TopicError, r"character '\n', which brokers may refuse"),
        ({"topic": b"a"}, TypeError, "topic: expected str, got bytes"),
        ({"payload": {"a": 1}}, TypeError, "codec='json'"),
        ({"payload": 21.5}, TypeError, "payload: expected bytes, str or None, got float"),
        ({"payload": "\ud800"}, ValueError, "payload: has lone surrogates"),
        ({"payload": b"x" * 268_435_456}, ValueError, "MQTT allows at most 268435455"),
        ({"qos": 3}, ValueError, "qos: expected 0, 1 or 2, got 3"),
        ({"qos": "1"}, ValueError, "qos: expected 0, 1 or 2, got '1'"),
        ({"qos": True}, ValueError, "qos: expected 0, 1 or 2, got True"),
        ({"retain": 1}, TypeError, "retain: expected bool"),
        ({"expiry": 0}, ValueError, "expiry: expected more than 0"),
        ({"expiry": 1 << 32}, ValueError, "less than 2**32"),
        ({"properties": [("a", "b")]}, TypeError, "properties: expected topicdb.Properties"),
        ({"properties": {"a": 1}}, TypeError, "user property 'a': expected str, got int"),
        ({"properties": {"a": "\0"}}, ValueError, "user property 'a': contains"),
        ({"properties": {"a": "x" * 65_536}}, ValueError, "at most 65535"),
        (
            {"properties": topicdb.Properties(response_topic="a/+")},
            topicdb.TopicError,
            "contains a wildcard",
        ),
        (
            {"payload": b"\xff", "properties": topicdb.Properties(payload_format=1)},
            ValueError,
            "payload_format: 1 stands for UTF-8",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_message_is_named_and_not_taken(
    publisher: topicdb.Publisher, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as raised:
        publisher.publish(**{"topic": "t", "payload": b"", **arguments})
    assert text in str(raised.value)
    topic, payload = arguments.pop("topic", "t"), arguments.pop("payload", b"")
    with pytest.raises(kind) as raised:
        publisher.publish_many([("good", b"1"), (topic, payload)], **arguments)
    assert text in str(raised.value)
    assert str(raised.value).startswith(("message 0", "message 1"))
    assert publisher.pending == (0, 0)
    assert publisher.publish("t", b"1").sequences == range(1, 2)


def test_properties_need_mqtt_5(path: Path) -> None:
    with publisher_of(path, protocol="3.1.1") as publisher:
        with pytest.raises(ValueError, match=r"MQTT 3\.1\.1 has none"):
            publisher.publish("t", b"1", properties={"a": "b"})
        publisher.publish("t", b"1", expiry=60)
        assert publisher.pending.items == 1


def test_publish_many_takes_pairs(publisher: topicdb.Publisher, path: Path) -> None:
    for bad in ("ab", {"a": 1}, b"ab"):
        with pytest.raises(TypeError, match=r"messages: expected pairs"):
            publisher.publish_many(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"message 1: expected a pair"):
        publisher.publish_many([("a", b"1"), ("b",)])  # type: ignore[list-item]
    assert publisher.publish_many([]).count == 0
    receipt = publisher.publish_many((f"t/{n}", str(n)) for n in range(3))
    assert receipt.sequences == range(1, 4)
    assert receipt.durability == "os"
    assert publisher.pending.items == 3
    publisher.close()
    assert pending(path) == [(f"t/{n}", b"%d" % n) for n in range(3)]


def test_payloads_are_bytes_or_text_or_what_a_codec_takes(path: Path) -> None:
    with publisher_of(path) as publisher:
        for payload in (b"1", "é", bytearray(b"2"), memoryview(b"3"), None):
            publisher.publish("t", payload)
    with publisher_of(path, codec="json") as publisher:
        publisher.publish("t", {"a": [1, None]})
        publisher.publish("t", "é")
        with pytest.raises(topicdb.CodecError, match=r"payload: the codec cannot encode it"):
            publisher.publish("t", {1, 2})
    with publisher_of(path, codec=lambda payload: f"{payload:.2f}") as publisher:
        publisher.publish("t", 21.5)
    with (
        publisher_of(path, codec=len) as publisher,
        pytest.raises(topicdb.CodecError, match=r"the codec made int of it"),
    ):
        publisher.publish("t", "12")
    payloads = [payload for _, payload in pending(path)]
    assert payloads[:5] == [b"1", "é".encode(), b"2", b"3", b""]
    assert payloads[5:] == [b'{"a":[1,null]}', '"é"'.encode(), b"21.50"]


def test_a_closed_publisher_takes_nothing(path: Path) -> None:
    publisher = publisher_of(path)
    publisher.publish("t", b"1")
    assert not publisher.closed
    assert not publisher.close()
    assert not publisher.close()
    assert publisher.closed
    calls: list[Callable[[], object]] = [
        lambda: publisher.publish("t", b"2"),
        lambda: publisher.publish_many([("t", b"2")]),
        lambda: asyncio.run(publisher.publish_await("t", b"2")),
        lambda: publisher.pending,
        lambda: publisher.refused,
        publisher.publish_refused,
        publisher.wait,
    ]
    for call in calls:
        with pytest.raises(topicdb.ClosedError):
            call()
    assert publisher.stats().state == "stopped"
    assert "closed" in repr(publisher)
    assert pending(path) == [("t", b"1")]


@pytest.mark.parametrize("durability", ["disk", "os", "memory"])
def test_what_is_pending_survives_close(path: Path, durability: Any) -> None:
    with publisher_of(path, durability=durability) as publisher:
        reached = publisher.publish("t", b"1").durability
        assert reached == {"memory": "none"}.get(durability, durability)
    with publisher_of(path, durability=durability) as publisher:
        assert publisher.pending.items == 1
        asyncio.run(publisher.publish_await("t", b"2"))
        assert not publisher.wait(timeout=0)
    assert pending(path) == [("t", b"1"), ("t", b"2")]


def test_in_memory_close_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    with publisher_of(None, durability="memory") as publisher:
        publisher.publish("t", b"1")
        assert publisher.pending.items == 1
    assert "1 messages in memory are lost" in caplog.text


KILLED = """
    import os, signal, sys, topicdb
    publisher = topicdb.Publisher(sys.argv[1], "mqtt://127.0.0.1:1", durability=sys.argv[2])
    for number in range(100):
        publisher.publish("t", str(number))
    publisher.publish_many(("u", str(number)) for number in range(100))
    print("published", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_what_is_pending_survives_sigkill(path: Path, durability: str) -> None:
    with Child(KILLED, path, durability) as child:
        child.expect("published")
        child.kill()
    expected = [(topic, b"%d" % number) for topic in ("t", "u") for number in range(100)]
    assert pending(path) == expected


def test_a_full_queue_raises(path: Path) -> None:
    with publisher_of(path, max_bytes=1000) as publisher:
        with pytest.raises(topicdb.QuotaError) as raised:
            for _ in range(100):
                publisher.publish("t", b"x" * 100)
        assert "1000 bytes (max_bytes)" in str(raised.value)
        before = publisher.pending
        assert 0 < before.items < 10
        with pytest.raises(topicdb.QuotaError):
            publisher.publish_many([("t", b"x" * 100)] * 20)
        with pytest.raises(topicdb.QuotaError, match=r"max_bytes"):
            asyncio.run(publisher.publish_await("t", b"x" * 1000))
        assert publisher.pending == before
        assert publisher.stats().dropped_items == 0


def test_a_full_queue_drops_the_oldest(path: Path) -> None:
    drops: list[topicdb.Drop] = []
    with publisher_of(
        path, max_bytes=1000, overflow="drop_oldest", on_drop=drops.append
    ) as publisher:
        for number in range(20):
            publisher.publish("t", b"%03d" % number * 30)
        stats = publisher.stats()
        assert stats.dropped_items == sum(len(drop.sequences) for drop in drops) > 0
        assert stats.dropped_bytes == sum(drop.bytes for drop in drops)
        assert stats.pending_items == 20 - stats.dropped_items
        assert stats.pending_bytes <= 1000
    kept = [payload[:3] for _, payload in pending(path)]
    assert kept[-1] == b"019"
    dropped = {number - 1 for drop in drops for number in drop.sequences}
    assert kept == [b"%03d" % number for number in range(20) if number not in dropped]


def test_a_full_queue_blocks_up_to_a_timeout(path: Path) -> None:
    with publisher_of(path, max_bytes=500, overflow="block", block_timeout=0.01) as publisher:
        publisher.publish("t", b"x" * 300)
        with pytest.raises(topicdb.QuotaError, match=r"nobody made room in time"):
            publisher.publish("t", b"x" * 300)
        assert publisher.pending.items == 1


def test_close_ends_calls_that_wait_for_room_and_waits_for_others(path: Path) -> None:
    publisher = publisher_of(path, max_bytes=20_000, overflow="block")
    taken: list[tuple[int, bytes]] = []
    errors: list[Exception] = []

    def run(thread: int) -> None:
        number = 0
        while True:
            payload = b"%d-%d" % (thread, number)
            try:
                receipt = publisher.publish("t", payload + b"x" * 100)
            except Exception as error:
                errors.append(error)
                return
            taken.append((receipt.sequences[0], payload))
            number += 1

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: publisher.pending.bytes > 19_000)
    assert not publisher.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [topicdb.ClosedError] * 4
    found = [payload.rstrip(b"x") for _, payload in pending(path)]
    assert found == [payload for _, payload in sorted(taken)]


def test_one_process_has_the_queue(publisher: topicdb.Publisher, path: Path) -> None:
    with pytest.raises(topicdb.LockedError):
        publisher_of(path)
    code = """
        import sys, topicdb
        try:
            topicdb.Publisher(sys.argv[1], "mqtt://127.0.0.1:1")
        except topicdb.LockedError as error:
            print(error)
    """
    assert f"pid {os.getpid()}" in run_child(code, path)
    publisher.publish("t", b"1")


def test_a_forked_child_is_told(publisher: topicdb.Publisher) -> None:
    def check() -> str:
        for call in (lambda: publisher.publish("t", b"1"), lambda: publisher.wait(1)):
            with pytest.raises(topicdb.ForkedError):
                call()
        with pytest.raises(topicdb.ForkedError):
            publisher.close()
        return "told"

    publisher.publish("t", b"0")
    assert fork_and_run(check) == "told"
    assert publisher.publish("t", b"1").count == 1
    assert publisher.pending.items == 2


def test_a_queue_of_something_else_is_left_alone(path: Path) -> None:
    with topicdb.Queue.open(path) as queue:
        queue.append([b"one"])
    with pytest.raises(topicdb.SchemaError, match=r"no messages of a publisher"):
        publisher_of(path)
    with topicdb.Queue.open(path) as queue:
        assert queue.peek() == b"one"


def test_a_broker_that_is_away_is_told(path: Path) -> None:
    errors: list[Exception] = []
    port = free_port()
    url = f"mqtt://me:secret@127.0.0.1:{port}"
    with topicdb.Publisher(
        path, url, on_error=errors.append, retry_min=0.01, close_timeout=0
    ) as publisher:
        publisher.publish("t", b"1")
        wait_until(lambda: len(errors) >= 2)
        stats = publisher.stats()
        assert stats.state == "retrying"
        assert not stats.connected
        assert stats.failures >= 2
        assert stats.pending_items == 1
        assert isinstance(stats.error, ConnectionRefusedError)
        assert f"127.0.0.1:{port}" in str(stats.error)
        assert f"127.0.0.1:{port}: retrying" in repr(publisher)
        assert "secret" not in repr(publisher) + str(errors)


def test_without_paho_it_says_what_to_install(path: Path) -> None:
    code = """
        import sys
        sys.modules["paho"] = None
        import topicdb
        try:
            topicdb.Publisher(sys.argv[1], "mqtt://127.0.0.1:1")
        except ImportError as error:
            print(error)
    """
    assert "pip install topicdb[mqtt]" in run_child(code, path)
    assert not path.exists()


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with topicdb.Publisher("out.q", AWAY, close_timeout=0) as publisher:
        monkeypatch.chdir(tmp_path / "other")
        assert len(publisher.refused) == 0
        assert publisher.path == tmp_path / "out.q"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out.q", "out.q.refused"]
    assert not list((tmp_path / "other").iterdir())

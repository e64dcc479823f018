"""Tests of delivery to a real Mosquitto; it and the forwarder are killed and started again."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from forwarding import first_arrivals, numbered, waiting
from mqtt_clients import LastingSubscriber
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode
from support import Child, wait_until

import topicdb
from topicdb.forward import Forwarder, MqttSink, PermanentError
from topicdb.forward.mqtt import _error_of

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")

QUICK: dict[str, Any] = {"retry_min": 0.01, "retry_max": 0.1}


class Subscriber(LastingSubscriber):
    """A subscriber with MQTT 3.1.1 that keeps topics and payloads of the messages that arrive."""

    def __init__(self, port: int, topic: str = "#", qos: int = 1) -> None:
        super().__init__(port, clean_session=False)
        self.messages: list[tuple[str, bytes]] = []
        self._topic, self._qos = topic, qos

    @property
    def items(self) -> list[bytes]:
        return [payload for _, payload in self.messages]

    def _on_connect(self, *_: object) -> None:
        self._client.subscribe(self._topic, self._qos)

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        self.messages.append((message.topic, bytes(message.payload)))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "mosquitto") as started:
        yield started


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(tmp_path / "queue") as opened:
        yield opened


def sink_to(broker: Broker, **options: Any) -> MqttSink:
    return MqttSink("127.0.0.1", broker.port, **{"topic": "t", **options})


def save_sessions(broker: Broker, directory: Path) -> None:
    """Has Mosquitto write its sessions to disk, which it does on SIGUSR1."""
    broker.process.send_signal(signal.SIGUSR1)
    wait_until((directory / "mosquitto.db").exists)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_message_arrives_in_order(
    broker: Broker, queue: topicdb.Queue, qos: int, protocol: str
) -> None:
    items = numbered(500)
    queue.append(items)
    with Subscriber(broker.port, qos=qos and 1) as subscriber:
        sink = sink_to(broker, qos=qos, protocol=protocol)
        Forwarder(queue, sink, batch_count=50).run(until_empty=True)
        wait_until(lambda: len(subscriber.items) >= len(items))
        assert subscriber.items == items
    assert queue.stats().bytes == 0


def test_topic_and_payload_may_come_from_the_item(broker: Broker, queue: topicdb.Queue) -> None:
    def split(item: bytes) -> tuple[str, bytes]:
        topic, payload = item.split(b" ")
        return topic.decode(), payload

    queue.append([b"a/b 1", b"none", b"a/# 2", b"a/\0 3", b"c 4"])
    refused: list[tuple[list[bytes], PermanentError]] = []
    with Subscriber(broker.port) as subscriber:
        forwarder = Forwarder(
            queue, sink_to(broker, topic=split), poison=lambda *of: refused.append(of)
        )
        forwarder.run(until_empty=True)
        Forwarder(queue, sink_to(broker, topic=lambda item: "x")).run(until_empty=True)
        wait_until(lambda: ("c", b"4") in subscriber.messages)
        assert list(dict.fromkeys(subscriber.messages)) == [("a/b", b"1"), ("c", b"4")]
    assert [items for items, _ in refused] == [[b"none"], [b"a/# 2"], [b"a/\0 3"]]


def test_a_broker_killed_and_started_again_during_traffic_loses_nothing(
    broker: Broker, queue: topicdb.Queue, tmp_path: Path
) -> None:
    items = numbered(3300)
    with Subscriber(broker.port) as subscriber:
        save_sessions(broker, tmp_path / "mosquitto")
        forwarder = Forwarder(queue, sink_to(broker), batch_count=20, **QUICK)
        with forwarder:
            for kills in range(3):
                first = 1100 * kills
                queue.append(items[first : first + 1000])
                # The kill comes only while the subscriber is connected; LastingSubscriber says why.
                wait_until(partial(subscriber.has, items[first + 200]))
                broker.kill_when_sent()
                queue.append(items[first + 1000 : first + 1100])
                wait_until(lambda: forwarder.health.state == "retrying")
                broker.start()
                wait_until(partial(subscriber.was_connected, kills + 2))
            wait_until(lambda: queue.stats().bytes == 0)
            wait_until(partial(subscriber.has, items[-1]))
            assert forwarder.metrics().failures >= 3
    assert first_arrivals(subscriber.items) == items


FORWARD = """
    import sys, time, topicdb
    from topicdb.forward import MqttSink

    def topic(item):
        time.sleep(0.0005)  # so that the kill comes while it forwards
        if int(item) == int(sys.argv[3]):
            sys.stdin.read()  # it does not come to its end before the kill
        return "t"

    with topicdb.Queue.open(sys.argv[1]) as queue:
        sink = MqttSink("127.0.0.1", int(sys.argv[2]), topic=topic)
        topicdb.Forwarder(queue, sink, batch_count=20).run(until_empty=True)
    print("done")
"""


def test_a_forwarder_that_is_killed_loses_nothing(broker: Broker, tmp_path: Path) -> None:
    items = numbered(3000)
    path = tmp_path / "queue"
    with topicdb.Queue.open(path) as queue:
        queue.append(items)
    with Subscriber(broker.port) as subscriber:
        for seen in (500, 1500):
            with Child(FORWARD, path, broker.port, seen + 1000) as child:
                wait_until(partial(subscriber.has, items[seen]))
                child.kill()
            with topicdb.Queue.open(path) as queue:
                assert 0 < len(queue) < len(items)
        with Child(FORWARD, path, broker.port, -1) as child:
            child.expect("done")
            assert child.finish() == (0, "", "")
        wait_until(partial(subscriber.has, items[-1]))
        assert first_arrivals(subscriber.items) == items


def test_there_is_no_broker_yet(queue: topicdb.Queue, tmp_path: Path) -> None:
    broker = mosquitto(tmp_path / "mosquitto")
    queue.append(numbered(10))
    with Forwarder(queue, sink_to(broker), **QUICK) as forwarder:
        wait_until(lambda: forwarder.metrics().failures > 2)
        assert isinstance(forwarder.health.error, ConnectionRefusedError)
        with broker:
            wait_until(lambda: forwarder.health.state == "idle")
    assert queue.stats().bytes == 0


def test_a_broker_that_hangs_does_not_hold_up_stop(broker: Broker, queue: topicdb.Queue) -> None:
    with Subscriber(broker.port) as subscriber:
        forwarder = Forwarder(queue, sink_to(broker), batch_count=10)
        forwarder.start()
        queue.append(numbered(10))
        wait_until(lambda: forwarder.metrics().items == 10)
        broker.process.send_signal(signal.SIGSTOP)
        queue.append(numbered(100, 10))
        wait_until(lambda: forwarder.metrics().in_flight == 40)
        assert not forwarder.stop(timeout=0.1)
        assert waiting(queue) == numbered(100, 10)
        broker.process.send_signal(signal.SIGCONT)
        Forwarder(queue, sink_to(broker)).run(until_empty=True)
        wait_until(partial(subscriber.has, b"109"))
        assert first_arrivals(subscriber.items) == numbered(110)


def test_it_keeps_to_what_the_broker_can_take(queue: topicdb.Queue, tmp_path: Path) -> None:
    """Mosquitto ends a connection that sends more messages at once, or a larger one."""
    directory = tmp_path / "mosquitto"
    refused: list[bytes] = []
    with mosquitto(directory, "max_inflight_messages 7", "max_packet_size 1000") as broker:
        queue.append([*numbered(300), b"x" * 1000, b"last"])
        sink = sink_to(broker, unconfirmed_max=200)
        forwarder = Forwarder(queue, sink, poison=lambda items, _: refused.extend(items))
        forwarder.run(until_empty=True)
        assert isinstance(forwarder.health.error, PermanentError)
        assert forwarder.metrics().items == 301
        assert sink._unconfirmed_max == 7
    assert refused == [b"x" * 1000]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_not_authorized_is_retried(queue: topicdb.Queue, tmp_path: Path, qos: int) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    rules = directory / "acl"
    rules.write_text("topic read #\n")
    # Without a limit of queued messages, Mosquitto 2.0.11 disconnects unauthorized clients.
    with mosquitto(directory, f"acl_file {rules}", "max_queued_messages 1000") as broker:
        queue.append(numbered(5))
        with Forwarder(queue, sink_to(broker, qos=qos), poison="drop", **QUICK) as forwarder:
            wait_until(lambda: forwarder.metrics().failures > 2)
            assert "Not authorized" in str(forwarder.health.error)
            assert forwarder.health.state == "retrying"
            rules.write_text("topic readwrite #\n")
            broker.process.send_signal(signal.SIGHUP)
            wait_until(lambda: forwarder.health.state == "idle")
        assert forwarder.metrics().items == 5


@pytest.mark.parametrize(
    ("reason", "kind"),
    [(0x90, PermanentError), (0x95, PermanentError), (0x97, ConnectionError)],
    ids=["topic name invalid", "packet too large", "quota exceeded"],
)
def test_what_lies_in_a_message_is_permanent(reason: int, kind: type[Exception]) -> None:
    assert type(_error_of(ReasonCode(PacketTypes.DISCONNECT, identifier=reason), "")) is kind


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("mosquitto_passwd")),
    reason="needs openssl and mosquitto_passwd",
)
# paho-mqtt does not close its socket if the handshake fails.
@pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_over_tls_with_a_password(queue: topicdb.Queue, tmp_path: Path) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    key, certificate, users = (directory / name for name in ("key.pem", "cert.pem", "users"))
    for command in [
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}",
        f"mosquitto_passwd -b -c {users} me right",
    ]:
        subprocess.run(command.split(), check=True, capture_output=True)
    lines = [f"certfile {certificate}", f"keyfile {key}", f"password_file {users}"]
    queue.append(numbered(300))
    with mosquitto(directory, "allow_anonymous false", *lines) as broker:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with Forwarder(queue, sink_to(broker, tls=True), **QUICK) as forwarder:
            wait_until(lambda: isinstance(forwarder.health.error, ssl.SSLCertVerificationError))
        login = {"tls": trusting, "username": "me"}
        with Forwarder(queue, sink_to(broker, password="wrong", **login), **QUICK) as forwarder:
            wait_until(lambda: isinstance(forwarder.health.error, ConnectionRefusedError))
        sink = sink_to(broker, password="right", client_id="me", clean_start=False, **login)
        Forwarder(queue, sink).run(until_empty=True)
    assert queue.stats().bytes == 0

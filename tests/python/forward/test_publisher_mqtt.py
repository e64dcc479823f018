"""Tests of a publisher with a real Mosquitto; brokers, connections and publishers are killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from mqtt_clients import Received, Subscriber
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb.arguments.times import now_us
from topicdb.publisher import RefusedMessage, Will

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")

QUICK: dict[str, Any] = {"retry_min": 0.01, "retry_max": 0.1}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "mosquitto") as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.q"


def publisher_to(port: int, path: Path | None, **options: Any) -> topicdb.Publisher:
    return topicdb.Publisher(path, f"mqtt://127.0.0.1:{port}", **{**QUICK, **options})


def by_topic(messages: list[Received]) -> dict[str, list[bytes]]:
    """Returns the payloads of each topic in their order, each where it came first."""
    found: dict[str, dict[bytes, None]] = defaultdict(dict)
    for message in messages:
        found[message.topic][message.payload] = None
    return {topic: list(payloads) for topic, payloads in found.items()}


class Wire:
    """Carries connections to a broker, and cuts them all at once when a test asks for it.

    It ends the next ``refusals`` connections at once. If ``lets_through`` is a number, that many
    more packets of the client pass, and the others count as ``held``.
    """

    def __init__(self, port: int) -> None:
        self._broker_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.refusals = 0
        self.lets_through: int | None = None
        self.held = 0
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        """Ends the connections that there are."""
        for end in list(self._ends):
            with suppress(OSError):  # it has ended before
                end.shutdown(socket.SHUT_RDWR)

    def _start(self, run: Any) -> None:
        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusals > 0:
                self.refusals -= 1
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._broker_port))
            except OSError:
                client.close()  # the broker is away
                continue
            self._ends += [client, server]
            self._start(partial(self._carry, client, server, is_up=True))
            self._start(partial(self._carry, server, client, is_up=False))

    def _carry(self, source: socket.socket, target: socket.socket, *, is_up: bool) -> None:
        try:
            while data := source.recv(65_536):
                if is_up and self.lets_through is not None:
                    if self.lets_through == 0:
                        self.held += 1
                        continue
                    self.lets_through -= 1
                target.sendall(data)
        except OSError:
            pass  # it was cut
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_messages_arrive_as_they_were_published(broker: Broker, path: Path, protocol: Any) -> None:
    with (
        Subscriber(broker.port) as subscriber,
        publisher_to(broker.port, path, protocol=protocol) as publisher,
    ):
        publisher.publish("q/0", "zero", qos=0)
        publisher.publish("q/1", b"one")
        publisher.publish("q/2", "two", qos=2, retain=True)
        asyncio.run(publisher.publish_await("q/none"))
        publisher.publish_many([("m/1", "a"), ("m/2", "b")], qos=2, retain=True)
        assert publisher.wait(PATIENCE_S)
        assert publisher.pending == (0, 0)
        wait_until(lambda: len(subscriber.messages) == 6)
        found = {m.topic: (m.payload, m.qos, m.retain) for m in subscriber.messages}
        stats = publisher.stats()
    assert found == {
        "q/0": (b"zero", 0, False),
        "q/1": (b"one", 1, False),
        "q/2": (b"two", 2, True),
        "q/none": (b"", 1, False),
        "m/1": (b"a", 2, True),
        "m/2": (b"b", 2, True),
    }
    assert (stats.acknowledged, stats.connections, stats.failures) == (6, 1, 0)
    assert stats.connected
    assert stats.error is None


def test_properties_arrive(broker: Broker, path: Path) -> None:
    properties = topicdb.Properties(
        qos=0,  # that of the call counts
        payload_format=1,
        content_type="text/plain",
        response_topic="answers/1",
        correlation_data=b"\x07",
        user_properties=(("unit", "K"), ("unit", "C")),
    )
    with (
        Subscriber(broker.port) as subscriber,
        publisher_to(broker.port, path, expiry="1h") as publisher,
    ):
        publisher.publish("a", "21.5", properties=properties)
        publisher.publish("b", "21.5", properties={"unit": "K"}, expiry=7)
        wait_until(lambda: len(subscriber.messages) == 2)
    first, second = subscriber.messages
    assert first.properties["MessageExpiryInterval"] in (3599, 3600)
    assert first.properties["PayloadFormatIndicator"] == 1
    assert first.properties["ContentType"] == "text/plain"
    assert first.properties["ResponseTopic"] == "answers/1"
    assert first.properties["CorrelationData"] == "07"
    assert first.properties["UserProperty"] == [("unit", "K"), ("unit", "C")]
    assert first.qos == 1
    assert second.properties["UserProperty"] == [("unit", "K")]
    assert second.properties["MessageExpiryInterval"] in (6, 7)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_broker_that_is_killed_while_it_publishes_costs_nothing(
    broker: Broker, path: Path, protocol: Any
) -> None:
    expected: dict[str, list[bytes]] = defaultdict(list)
    with (
        Subscriber(broker.port, qos=1) as subscriber,
        publisher_to(broker.port, path, protocol=protocol) as publisher,
    ):
        number = 0
        broker.process.send_signal(signal.SIGUSR1)  # it writes the subscriber's session to disk
        wait_until((path.parent / "mosquitto" / "mosquitto.db").exists)
        for kills in range(3):
            for _ in range(600):
                topic = f"t/{number % 7}"
                publisher.publish(topic, str(number))
                expected[topic].append(b"%d" % number)
                number += 1
            wait_until(partial(subscriber.has, b"%d" % (number - 500)))
            broker.kill_when_sent()
            publisher.publish("t/0", f"while it was away {kills}")
            expected["t/0"].append(b"while it was away %d" % kills)
            wait_until(lambda: publisher.stats().state == "retrying")
            assert not publisher.wait(timeout=0)
            broker.start()
            wait_until(partial(subscriber.was_connected, kills + 2))
        assert publisher.wait(PATIENCE_S)
        wait_until(partial(subscriber.has, b"%d" % (number - 1)))
        wait_until(partial(subscriber.has, b"while it was away 2"))
        assert publisher.stats().failures >= 3
        assert by_topic(subscriber.messages) == expected


@pytest.mark.parametrize("qos", [1, 2])
def test_connections_that_are_cut_lose_nothing(broker: Broker, path: Path, qos: Any) -> None:
    """With QoS 2 nothing comes twice, either: the session at the broker is taken up."""
    expected = [b"%d" % number for number in range(3000)]
    with (
        Wire(broker.port) as wire,
        Subscriber(broker.port) as subscriber,
        publisher_to(wire.port, path, in_flight_max=50) as publisher,
    ):
        for cut in range(10):
            publisher.publish_many(
                [("t", one) for one in expected[cut * 300 : cut * 300 + 300]], qos
            )
            wait_until(partial(subscriber.has, expected[cut * 300 + 20]))
            wire.refusals = cut % 3
            wire.cut()
        assert publisher.wait(PATIENCE_S)
        wait_until(partial(subscriber.has, expected[-1]))
        stats = publisher.stats()
        assert stats.connections > 5
        assert stats.acknowledged == len(expected)
    assert list(dict.fromkeys(subscriber.items)) == expected
    if qos == 2:
        assert subscriber.items == expected
    else:
        assert len(subscriber.items) <= len(expected) + 50 * (stats.connections - 1)


def test_a_broker_that_has_lost_the_session_gets_the_message_again(
    broker: Broker, path: Path
) -> None:
    """The broker loses a message with QoS 2 that it had, and had not been told to pass on."""
    directory = path.parent / "mosquitto"
    with Wire(broker.port) as wire, Subscriber(broker.port) as subscriber:
        broker.process.send_signal(signal.SIGUSR1)
        wait_until((directory / "mosquitto.db").exists)
        with publisher_to(wire.port, path) as publisher:
            publisher.publish("t", "0", qos=2)
            assert publisher.wait(PATIENCE_S)
            wire.lets_through = 1  # PUBLISH, but not PUBREL
            publisher.publish("t", "1", qos=2)
            wait_until(lambda: wire.held == 1)
            broker.kill()
            wire.lets_through = None
            broker.start()  # with what it knew before the publisher came
            assert publisher.wait(PATIENCE_S)
            wait_until(partial(subscriber.has, b"1"))
            assert publisher.stats().acknowledged == 2
    assert by_topic(subscriber.messages) == {"t": [b"0", b"1"]}


PUBLISH = """
    import sys, topicdb
    url = f"mqtt://127.0.0.1:{sys.argv[2]}"
    publisher = topicdb.Publisher(sys.argv[1], url, durability=sys.argv[4])
    for number in range(int(sys.argv[3]), 1_000_000):
        publisher.publish(f"t/{number % 3}", str(number))
        print(number, flush=True)
"""


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_a_publisher_that_is_killed_loses_nothing_that_it_took(
    broker: Broker, path: Path, durability: str
) -> None:
    last = -1
    with Subscriber(broker.port) as subscriber:
        for _ in range(3):
            with Child(PUBLISH, path, broker.port, last + 1, durability) as child:
                wait_until(partial(subscriber.has, b"%d" % (last + 50)))
                child.kill()
                while line := child.read_line():
                    last = int(line)
            # What it took and did not come to print is in the queue, too.
            with publisher_to(broker.port, path) as publisher:
                assert publisher.wait(PATIENCE_S)
            taken = {int(item) for item in subscriber.items} | {last}
            last = max(taken)
        wait_until(partial(subscriber.has, b"%d" % last))
    expected = {f"t/{n}": [b"%d" % k for k in range(n, last + 1, 3)] for n in range(3)}
    assert by_topic(subscriber.messages) == expected


def test_the_broker_comes_after_the_messages(tmp_path: Path, path: Path) -> None:
    broker = mosquitto(tmp_path / "mosquitto")
    errors: list[Exception] = []
    with publisher_to(broker.port, path, on_error=errors.append) as publisher:
        publisher.publish_many([("t", str(number)) for number in range(100)])
        publisher.publish("t", "late", expiry=1)
        wait_until(lambda: len(errors) >= 3)
        assert isinstance(errors[0], ConnectionRefusedError)
        expired = now_us() + 1_000_000
        wait_until(lambda: now_us() > expired)
        with broker:
            assert publisher.wait(PATIENCE_S)
        stats = publisher.stats()
    assert stats.acknowledged + stats.expired == 101
    assert stats.expired == 1


def test_publish_waits_for_room_until_the_broker_has_made_it(tmp_path: Path, path: Path) -> None:
    broker = mosquitto(tmp_path / "mosquitto")
    with publisher_to(broker.port, path, max_bytes=2_000, overflow="block") as publisher:
        done = threading.Event()

        def run() -> None:
            for number in range(200):
                publisher.publish("t", b"%03d" % number * 30)
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: publisher.pending.bytes > 1_800)
        assert not done.is_set()
        with broker, Subscriber(broker.port) as subscriber:
            thread.join()
            assert done.is_set()
            assert publisher.wait(PATIENCE_S)
            wait_until(partial(subscriber.has, b"199" * 30))
    assert publisher.stats().acknowledged == 200


@pytest.mark.parametrize("qos", [1, 2])
def test_what_the_broker_refuses_holds_up_nothing(tmp_path: Path, path: Path, qos: Any) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    rules = directory / "acl"
    rules.write_text("topic read #\ntopic write good/#\n")
    errors: list[Exception] = []
    # Without a limit of queued messages, Mosquitto 2.0.11 disconnects unauthorized clients.
    limits = ["max_queued_messages 1000", "max_packet_size 2000"]
    with (
        mosquitto(directory, f"acl_file {rules}", *limits) as broker,
        Subscriber(broker.port) as subscriber,
        publisher_to(broker.port, path, on_error=errors.append) as publisher,
    ):
        for number in range(10):
            publisher.publish(f"good/{number}", str(number), qos)
            publisher.publish(f"bad/{number}", str(number), qos, properties={"n": str(number)})
        publisher.publish("good/large", b"x" * 2000, qos)
        publisher.publish("good/last", "last", qos)
        assert publisher.wait(PATIENCE_S)
        wait_until(partial(subscriber.has, b"last"))
        stats = publisher.stats()
        assert (stats.refused, stats.refused_waiting) == (11, 11)
        assert (stats.acknowledged, stats.connections, stats.failures) == (11, 1, 0)
        assert len(errors) == 11
        # The publisher itself refuses the large one, maybe before the broker answers.
        (error,) = [str(error) for error in errors if "bad/0" in str(error)]
        assert "Not authorized" in error
        rules.write_text("topic readwrite #\n")
        broker.process.send_signal(signal.SIGHUP)
        first = publisher.refused.peek()
        assert isinstance(first, RefusedMessage)
        assert (first.topic, first.qos) in {("bad/0", qos), ("good/large", qos)}
        wait_until(lambda: publish_refused(publisher) == 1)
        wait_until(partial(subscriber.has, b"9"))
        (large,) = publisher.refused
        assert "takes packets of at most 2000 bytes" in large.reason
        assert publisher.stats().refused_waiting == 0
    expected = {f"good/{n}": [b"%d" % n] for n in range(10)} | {"good/last": [b"last"]}
    assert by_topic(subscriber.messages) == expected | {f"bad/{n}": [b"%d" % n] for n in range(10)}
    again = {m.topic: m for m in subscriber.messages if m.topic.startswith("bad/")}
    assert [again[f"bad/{n}"].qos for n in range(10)] == [qos] * 10


def publish_refused(publisher: topicdb.Publisher) -> int:
    """Publishes refused messages again, and returns how many are refused again."""
    assert publisher.publish_refused() > 0
    assert publisher.wait(PATIENCE_S)
    return len(publisher.refused)


def test_refused_messages_are_kept_over_a_restart(tmp_path: Path, path: Path) -> None:
    with mosquitto(tmp_path / "mosquitto", "max_packet_size 500") as broker:
        for count in (1, 2):
            with publisher_to(broker.port, path) as publisher:
                publisher.publish("t", b"x" * 1000)
                assert publisher.wait(PATIENCE_S)
                assert publisher.stats().refused_waiting == count
                assert publisher.stats().refused == 1
    assert Path(f"{path}.refused").is_dir()


def test_a_message_for_which_the_broker_disconnects_holds_up_nothing(
    broker: Broker, path: Path
) -> None:
    """Mosquitto ends a connection that brings a topic with more than 200 levels."""
    deep = "/".join("a" * 300)
    with (
        Subscriber(broker.port) as subscriber,
        publisher_to(broker.port, path) as publisher,
    ):
        publisher.publish_many([("t", str(number)) for number in range(50)])
        publisher.publish(deep, "deep")
        publisher.publish_many([("t", str(number)) for number in range(50, 100)])
        assert publisher.wait(PATIENCE_S)
        wait_until(partial(subscriber.has, b"99"))
        (letter,) = publisher.refused
        assert (letter.topic, letter.payload) == (deep, b"deep")
    assert by_topic(subscriber.messages) == {"t": [b"%d" % number for number in range(100)]}


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("mosquitto_passwd")),
    reason="needs openssl and mosquitto_passwd",
)
# paho-mqtt does not close its socket if the handshake fails.
@pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_tls_and_a_wrong_password(tmp_path: Path, path: Path) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    key, certificate, users = (directory / name for name in ("key.pem", "cert.pem", "users"))
    for command in [
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}",
        f"mosquitto_passwd -b -c {users} me right",
    ]:
        subprocess.run(command.split(), check=True, capture_output=True)
    lines = [f"certfile {certificate}", f"keyfile {key}", f"cafile {certificate}"]
    lines += ["require_certificate true", "allow_anonymous false", f"password_file {users}"]
    errors: list[Exception] = []
    with mosquitto(directory, *lines) as broker:
        url = f"mqtts://127.0.0.1:{broker.port}"
        own: dict[str, Any] = {"ca": certificate, "cert": certificate, "key": key, **QUICK}
        with topicdb.Publisher(path, url, close_timeout=0, **QUICK) as publisher:
            publisher.publish("t", "1")
            wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in str(publisher.stats().error))
        with topicdb.Publisher(
            path,
            url,
            username="me",
            password="wrong",
            close_timeout=0,
            on_error=errors.append,
            **own,
        ) as publisher:
            publisher.publish("t", "2")
            wait_until(lambda: len(errors) >= 2)
            assert "Not authorized" in str(errors[0])
            assert "wrong" not in str(errors[0])
            assert isinstance(publisher.stats().error, ConnectionRefusedError)
            assert publisher.stats().pending_items == 2
        url = f"mqtts://me:right@127.0.0.1:{broker.port}"
        with topicdb.Publisher(path, url, **own) as publisher:
            assert publisher.wait(PATIENCE_S)
            assert publisher.stats().acknowledged == 2


WILL = """
    import sys, topicdb
    url = f"mqtt://127.0.0.1:{sys.argv[2]}"
    with topicdb.Publisher(sys.argv[1], url, will=("will", "gone", 1, True)) as publisher:
        publisher.publish("t", "here")
        assert publisher.wait(250)
        print("here", flush=True)
        sys.stdin.readline()
"""


def test_the_will_is_published_unless_the_publisher_says_goodbye(
    broker: Broker, path: Path
) -> None:
    with Subscriber(broker.port) as subscriber:
        with Child(WILL, path, broker.port) as child:
            child.expect("here")
            child.send()
            assert child.finish()[0] == 0
        with Child(WILL, path, broker.port) as child:
            child.expect("here")
            child.kill()
        wait_until(partial(subscriber.has, b"gone"))
    assert subscriber.items == [b"here", b"here", b"gone"]
    assert subscriber.messages[-1].topic == Will("will").topic


def test_close_sends_what_is_pending(broker: Broker, path: Path) -> None:
    with Subscriber(broker.port) as subscriber:
        publisher = publisher_to(broker.port, path)
        publisher.publish_many([("t", str(number)) for number in range(500)])
        assert publisher.close(timeout=30)
        wait_until(partial(subscriber.has, b"499"))
    assert len(subscriber.items) == 500

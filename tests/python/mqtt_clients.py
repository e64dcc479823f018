"""Clients of a broker for tests: one publishes, one asks for history, others subscribe."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, TypeVar

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.mqtt.envelope import Envelope

One = TypeVar("One", bound="LastingSubscriber")

START_US = 1_700_000_000_000_000


SECOND_US = 1_000_000


class Publisher:
    """Publishes messages one by one, and waits for the confirmation of each."""

    def __init__(self, port: int, protocol: MQTTProtocolVersion = MQTTv5, **tls: Any) -> None:
        self.client = Client(CallbackAPIVersion.VERSION2, protocol=protocol)
        if tls:
            self.client.tls_set(**tls)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def publish(
        self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False, **named: Any
    ) -> None:
        properties = None
        if named:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            for name, value in named.items():
                setattr(properties, name, value)
        info = self.client.publish(topic, payload, qos, retain, properties)
        info.wait_for_publish(PATIENCE_S)
        assert info.is_published()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def connected(bridge: Bridge, times: int = 1) -> None:
    wait_until(lambda: bridge.status().connections >= times)
    wait_until(lambda: bridge.status().state == "connected")


def has_stored(bridge: Bridge, count: int) -> None:
    wait_until(lambda: bridge.status().stored >= count)


def values(db: topicdb.Database, filter: str = "#") -> list[bytes]:
    found = []
    for message in db.scan(filter, order="time", raw=True):
        envelope = Envelope.decode(message.value)
        assert envelope is not None
        found.append(envelope.payload)
    return found


class Asker:
    """A client that asks the bridge for history, and keeps the answers."""

    def __init__(self, port: int) -> None:
        self.found: list[MQTTMessage] = []
        self.client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        self.client.on_message = lambda client, data, message: self.found.append(message)
        self._subscribed = threading.Event()
        self.client.on_subscribe = lambda *arguments: self._subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.client.subscribe("answers/#", 1)
        assert self._subscribed.wait(PATIENCE_S)

    def ask(self, filter: str, **asked: str) -> list[MQTTMessage]:
        self.found.clear()
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic = "answers/1"
        properties.CorrelationData = b"7"
        properties.UserProperty = list(asked.items())
        self.client.publish("topicdb/history", filter.encode(), 1, properties=properties)
        wait_until(lambda: any({"end", "error"} & set(self.users(one)) for one in list(self.found)))
        return list(self.found)

    @staticmethod
    def users(message: MQTTMessage) -> dict[str, str]:
        return dict(message.properties.UserProperty)  # type: ignore[union-attr]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Received(NamedTuple):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any]


class LastingSubscriber:
    """A client whose session at a broker outlives connections; subclasses keep what arrives.

    It does not acknowledge messages of QoS 1, so that it writes nothing for them: if it wrote to a
    broker that was killed, its socket could fail before everything on it is read. A message that
    the broker has confirmed to its publisher is on this socket, and may be nowhere else.
    """

    def __init__(self, port: int, **options: Any) -> None:
        self.sessions = 0  # how many connections have subscribed
        self._port = port
        self._ended = False
        self._client = client = Client(
            CallbackAPIVersion.VERSION2,
            "subscriber",
            reconnect_on_failure=False,
            manual_ack=True,
            **options,
        )
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        self._thread = threading.Thread(target=self._run)

    @property
    def items(self) -> list[bytes]:
        raise NotImplementedError

    def has(self, item: bytes) -> bool:
        return item in self.items

    def was_connected(self, times: int) -> bool:
        return self.sessions >= times

    def __enter__(self: One) -> One:
        self._thread.start()
        wait_until(lambda: self.sessions == 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        self._client.disconnect()
        self._client.loop(0)

    def _run(self) -> None:
        while not self._ended:
            if self._client.loop(0.05) != 0:
                try:
                    self._connect()
                except OSError:
                    time.sleep(0.02)  # nobody listens yet

    def _connect(self) -> None:
        self._client.connect("127.0.0.1", self._port, keepalive=0)

    def _on_connect(self, *_: object) -> None:
        raise NotImplementedError

    def _on_subscribe(self, *_: object) -> None:
        self.sessions += 1

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        raise NotImplementedError


class Subscriber(LastingSubscriber):
    """A subscriber that keeps the messages that arrive, with their properties."""

    def __init__(self, port: int, filter: str = "#", qos: int = 2) -> None:
        super().__init__(port, protocol=MQTTv5)
        self.messages: list[Received] = []
        self._filter, self._qos = filter, qos

    @property
    def items(self) -> list[bytes]:
        return [message.payload for message in self.messages]

    def _connect(self) -> None:
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        lasting.SessionExpiryInterval = 3600
        self._client.connect(
            "127.0.0.1", self._port, keepalive=0, clean_start=False, properties=lasting
        )

    def _on_connect(self, *_: object) -> None:
        self._client.subscribe(
            self._filter, options=SubscribeOptions(qos=self._qos, retainAsPublished=True)
        )

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        found = message.properties
        properties = {} if found is None else found.json()  # type: ignore[no-untyped-call]
        self.messages.append(
            Received(message.topic, bytes(message.payload), message.qos, message.retain, properties)
        )
        if message.qos == 2:  # sends PUBCOMP, which ends the handshake of QoS 2
            client.ack(message.mid, message.qos)


def fill(db: topicdb.Database, items: list[bytes], gap_us: int = 1_000) -> None:
    """Appends messages of three topics, with ``gap_us`` between consecutive numbers."""
    db.append([(f"site/{int(item) % 3}/t", START_US + int(item) * gap_us, item) for item in items])

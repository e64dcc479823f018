"""Tests of delivery to a real Kafka, which is killed and started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import Broker, UnavailableError, kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from forwarding import first_arrivals, numbered
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.forward import Forwarder, KafkaSink, PermanentError

pytestmark = pytest.mark.kafka

PARTITIONS = 3
QUICK: dict[str, Any] = {"retry_min": 0.01, "retry_max": 0.1}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        made = kafka(tmp_path_factory.mktemp("kafka"))
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with made:
        yield made


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[topicdb.Queue]:
    with topicdb.Queue.open(tmp_path / "queue") as opened:
        yield opened


def make_topic(broker: Broker, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    topic = NewTopic(name, PARTITIONS, 1, config=config)
    admin.create_topics([topic])[name].result(PATIENCE_S)


def key(item: bytes) -> bytes:
    return b"%d" % (int(item) % 10)


def sink_to(broker: Broker, topic: str | Callable[[bytes], str], **options: Any) -> KafkaSink:
    config = {"reconnect.backoff.max.ms": 200, "linger.ms": 1}
    return KafkaSink(f"127.0.0.1:{broker.port}", topic=topic, **{"key": key, **config, **options})


def stored(broker: Broker, topic: str, items: set[bytes]) -> list[list[bytes]]:
    """Returns what is in each partition, read until all ``items`` were seen."""
    partitions: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": "test"})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    missing = set(items)
    deadline = time.monotonic() + PATIENCE_S
    while missing:
        assert time.monotonic() < deadline, f"{len(missing)} items are missing"
        for message in consumer.consume(1000, timeout=0.1):
            assert message.error() is None
            value, partition = message.value(), message.partition()
            assert isinstance(value, bytes) and partition is not None
            partitions[partition].append(value)
            missing.discard(value)
    consumer.close()
    return partitions


def check_order(partitions: list[list[bytes]], items: list[bytes]) -> None:
    """Checks that no item is lost or made up, and that each partition got new items in order."""
    for arrived in partitions:
        assert first_arrivals(arrived) == [item for item in items if item in set(arrived)]
    assert sorted(item for arrived in partitions for item in set(arrived)) == sorted(items)


def test_every_message_once_and_in_order(broker: Broker, queue: topicdb.Queue) -> None:
    make_topic(broker, "plain")
    items = numbered(3000)
    queue.append(items)
    Forwarder(queue, sink_to(broker, "plain"), batch_count=100).run(until_empty=True)
    assert queue.stats().bytes == 0
    partitions = stored(broker, "plain", set(items))
    check_order(partitions, items)
    assert sum(map(len, partitions)) == len(items)
    keys = [{key(item) for item in arrived} for arrived in partitions]
    assert sorted(k for part in keys for k in part) == numbered(10)  # each key is in one partition


@pytest.mark.parametrize("confirm_timeout", [1000.0, 3.0], ids=["client", "forwarder"])
def test_a_broker_killed_and_started_again_during_traffic_loses_nothing(
    broker: Broker, queue: topicdb.Queue, confirm_timeout: float
) -> None:
    """Items are sent again either by the client itself or by the forwarder."""
    topic = f"killed-{confirm_timeout}"
    make_topic(broker, topic)
    items = numbered(4000)
    by_forwarder = confirm_timeout < PATIENCE_S  # with 1,000 s only the client sends again
    forwarder = Forwarder(
        queue, sink_to(broker, topic), batch_count=20, confirm_timeout=confirm_timeout, **QUICK
    )
    with forwarder:
        queue.append(items[:3000])
        wait_until(lambda: forwarder.metrics().items >= 200)
        broker.kill()
        queue.append(items[3000:])
        wait_until(lambda: forwarder.metrics().in_flight == 80)
        if by_forwarder:
            wait_until(lambda: forwarder.health.state == "retrying")
        broker.start()
        wait_until(lambda: queue.stats().bytes == 0)
        assert (forwarder.metrics().retries >= 4) == by_forwarder
    check_order(stored(broker, topic, set(items)), items)


def test_a_message_that_is_too_large_for_the_broker(broker: Broker, queue: topicdb.Queue) -> None:
    make_topic(broker, "small", **{"max.message.bytes": "3000"})
    refused: list[bytes] = []
    large, huge = b"8" * 5000, b"9" * 2_000_000  # the client itself refuses the huge item
    items = [*numbered(8), large, *numbered(8, 8), huge, b"16"]
    queue.append(items)
    sink = sink_to(broker, lambda item: "small", key=None)
    forwarder = Forwarder(
        queue, sink, poison=lambda items, error: refused.extend(items), batch_bytes=10_000_000
    )
    forwarder.run(until_empty=True)
    assert refused == [large, huge]
    assert isinstance(forwarder.health.error, PermanentError)
    good = [item for item in items if item not in refused]
    assert {item for arrived in stored(broker, "small", set(good)) for item in arrived} == set(good)


def test_what_has_no_key_is_refused(broker: Broker, queue: topicdb.Queue) -> None:
    queue.append([b"no number"])
    with pytest.raises(PermanentError, match="invalid literal"):
        Forwarder(queue, sink_to(broker, "plain")).run()


def test_a_configuration_that_the_client_does_not_know(
    broker: Broker, queue: topicdb.Queue
) -> None:
    with Forwarder(queue, sink_to(broker, "plain", **{"no.such": "x"}), **QUICK) as forwarder:
        wait_until(lambda: forwarder.health.state == "retrying")
        assert isinstance(forwarder.health.error, KafkaException)

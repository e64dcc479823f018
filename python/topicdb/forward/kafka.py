"""A sink that delivers to Kafka, with confluent-kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.sink import PermanentError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

Topic: TypeAlias = "str | Callable[[bytes], str]"
Key: TypeAlias = "Callable[[bytes], bytes | str | None]"
# "At least once, in order" depends on these. The rest of the producer's configuration is free.
CONFIG_FIXED: dict[str, Any] = {"enable.idempotence": True, "acks": "all"}
CONFIG_DEFAULT: dict[str, Any] = {
    # The producer has no limits of its own: the forwarder has its window and its confirm_timeout.
    # If the producer dropped single messages, those behind them could get ahead.
    "queue.buffering.max.messages": 0,
    "delivery.timeout.ms": 0,
    "logger": logging.getLogger(__name__),  # instead of stderr
}
CLOSE_SECONDS = 1.0


class KafkaSink:
    """Produces each item as a message to Kafka. Serves one forwarder.

    An item is confirmed by its delivery report, when all replicas in sync have it. Messages of one
    partition keep their order. The producer is idempotent: messages that it retries by itself come
    once. Items that the forwarder sends again, after ``confirm_timeout`` or an error, may come
    twice.

    Example:
        >>> sink = KafkaSink("kafka.example:9092", topic="plant-events")  # doctest: +SKIP
        >>> with topicdb.Forwarder(queue, sink):  # doctest: +SKIP
        ...     queue.append([b"started"])
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: Topic,
        key: Key | None = None,
        **config: Any,
    ) -> None:
        """Checks the options. ``open`` makes the producer.

        Arguments:
            bootstrap_servers: host:port of some brokers, separated by commas.
            topic: of every message; or a function that is called with the item and returns the
                topic. If it raises, that is a PermanentError.
            key: a function that is called with the item and returns its key; messages with equal
                keys go to one partition. If it raises, that is a PermanentError.
            **config: further configuration of the producer, such as ``**{"compression.type":
                "zstd"}``.

        Raises:
            ImportError: confluent-kafka is missing: install ``topicdb[kafka]``.
            ValueError: the configuration sets something on which delivery at least once depends.
            TypeError: a topic or key of a wrong type.
        """
        try:
            import confluent_kafka  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "KafkaSink needs confluent-kafka: pip install topicdb[kafka]"
            ) from error
        for name in ("enable.idempotence", "acks", "request.required.acks"):
            if name in config:
                raise ValueError(f"{name} is not for choice: delivery at least once needs it")
        # Here, since a forwarder would take it for a fault of the items.
        if not isinstance(topic, str) and not callable(topic):
            raise wrong_type("topic", "a topic (str) or a function", topic)
        if key is not None and not callable(key):
            raise wrong_type("key", "a function or None", key)
        self._config = {
            **CONFIG_DEFAULT,
            **config,
            **CONFIG_FIXED,
            "bootstrap.servers": bootstrap_servers,
        }
        self._topic = topic
        self._key = key
        self._producer: Producer | None = None

    def open(self) -> None:
        """Makes the producer, which connects by itself.

        Raises:
            KafkaException: for bad configuration.
        """
        from confluent_kafka import Producer

        self._producer = Producer(self._config)

    def begin(self, items: list[bytes]) -> Future[None]:
        if self._producer is None:
            raise ConnectionError("the sink is not open")
        messages = [self._message(item) for item in items]
        report = _Reports(len(items))
        for topic, key, item in messages:
            self._produce(topic, key, item, report)
        return report.future

    def poll(self, timeout: float) -> None:
        if self._producer is not None:
            self._producer.poll(timeout)

    def close(self) -> None:
        """Drops what waits in the producer, and does not wait for messages on their way."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        producer.purge()
        deadline = time.monotonic() + CLOSE_SECONDS
        while len(producer) > 0 and time.monotonic() < deadline:
            producer.poll(0.1)  # sets the futures

    def _message(self, item: bytes) -> tuple[str, bytes | str | None, bytes]:
        try:
            topic = self._topic if isinstance(self._topic, str) else self._topic(item)
            key = None if self._key is None else self._key(item)
        except Exception as error:
            raise PermanentError(f"no topic or key for an item: {error!r}") from error
        return topic, key, item

    def _produce(self, topic: str, key: bytes | str | None, item: bytes, report: _Reports) -> None:
        from confluent_kafka import KafkaException

        assert self._producer is not None
        try:
            self._producer.produce(topic, item, key, on_delivery=report)
        except KafkaException as error:
            raise _error_of(error.args[0], is_local=True) from error
        except (TypeError, ValueError) as error:  # a key that is no bytes, a NUL in the topic
            raise PermanentError(str(error)) from error


class _Reports:
    """Counts the messages of a batch that have no delivery report yet."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.future: Future[None] = Future()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self._left -= 1
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(_error_of(error))
        elif self._left == 0:
            self.future.set_result(None)


def _error_of(error: KafkaError, *, is_local: bool = False) -> Exception:
    """Returns PermanentError if the message itself is at fault, else an error to retry.

    What a broker may allow later is no fault of the message. ``is_local``: the producer has not
    taken the message.
    """
    from confluent_kafka import KafkaError as Code
    from confluent_kafka import KafkaException

    permanent = {
        Code.MSG_SIZE_TOO_LARGE,
        Code.RECORD_LIST_TOO_LARGE,
        Code.INVALID_RECORD,
        Code.TOPIC_EXCEPTION,
        Code.POLICY_VIOLATION,
    }
    if is_local:
        permanent.add(Code._INVALID_ARG)  # such as a topic that is too long
    if error.code() in permanent:
        return PermanentError(f"Kafka refused a message: {error}")
    return KafkaException(error)

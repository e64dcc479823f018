"""History: clients of the broker ask for stored messages, and get them at their response topic."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topicdb import _core
from topicdb.arguments.filters import covers
from topicdb.arguments.times import duration_us, is_duration, now_us, time_of_text, time_us
from topicdb.mqtt.envelope import Envelope
from topicdb.mqtt.expiry import left_s
from topicdb.mqtt.properties import PublishProperties
from topicdb.types import Message

if TYPE_CHECKING:
    from topicdb.bridge.client import StoringClient
    from topicdb.database.database import Database

_logger = logging.getLogger("topicdb.bridge")
_UNSENT_MAX = 1_000  # messages that are read ahead of publishing
_UNCONFIRMED_MAX = 100
_WAITING_MAX = 100  # requests that wait
_ERROR_CHARACTERS_MAX = 1_000  # of an error's text in an answer; it may quote what was asked


@dataclass(frozen=True)
class _Answer:
    """A message to publish at the response topic of a request. Its properties are packed."""

    topic: str
    payload: bytes
    properties: PublishProperties


@dataclass(frozen=True)
class _Request:
    """A request that was checked."""

    filter: str
    start_us: int | None
    end_us: int | None
    limit: int | None
    topic: str
    correlation: bytes | None


class History:
    """Answers the requests of one connection.

    A thread of its own reads what was asked for; the bridge's thread calls ``ask``, ``publish`` and
    ``close``. The bridge makes one for each connection.

    ``requests``: how many were answered; ``replayed``: the messages of the answers; ``expired``:
    those that were left out because they had expired. They continue from the values given.
    """

    def __init__(
        self,
        database: Database,
        filters: Sequence[str],
        requests: int = 0,
        replayed: int = 0,
        expired: int = 0,
    ) -> None:
        self._database = database
        self._filters = list(filters)
        self.requests = requests
        self.replayed = replayed
        self.expired = expired
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._requests: deque[_Request] = deque()
        self._answers: deque[_Answer] = deque()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="topicdb-history", daemon=True)
        self._thread.start()

    def ask(self, message: Envelope) -> None:
        """Takes a request. If something is wrong with it, the answer says so.

        A request without a response topic cannot be answered, and is ignored.
        """
        topic, correlation = message.response_topic, message.correlation_data
        if not topic:
            return
        try:
            asked = dict(message.user_properties)
            request = self._request(message.payload, asked, topic, correlation)
        except Exception as error:  # the request is a client's: nothing in it may end the bridge
            self._put(_error(topic, correlation, str(error)))
            return
        with self._lock:
            if len(self._requests) < _WAITING_MAX:
                self._requests.append(request)
                self._changed.notify_all()
                return
        self._put(_error(topic, correlation, "too many requests are waiting"))

    def _request(
        self, payload: bytes, asked: dict[str, str], topic: str, correlation: bytes | None
    ) -> _Request:
        filter = payload.decode()
        _core.check_filter(filter)
        if not any(covers(one, filter) for one in self._filters):
            raise ValueError(f"{filter!r} is not covered by what may be asked for: {self._filters}")
        limit = int(asked["limit"]) if "limit" in asked else None
        if limit is not None and limit < 1:
            raise ValueError(f"limit: at least 1, got {limit}")
        start_us = _time_us(asked.get("since"), "since")
        return _Request(
            filter, start_us, _time_us(asked.get("until"), "until"), limit, topic, correlation
        )

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._requests and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                request = self._requests.popleft()
            try:
                self._answer(request)
            except Exception as error:
                # Whatever the error is, the client is told, and the next request is answered.
                _logger.warning("history of %r: %s", request.filter, error)
                self._put(_error(request.topic, request.correlation, str(error)))

    def _answer(self, request: _Request) -> None:
        count = expired = 0
        scan = self._database.scan(
            request.filter, start=request.start_us, end=request.end_us, order="time", raw=True
        )
        for message in scan:
            if self._is_closed or count == request.limit:
                break
            answer = _answer_of(message, request)
            if answer is None:
                expired += 1
                continue
            self._put(answer)
            count += 1
        users = [("end", str(count))]
        if expired:
            users.append(("expired", str(expired)))
        self._put(_answer(request.topic, Envelope(b""), request.correlation, users))
        self.requests += 1
        self.replayed += count
        self.expired += expired

    def _put(self, answer: _Answer) -> None:
        """Queues an answer. In the reading thread it waits for room.

        The bridge's thread must not wait: it makes the room.
        """
        with self._lock:
            if threading.current_thread() is self._thread:
                while len(self._answers) >= _UNSENT_MAX and not self._is_closed:
                    self._changed.wait()
            self._answers.append(answer)

    def publish(self, client: StoringClient) -> None:
        """Publishes the answers that are ready, as far as the broker confirms them."""
        while self._answers and client.unconfirmed < _UNCONFIRMED_MAX:
            with self._lock:
                answer = self._answers.popleft()
                self._changed.notify_all()
            try:
                client.publish(
                    answer.topic,
                    answer.payload,
                    1,
                    False,
                    answer.properties,  # type: ignore[arg-type]  # it calls nothing but pack()
                )
            except OSError:
                raise
            except Exception as error:  # an answer that cannot be sent is no fault of the bridge
                _logger.warning("an answer with history at %r: %s", answer.topic, error)

    def close(self) -> None:
        """Ends the thread, and drops answers that were not sent: the connection has ended."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()


def _time_us(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if is_duration(text):
        return max(0, now_us() - duration_us(text, what=what))
    return time_us(time_of_text(text, what=what), what=what)


def _answer_of(message: Message, request: _Request) -> _Answer | None:
    """Returns the answer with this message; None if it has expired.

    Raises ValueError if no packet can have its properties.
    """
    envelope = Envelope.read(message.value)
    users: list[tuple[str, str]] = [
        ("topic", message.topic),
        ("timestamp", str(message.timestamp)),
    ]
    left = left_s(envelope, message.timestamp, now_us())
    if left == 0:
        return None
    users += envelope.user_properties
    return _answer(request.topic, envelope, request.correlation, users, left)


def _answer(
    topic: str,
    message: Envelope,
    correlation: bytes | None,
    users: list[tuple[str, str]],
    left_s: int | None = None,
) -> _Answer:
    """Returns an answer with the payload of a message, and what its properties say of that.

    Raises ValueError if no packet can have the properties.
    """
    answer = Envelope(
        message.payload,
        payload_format=message.payload_format,
        content_type=message.content_type,
        correlation_data=correlation,
        user_properties=tuple(users),
    )
    properties = PublishProperties(answer, left_s)
    properties.pack()  # an error is raised here, and not in the bridge's thread
    return _Answer(topic, message.payload, properties)


def _error(topic: str, correlation: bytes | None, text: str) -> _Answer:
    """Returns an answer with an error, in such a form that any broker passes it on."""
    if len(text) > _ERROR_CHARACTERS_MAX:
        half = (_ERROR_CHARACTERS_MAX - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return _answer(topic, Envelope(b""), correlation, [("error", text)])

"""A replay log and its endpoints as their users see them, in plain Python.

A message has a number in the log. An endpoint does all its work at once, in ``settle``, one message
after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from model.topics import matches


@dataclass(frozen=True)
class Stored:
    """A message of the database.

    ``logged`` says whether the log has it, too; ``expired``, that it had expired when it came.
    """

    topic: str
    time: int
    value: bytes
    logged: bool
    expired: bool = False


@dataclass
class Item:
    """A message that waits at an endpoint.

    ``client`` is the client that has received it; ``again`` says that it was given to one before.
    """

    number: int
    client: str | None = None
    again: bool = False


@dataclass(frozen=True)
class Direct:
    """A direct message that waits at an endpoint; ``at``: so many messages were stored before."""

    at: int
    topic: str
    value: bytes


@dataclass
class Run:
    """A replay: the times that it wants, and the first message that came live after its start."""

    start_us: int
    end_us: int | None
    live_from: int


@dataclass
class Sub:
    """A filter of an endpoint, and the messages, by number, that it takes as live ones."""

    filter: str
    since: int
    until: int | None = None


class RefusedError(Exception):
    """The log refuses a call. Its text is the name of the error class that the test expects."""


@dataclass
class LogModel:
    messages: list[Stored] = field(default_factory=list)
    first: int = 0
    ingress: bool = True
    egress: bool = True
    include: tuple[str, ...] = ("#",)
    exclude: tuple[str, ...] = ()
    endpoints: dict[str, EndpointModel] = field(default_factory=dict)

    def logs(self, topic: str) -> bool:
        if not self.ingress or any(matches(one, topic) for one in self.exclude):
            return False
        return any(matches(one, topic) for one in self.include)

    def append(self, topic: str, time: int, value: bytes, expired: bool = False) -> None:
        self.messages.append(Stored(topic, time, value, self.logs(topic), expired))

    def publish_direct(self, topic: str, time: int, value: bytes) -> None:
        for endpoint in self.endpoints.values():
            if endpoint.clients and endpoint.wants(Stored(topic, time, value, logged=False)):
                endpoint.direct.append(Direct(len(self.messages), topic, value))

    def settle(self) -> None:
        for endpoint in self.endpoints.values():
            endpoint.settle()

    def trim(self, before: int) -> None:
        cut = next(
            (
                number
                for number, one in enumerate(self.messages)
                if one.time >= before and any(matches(f, one.topic) for f in self.include)
            ),
            len(self.messages),
        )
        if cut <= self.first:
            return
        for endpoint in self.endpoints.values():
            if endpoint.misses(cut):
                endpoint.fail("MessageUnavailableError")
        self.first = cut

    def oldest(self) -> int | None:
        logged = (one.time for one in self.messages[self.first :] if one.logged)
        return next(logged, None)

    def set_filters(self, include: tuple[str, ...], exclude: tuple[str, ...]) -> None:
        changed = (include, exclude) != (self.include, self.exclude)
        self.include, self.exclude = include, exclude
        if changed:
            self.fail_all("LogModifiedError")

    def set_egress(self, value: bool) -> None:
        self.egress = value
        if not value:
            self.fail_all("ReplayDisabledError")

    def fail_all(self, reason: str) -> None:
        for endpoint in self.endpoints.values():
            if endpoint.runs:
                endpoint.fail(reason)

    def begin(self, start: int | str | tuple[str, int], clamp: bool) -> tuple[int, int]:
        """Returns the number of the message to begin with, and the first time that is wanted.

        ``start`` is "beginning", a time, or ("after", number). Raises RefusedError if the log does
        not have that message, or begins after that time; with ``clamp`` such a time means the
        beginning.
        """
        if start == "beginning":
            return self.first, 0
        if isinstance(start, tuple):
            number = start[1]
            if number < self.first or not self.messages[number].logged:
                raise RefusedError("StartMessageUnavailableError")
            return number + 1, 0
        assert isinstance(start, int)
        oldest = self.oldest()
        if oldest is not None and start < oldest:
            if not clamp:
                raise RefusedError("StartTimeUnavailableError")
            return self.first, 0
        found = (number for number, one in enumerate(self.messages) if one.time >= start)
        return max(self.first, next(found, len(self.messages))), start


@dataclass
class EndpointModel:
    log: LogModel
    subs: list[Sub]
    spool: int
    exclusive: bool = True
    accepts: Callable[[Stored], bool] = lambda message: True
    dead_letter: str | None = None
    removes_expired: bool = False
    items: list[Item] = field(default_factory=list)
    direct: list[Direct] = field(default_factory=list)
    next: int = 0
    given: int = 0
    state: str = "n/a"
    run: Run | None = None
    clients: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)  # disconnected clients, and why
    unaware: set[str] = field(default_factory=set)

    @property
    def runs(self) -> bool:
        return self.state in ("initializing", "active", "pending complete")

    def is_read(self, message: Stored) -> bool:
        return any(matches(sub.filter, message.topic) for sub in self.subs)

    def wants(self, message: Stored) -> bool:
        """Returns whether it wants a message that comes now."""
        is_subscribed = any(
            matches(sub.filter, message.topic) for sub in self.subs if sub.until is None
        )
        return is_subscribed and self.accepts(message)

    def is_wanted(self, number: int) -> bool:
        message = self.log.messages[number]
        if not self.is_read(message) or not self.accepts(message):
            return False
        if self.run is not None and number < self.run.live_from:
            end = self.run.end_us
            in_time = self.run.start_us <= message.time and (end is None or message.time < end)
            return message.logged and in_time
        if message.expired and self.removes_expired:
            return False
        return any(
            matches(sub.filter, message.topic)
            and sub.since <= number
            and (sub.until is None or number < sub.until)
            for sub in self.subs
        )

    def settle(self) -> None:
        """Does all the work that the endpoint can do now."""
        if self.state == "initializing":
            if self.misses(self.log.first):
                self.fail("MessageUnavailableError")
            else:
                self.state = "active"
        while self.next < len(self.log.messages) and len(self.items) < self.spool:
            if self.is_wanted(self.next):
                self.items.append(Item(self.next, again=self.next < self.given))
            self.next += 1
        if self.state == "active" and not any(map(self.is_read, self.log.messages[self.next :])):
            self.state = "pending complete"
        if self.state == "pending complete":
            assert self.run is not None
            if not any(item.number < self.run.live_from for item in self.items):
                self.state, self.run = "complete", None

    def misses(self, first: int) -> bool:
        """Returns whether a replay still wants messages before ``first``."""
        if self.run is None or self.state not in ("initializing", "active"):
            return False
        until = min(first, self.run.live_from)
        return any(self.is_wanted(number) for number in range(self.next, until))

    def disconnect_all(self, reason: str, but: str | None = None) -> list[str]:
        gone = [client for client in self.clients if client != but]
        for client in gone:
            self.told[client] = reason
            self.leave(client)
        return gone

    def leave(self, client: str) -> None:
        if client in self.clients:
            self.clients.remove(client)
            if not self.clients:
                self.direct = []
        for item in self.items:
            if item.client == client:
                item.client, item.again = None, True

    def knows(self, client: str) -> None:
        self.unaware.discard(client)
        if self.state == "failed" and not self.unaware:
            self.state = "n/a"

    def forget_replayed(self) -> None:
        assert self.run is not None
        if self.next < self.run.live_from:
            self.items, self.next, self.given = [], self.run.live_from, 0
        else:
            self.items = [one for one in self.items if one.number >= self.run.live_from]
        self.run = None

    def fail(self, reason: str) -> None:
        self.unaware = set(self.disconnect_all(reason))
        self.forget_replayed()
        self.state = "failed" if self.unaware else "n/a"

    def cancel(self) -> None:
        if not self.runs:
            raise RefusedError("ReplayError")
        self.disconnect_all("ReplayCancelledError")
        self.forget_replayed()
        self.state = "n/a"

    def start(self, begin: int, start_us: int, end_us: int | None, by: str | None) -> None:
        self.disconnect_all("ReplayStartedError", by)
        self.unaware = set()
        self.subs = [sub for sub in self.subs if sub.until is None]
        self.items, self.next, self.given, self.direct = [], begin, 0, []
        self.run = Run(start_us, end_us, len(self.log.messages))
        self.state = "initializing"

    def modified(self) -> None:
        if self.runs:
            self.fail("EndpointModifiedError")

    def subscribe(self, filter: str) -> None:
        if not any(sub.filter == filter and sub.until is None for sub in self.subs):
            self.modified()
            self.subs.append(Sub(filter, len(self.log.messages)))

    def unsubscribe(self, filter: str) -> None:
        for sub in self.subs:
            if sub.filter == filter and sub.until is None:
                self.modified()
                sub.until = len(self.log.messages)
                return
        raise RefusedError("ValueError")

    def receive(self, client: str, window: int) -> Item | Direct | None:
        if self.exclusive and self.clients[0] != client:
            return None
        item = next((one for one in self.items if one.client is None), None)
        if self.direct and (item is None or item.number >= self.direct[0].at):
            unread = self.log.messages[self.next : self.direct[0].at]
            return None if any(map(self.is_read, unread)) else self.direct.pop(0)
        if item is None or sum(one.client == client for one in self.items) >= window:
            return None
        item.client = client
        self.given = max(self.given, item.number + 1)
        return replace(item)

    def done(self, number: int) -> None:
        self.items = [item for item in self.items if item.number != number]

    def reject(self, number: int) -> None:
        self.done(number)
        if self.dead_letter is not None:
            message = self.log.messages[number]
            topic = f"{self.dead_letter}/{message.topic}"
            self.log.append(topic, message.time, message.value)
        elif self.run is not None and number < self.run.live_from:
            self.fail("RejectedMessageError")

    def release(self, number: int) -> None:
        for item in self.items:
            if item.number == number:
                item.client, item.again = None, True

    def reopen(self) -> None:
        """Changes the endpoint as when its log is closed and opened again."""
        self.clients, self.told, self.unaware, self.direct = [], {}, set(), []
        for item in self.items:
            item.client, item.again = None, item.number < self.given
        if self.state == "failed":
            self.state = "n/a"
        if self.state == "active":
            self.state = "initializing"

"""Clients of a cluster, which do operations until they are told to end."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import topicdb
from cluster.histories.history import REFUSED, History, NothingDoneError

SHARDS = 2
KEYS = [f"map/{n}" for n in range(10)]
ACCOUNTS = [f"bank/{n}" for n in range(8)]
BALANCE = 100
PAIRS = [(f"skew/{n}/x", f"skew/{n}/y") for n in range(1)]
ASSIGNED = ("log/", "same/")  # messages of these topics get their timestamps at the commit
RACERS = 3  # how many attempts have the same name
APPENDS_OF_TOPIC = 40
RETRY_S = 0.05  # between two attempts to reach any site
Result = TypeVar("Result")
Open = Callable[[Sequence[str]], topicdb.Database]


class Shared:
    """What the clients of a run agree on without asking the database. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts = 0
        self._appends = 0
        self.ended = threading.Event()

    def race(self) -> str:
        """Returns a name that several clients try to take at about the same time."""
        with self._lock:
            self._attempts += 1
            return f"race/{self._attempts // RACERS}"

    def topic(self, *, is_append: bool) -> str:
        """Returns the topic to append to at this time; each gets a bounded number of messages."""
        with self._lock:
            self._appends += is_append
            return f"log/{self._appends // APPENDS_OF_TOPIC}"


def found_of(tx: topicdb.Transaction, topic: str) -> str | None:
    """Returns the value of a topic in a transaction."""
    value = tx.get(topic)
    return None if value is None else value.decode()


def transact(
    database: topicdb.Database,
    key: str,
    work: Callable[[topicdb.Transaction], dict[str, Any]],
) -> dict[str, Any]:
    """Runs ``work`` in a transaction of the shard of ``key``; returns its result with the serial.

    The transaction always writes, so that its commit checks what it has read.
    """
    try:
        tx = database.transaction(key=key)
    except topicdb.Error as error:
        raise NothingDoneError(error) from error
    with tx:
        try:
            result = work(tx)
        except topicdb.Error as error:
            raise NothingDoneError(error) from error
        receipt = tx.commit()
    return {**result, "serials": {str(shard): one for shard, one in receipt.serials.items()}}


class Client(threading.Thread):
    """Does random operations, one after the other. Its own thread runs it; ``Shared`` ends it."""

    def __init__(
        self,
        number: int,
        seed: int,
        urls: Sequence[str],
        open: Open,
        shared: Shared,
        history: History,
    ) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._number = number
        self._urls = [*urls[number % len(urls) :], *urls[: number % len(urls)]]
        self._open = open
        self._shared = shared
        self._history = history
        self._choices = random.Random(seed * 1000 + number)
        self._values = itertools.count()
        self._seen: dict[str, str | None] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Runs until it is told to end, or an error comes that is none of TopicDB."""
        kinds = {
            self.get: 4,
            self.put: 4,
            self.cas: 4,
            self.transfer: 4,
            self.total: 1,
            self.skew: 4,
            self.race: 3,
            self.append: 4,
            self.read: 2,
            self.peek: 1,
        }
        try:
            with self._connected() as database:
                while not self._shared.ended.is_set():
                    (kind,) = self._choices.choices(list(kinds), list(kinds.values()))
                    if kind(database) is None:
                        self._shared.ended.wait(RETRY_S * self._choices.random())
        except BaseException as error:
            self.failure = error

    def _connected(self) -> topicdb.Database:
        while True:
            try:
                return self._open(self._urls)
            except topicdb.UnavailableError:
                if self._shared.ended.wait(RETRY_S):
                    raise

    def _value(self) -> str:
        """Returns a value that nobody else writes."""
        return f"{self._number}.{next(self._values)}"

    def _touch(self, tx: topicdb.Transaction) -> None:
        """Has a transaction write, so that its commit checks what it has read."""
        tx.write(f"touch/{self._number}", 0, b"")

    def _transact(
        self,
        database: topicdb.Database,
        operation: str,
        key: str,
        argument: dict[str, Any],
        work: Callable[[topicdb.Transaction], dict[str, Any]],
    ) -> dict[str, Any] | None:
        return self._history.run(
            self._number, operation, argument, lambda: transact(database, key, work)
        )

    def get(self, database: topicdb.Database, key: str | None = None) -> dict[str, Any] | None:
        """Reads a key of the map."""
        key = key or self._choices.choice(KEYS)

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            self._touch(tx)
            return {"value": found_of(tx, key)}

        result = self._transact(database, "get", key, {"key": key}, work)
        if result is not None:
            self._seen[key] = result["value"]
        return result

    def put(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Writes a key of the map, whatever is there."""
        key, value = self._choices.choice(KEYS), self._value()

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            tx.write(key, 0, value.encode())
            return {}

        return self._transact(database, "put", key, {"key": key, "value": value}, work)

    def cas(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Writes a key of the map if it has the value that this client saw last."""
        key, value = self._choices.choice(KEYS), self._value()
        expected = self._seen.get(key)

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            found = self._seen[key] = found_of(tx, key)
            self._touch(tx)
            if found == expected:
                tx.write(key, 0, value.encode())
            return {"swapped": found == expected}

        argument = {"key": key, "expect": expected, "value": value}
        return self._transact(database, "cas", key, argument, work)

    def transfer(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Moves money from an account to another one."""
        source, target = self._choices.sample(ACCOUNTS, 2)
        amount = self._choices.randint(1, BALANCE // 2)

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            left, right = (int(tx.get(one) or BALANCE) for one in (source, target))
            self._touch(tx)
            if left >= amount:
                tx.write(source, 0, b"%d" % (left - amount))
                tx.write(target, 0, b"%d" % (right + amount))
            return {"moved": left >= amount}

        argument = {"others": [source, target], "amount": amount}
        return self._transact(database, "transfer", "bank", argument, work)

    def total(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Reads all accounts."""

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            found = {one.topic: int(one.value) for one in tx.scan("bank/+")}
            self._touch(tx)
            return {"balances": found}

        return self._transact(database, "total", "bank", {}, work)

    def skew(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Switches one of a pair off if both are on, or else on: never may both be off."""
        pair = self._choices.choice(PAIRS)
        side = self._choices.randint(0, 1)

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            found = [found_of(tx, one) or "on" for one in pair]
            tx.write(pair[side], 0, b"off" if found == ["on", "on"] else b"on")
            return {"found": found}

        return self._transact(database, "skew", "skew", {"others": list(pair), "side": side}, work)

    def race(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Takes a name that nobody has, at the same time as others."""
        name, value = self._shared.race(), self._value()

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            tx.require_absent(name, 0)
            tx.write(name, 0, value.encode())
            return {}

        return self._transact(database, "race", "race", {"name": name, "value": value}, work)

    def append(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Appends a message to a topic."""
        topic, value = self._shared.topic(is_append=True), self._value()

        def work() -> dict[str, Any]:
            return {"serials": appended(database, topic, value)}

        return self._history.run(self._number, "append", {"topic": topic, "value": value}, work)

    def read(self, database: topicdb.Database, topic: str | None = None) -> dict[str, Any] | None:
        """Reads a topic to which others append, in a transaction that checks what it has read."""
        topic = topic or self._shared.topic(is_append=False)

        def work(tx: topicdb.Transaction) -> dict[str, Any]:
            found = [one.value.decode() for one in tx.scan(topic)]
            self._touch(tx)
            return {"values": found}

        return self._transact(database, "read", topic, {"topic": topic}, work)

    def peek(self, database: topicdb.Database) -> dict[str, Any] | None:
        """Reads a topic as its site has it, which may be a moment behind."""
        topic = self._shared.topic(is_append=False)

        def work() -> dict[str, Any]:
            try:
                found = [one.value.decode() for one in database.scan(topic, order="time")]
            except topicdb.Error as error:
                raise NothingDoneError(error) from error
            return {"values": found}

        return self._history.run(self._number, "peek", {"topic": topic}, work)


def appended(
    database: topicdb.Database, topic: str, value: str, id: str | None = None
) -> dict[str, int]:
    """Appends a message, and returns its serials by shard."""
    receipt = database.append([(topic, None, value.encode())], id=id)
    return {str(shard): serial for shard, serial in receipt.serials.items()}


class Sender(threading.Thread):
    """Sends each append to all sites at once, with the same id. ``Shared`` ends it."""

    def __init__(
        self, number: int, urls: Mapping[str, str], open: Open, shared: Shared, history: History
    ) -> None:
        super().__init__(name="sender", daemon=True)
        self._number = number
        self._urls = urls
        self._open = open
        self._shared = shared
        self._history = history
        self._databases: dict[str, topicdb.Database] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Runs until it is told to end, or an error comes that is none of TopicDB."""
        try:
            with ThreadPoolExecutor(len(self._urls)) as threads:
                for n in itertools.count():
                    if self._shared.ended.is_set():
                        break
                    self._send(threads, f"same/{n}")
        except BaseException as error:
            self.failure = error
        for database in self._databases.values():
            database.close()

    def _send(self, threads: ThreadPoolExecutor, topic: str) -> None:
        def send(site: str) -> dict[str, int] | topicdb.Error | None:
            try:
                database = self._at(site)
            except topicdb.Error:
                return None  # there is no such site now, and it gets nothing
            try:
                return appended(database, topic, topic, id=topic)
            except topicdb.Error as error:
                return error

        def send_all() -> dict[str, Any]:
            found = list(threads.map(send, self._urls))
            answers = [one for one in found if isinstance(one, dict)]
            if answers:
                return {"serials": answers[0], "answers": answers}
            errors = [one for one in found if isinstance(one, topicdb.Error)]
            if not errors:
                raise NothingDoneError(topicdb.UnavailableError("no site is there"))
            raise next((one for one in errors if not isinstance(one, REFUSED)), errors[0])

        self._history.run(self._number, "same", {"topic": topic, "value": topic}, send_all)

    def _at(self, site: str) -> topicdb.Database:
        """Returns the database at a site, and connects to it first if need be."""
        if site not in self._databases:
            self._databases[site] = self._open([self._urls[site]])
        return self._databases[site]

"""The rules of what is logged: eras of ingress and filters, and promotion of direct messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from topicdb import _core
from topicdb.arguments.filters import Filters, filter_list
from topicdb.follow.positions import Place

_TOPICS_KNOWN_MAX = 100_000
EVERYTHING = ("#",)


class Matcher:
    """Tells whether a topic matches one of its filters, and remembers topics. Thread-safe."""

    def __init__(self, filters: Iterable[str]) -> None:
        self.filters = tuple(filters)
        self._known: dict[str, bool] = {}

    def __call__(self, topic: str) -> bool:
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= _TOPICS_KNOWN_MAX:
                self._known.clear()
            found = any(_core.topic_matches(one, topic) for one in self.filters)
            self._known[topic] = found
        return found


class Era:
    """The rules of a log from the place ``since`` on, until the next era begins.

    Without ingress nothing is logged; with it, topics that match ``include`` and not ``exclude``.
    It does not change. Thread-safe.
    """

    def __init__(
        self, since: Place, ingress: bool, include: Sequence[str], exclude: Sequence[str]
    ) -> None:
        self.since = since
        self.ingress = ingress
        self.include = tuple(include)
        self.exclude = tuple(exclude)
        self._included, self._excluded = Matcher(include), Matcher(exclude)

    @property
    def rules(self) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
        return self.ingress, self.include, self.exclude

    @property
    def logs_everything(self) -> bool:
        return self.ingress and self.include == EVERYTHING and not self.exclude

    def logs(self, topic: str) -> bool:
        return self.ingress and self._included(topic) and not self._excluded(topic)

    def to_json(self) -> list[object]:
        return [self.since, self.ingress, self.include, self.exclude]

    @staticmethod
    def from_json(value: list[object]) -> Era:
        since, ingress, include, exclude = value
        return Era(Place(*since), bool(ingress), include, exclude)  # type: ignore[misc, arg-type]


def era_of(eras: Sequence[Era], place: Place) -> Era:
    """Returns the era that a place is in, of eras in their order.

    Places before the second era belong to the first one. REQUIRES: there is an era.
    """
    found = eras[0]
    for era in eras:
        if era.since <= place:
            found = era
    return found


class Promotion(NamedTuple):
    """A rule that direct messages (QoS 0) of some topics are logged, within a budget.

    A part of the budget that is not used is kept for one second.

    Attributes:
        filter: the topic filter of these messages.
        messages_per_s: at most this many messages a second are logged. None: any number.
        bytes_per_s: at most this many bytes a second, of topics and values. None: any number.

    Example:
        >>> from topicdb.replay import Promotion
        >>> log = topicdb.replay.open(db, promote=[Promotion("alarm/#", messages_per_s=100)])
        >>> log.publish([("alarm/h1", None, b"hot"), ("noise/h1", None, b"")], qos=0).count
        1
        >>> log.close()
    """

    filter: str
    messages_per_s: float | None = None
    bytes_per_s: float | None = None


def checked_promotions(promote: Sequence[Promotion | str]) -> list[Promotion]:
    """Returns the rules, where a filter alone stands for a rule without limits.

    Raises:
        TopicError: a filter is none, and ValueError if a limit is not positive.
    """
    found = [Promotion(one) if isinstance(one, str) else Promotion(*one) for one in promote]
    for rule in found:
        _core.check_filter(rule.filter)
        for name, limit in (("messages_per_s", rule[1]), ("bytes_per_s", rule[2])):
            if limit is not None and not 0 < limit < float("inf"):
                raise ValueError(f"promote: {name} of {rule.filter!r} must be positive, or None")
    return found


def filters_of(value: Filters, what: str) -> list[str]:
    """Returns the topic filters as a list.

    Raises:
        TopicError: one of them is none, and ValueError, which names ``what``, if there is no
            filter.
    """
    found = filter_list(value)
    if not found:
        raise ValueError(f"{what}: at least one topic filter is needed, such as '#'")
    return found


class _Bucket:
    """A budget that grows by ``per_s`` each second, up to the amount of one second."""

    def __init__(self, per_s: float | None, clock: Callable[[], float]) -> None:
        self._per_s = per_s
        self._clock = clock
        self._level = per_s or 0.0
        self._at = clock()

    def has(self, amount: int) -> bool:
        if self._per_s is None:
            return True
        now = self._clock()
        self._level = min(self._per_s, self._level + (now - self._at) * self._per_s)
        self._at = now
        # An amount of more than a whole second passes when the bucket is full.
        return self._level >= min(amount, self._per_s)

    def take(self, amount: int) -> None:
        self._level -= amount


class Promoter:
    """Decides which direct messages are logged, and counts all of them by outcome.

    ``LogRules`` owns this object, which lives as long as the log. Thread-safe.
    """

    def __init__(
        self, rules: Sequence[Promotion], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the budgets and the counts
        self._budgets = self._budgets_of(rules)
        self.counts = {"logged": 0, "no rule": 0, "over budget": 0}

    def _budgets_of(self, rules: Sequence[Promotion]) -> list[tuple[Matcher, _Bucket, _Bucket]]:
        return [
            (Matcher([rule.filter]), _Bucket(rule[1], self._clock), _Bucket(rule[2], self._clock))
            for rule in rules
        ]

    def set_rules(self, rules: Sequence[Promotion]) -> None:
        """Replaces the rules, each with its whole budget; the counts go on."""
        budgets = self._budgets_of(rules)
        with self._lock:
            self._budgets = budgets

    def promotes(self, topic: str, value: bytes) -> bool:
        """Returns whether a message is to be logged, and counts it.

        The first rule whose filter matches the topic decides.
        """
        size = len(topic.encode()) + len(value)
        with self._lock:
            outcome = self._outcome(topic, size)
            self.counts[outcome] += 1
        return outcome == "logged"

    def _outcome(self, topic: str, size: int) -> str:
        for matches, messages, size_budget in self._budgets:
            if matches(topic):
                if not messages.has(1) or not size_budget.has(size):
                    return "over budget"
                messages.take(1)
                size_budget.take(size)
                return "logged"
        return "no rule"

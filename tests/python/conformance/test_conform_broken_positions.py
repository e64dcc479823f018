"""The suite catches what is wrong with places in what is stored: streams, steps, the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults import Faults

import topicdb
from examples.memory_engine.cursors import MemoryTail
from examples.memory_engine.engine import MemoryEngine
from examples.memory_engine.given import Given
from examples.memory_engine.state import Shard, Stored
from examples.memory_engine.steps import made
from examples.memory_engine.subscription import MemorySubscription
from topicdb.results import ScanStep

broken = Faults()


# Streams.


@broken(
    "streams of all generations are listed",
    MemoryEngine,
    "streams",
    "streams.earlier_generations_can_be_left_out",
)
def _(right: Any) -> Any:
    return lambda self, wanted, start, end, generation_min: right(self, wanted, start, end, None)


# Scans in steps.


@broken(
    "a scan in steps gives what comes later",
    MemoryEngine,
    "next_of_scan",
    "steps.later_commits_are_left_out",
)
def _(right: Any) -> Any:
    def next_of_scan(self: MemoryEngine, at: topicdb.ScanIterator, *limits: int) -> ScanStep:
        shards = [(n, self.shards[n].serial, classes) for n, _, classes in at.shards]
        return right(self, made(at, shards=shards), *limits)  # type: ignore[no-any-return]

    return next_of_scan


@broken(
    "a scan in steps stays where it is",
    MemoryEngine,
    "next_of_scan",
    "steps.they_give_what_a_scan_gives",
)
def _(right: Any) -> Any:
    def next_of_scan(self: MemoryEngine, at: topicdb.ScanIterator, *limits: int) -> ScanStep:
        step = right(self, at, *limits)
        return step if step.end_of_scan else ScanStep(at, step.batch, False, step.loss)

    return next_of_scan


@broken(
    "a scan in steps begins behind the first message",
    MemoryEngine,
    "scan_iterator",
    "steps.they_give_what_a_scan_gives",
)
def _(right: Any) -> Any:
    def scan_iterator(self: MemoryEngine, *arguments: Any) -> topicdb.ScanIterator:
        return self.next_of_scan(right(self, *arguments), 1, 1).iterator

    return scan_iterator


@broken(
    "a scan in steps is silent about a loss",
    MemoryEngine,
    "next_of_scan",
    "steps.a_dropped_generation_is_a_loss",
)
def _(right: Any) -> Any:
    def next_of_scan(self: MemoryEngine, at: topicdb.ScanIterator, *limits: int) -> ScanStep:
        while (step := right(self, at, *limits)).loss is not None:
            at = step.iterator
        return step  # type: ignore[no-any-return]

    return next_of_scan


@broken(
    "scans in steps of another database are taken",
    MemoryEngine,
    "next_of_scan",
    "steps.another_database_is_not_found",
)
def _(right: Any) -> Any:
    return lambda self, at, *limits: right(self, made(at, database=self.database), *limits)


# Following.


@broken("a commit wakes nobody", MemoryEngine, "tell", "log.a_commit_wakes_it")
def _(right: Any) -> Any:
    return lambda self: None


@broken("a tail cuts commits", MemoryTail, "_take", "log.a_batch_has_whole_commits")
def _(right: Any) -> Any:
    return lambda self, shard, rows_max, bytes_max: right(self, shard, rows_max, bytes_max)[
        :rows_max
    ]


@broken("a closed tail waits on", MemoryTail, "close", "log.closing_ends_a_wait")
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "any acknowledgement is fine",
    MemorySubscription,
    "acknowledge",
    "subscribing.acknowledgements_that_cannot_be",
)
def _(right: Any) -> Any:
    return lambda self, seqno: self._given.clear()


@broken(
    "a subscription skips what it cannot give",
    MemorySubscription,
    "_messages",
    "subscribing.deliveries_have_places",
)
def _(right: Any) -> Any:
    def messages(self: MemorySubscription, shard: Shard, rows_max: int) -> Any:
        found = right(self, shard, rows_max)
        self._places[shard.number] = shard.serial + 1, 0
        return found

    return messages


@broken(
    "a loss is not told", MemorySubscription, "_loss", "subscribing.a_dropped_generation_is_a_loss"
)
def _(right: Any) -> Any:
    return lambda self, shard: None


@broken(
    "a topic is in every part", MemorySubscription, "_wants", "subscribing.parts_divide_the_topics"
)
def _(right: Any) -> Any:
    def wants(self: MemorySubscription, stored: Stored) -> bool:
        self._part = 0, 1
        return bool(right(self, stored))

    return wants


# Behind iterators.


@broken("what iterators have given comes again", Given, "has", "given.a_tail_gives_the_rest")
def _(right: Any) -> Any:
    return lambda self, shard, stored: False


@broken("what is late counts as given", Given, "has", "given.a_subscription_gives_the_rest")
def _(right: Any) -> Any:
    return lambda self, shard, stored: right(self, shard, stored._replace(serial=0))


@broken("an iterator counts for all topics", Given, "has", "given.what_nobody_has_read_comes_whole")
def _(right: Any) -> Any:
    return lambda self, shard, stored: bool(self._reads.get(shard))


@broken("older generations come again", Given, "_oldest", "given.older_generations_count_as_given")
def _(right: Any) -> Any:
    return lambda self, shard: 0


@broken(
    "a tail is silent about what is gone",
    Given,
    "check_not_lost",
    "given.a_tail_tells_that_something_is_gone",
)
def _(right: Any) -> Any:
    return lambda self, shard, filters: None


@broken(
    "a subscription is silent about what is gone",
    Given,
    "may_lose",
    "given.a_subscription_tells_what_is_lost",
)
def _(right: Any) -> Any:
    return lambda self, shard, drop: False


@broken(
    "iterators of another database are passed over",
    Given,
    "__init__",
    "given.another_database_is_not_found",
)
def _(right: Any) -> Any:
    return lambda self, engine, iterators: right(
        self, engine, [one for one in iterators if one.database == engine.database]
    )


@broken(
    "it takes iterators that it does not understand",
    MemoryEngine,
    "takes_given",
    "basics.refuses_iterators_without_going_behind_them",
)
def _(right: Any) -> Any:
    return False


@pytest.mark.parametrize("what", list(broken))
def test_it_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.check(what, tmp_path, monkeypatch)

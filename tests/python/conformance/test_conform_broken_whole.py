"""The suite catches what is wrong with the shards and the quota of an engine."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faults import Faults

import topicdb
from examples.memory_engine.cursors import MemoryTail
from examples.memory_engine.engine import MemoryEngine
from topicdb.conformance import BrokenPromiseError, Subject, promises
from topicdb.conformance.ours import columnar_in_shards, without_a_shard
from topicdb.engines import BatchScan

broken = Faults()


# Shards.


@broken(
    "a shard is missing that is there",
    MemoryEngine,
    "missing_shards",
    "missing.none_is_missing",
)
def _(right: Any) -> Any:
    return lambda self, filters: {**right(self, filters), 1: "it was lost"}


@broken("a tail does not know its shards", MemoryTail, "shards", "missing.none_is_missing")
def _(right: Any) -> Any:
    return lambda self: right(self)[1:]


# Reads that must see commits.


@broken(
    "a read waits for no commit",
    MemoryEngine,
    "seeing",
    "seeing.what_does_not_come_is_told",
)
def _(right: Any) -> Any:
    return lambda self, serials, timeout_us: self


@broken(
    "a read may wait for a shard that is not there",
    MemoryEngine,
    "seeing",
    "seeing.a_shard_that_is_not_there_is_named",
)
def _(right: Any) -> Any:
    def seeing(self: MemoryEngine, serials: Any, timeout_us: int) -> Any:
        known = {shard: serial for shard, serial in (serials or {}).items() if shard < 2}
        return right(self, known, timeout_us)

    return seeing


@broken(
    "an engine that sees more reads other shards",
    MemoryEngine,
    "seeing",
    "seeing.what_was_committed_is_seen",
)
def _(right: Any) -> Any:
    def seeing(self: MemoryEngine, serials: Any, timeout_us: int) -> Any:
        found = copy.copy(right(self, serials, timeout_us))
        found.scan = lambda *arguments: BatchScan([])
        return found

    return seeing


# The quota.


@broken(
    "a full engine takes more",
    MemoryEngine,
    "check_quota",
    "quota.a_full_engine_takes_nothing_more",
)
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "an append finds that it is full when one shard is stored",
    MemoryEngine,
    "append_rows",
    "quota.a_full_engine_takes_nothing_more",
)
def _(right: Any) -> Any:
    def append(self: MemoryEngine, rows: Iterable[Any], *more: Any) -> Any:
        first, *rest = list(rows)
        quota, self._quota = self._quota, (0, 0.0)
        try:
            right(self, [first], *more)
        finally:
            self._quota = quota
        return right(self, rest, *more)

    return append


@broken("a trial sets the quota", MemoryEngine, "set_quota", "quota.it_is_replaced_at_once")
def _(right: Any) -> Any:
    return lambda self, size, part, dry_run=False: right(self, size, part)


@broken("half a quota resets the rest", MemoryEngine, "set_quota", "quota.it_is_replaced_at_once")
def _(right: Any) -> Any:
    return lambda self, size, part, *dry: right(self, size or 0, part or 0.0, *dry)


@broken("any part of a quota is fine", MemoryEngine, "set_quota", "quota.what_cannot_be_is_refused")
def _(right: Any) -> Any:
    return lambda self, size, part, *dry: right(
        self, size, part if part is not None and 0 <= part <= 1 else None, *dry
    )


@pytest.mark.parametrize("what", list(broken))
def test_it_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.check(what, tmp_path, monkeypatch)


class Wrong:
    """Passes on everything to an engine of TopicDB; the classes below do something else."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class MissesNothing(Wrong):
    def missing_shards(self, filters: Any) -> dict[int, str]:
        return {}


def is_topic(filters: Any) -> bool:
    """Returns whether filters are one topic."""
    return isinstance(filters, str) and not {"+", "#"} & set(filters.split("/"))


class MissesByTheHashOfATopic(Wrong):
    """As if nothing could write a topic to another shard than that of its hash."""

    def missing_shards(self, filters: Any) -> Any:
        missing = self.inner.missing_shards(filters)
        if is_topic(filters):
            needed = topicdb.shard_of(filters, self.inner.schema["shards"])
            return {shard: missing[shard] for shard in missing if shard == needed}
        return missing


class LeavesOutUnasked(Wrong):
    def scan(self, *arguments: Any) -> Any:
        return self.inner.partial().scan(*arguments)


class LeavesOutOfATopic(Wrong):
    """Refuses only the scans of filters with wildcards."""

    def scan(self, filters: Any, *more: Any) -> Any:
        engine = self.inner.partial() if is_topic(filters) else self.inner
        return engine.scan(filters, *more)


class DeletesWhatIsThere(Wrong):
    """Refuses only the deletes of filters with wildcards."""

    def delete(self, filter: str, *more: Any) -> Any:
        if not is_topic(filter):
            return self.inner.delete(filter, *more)
        transaction = self.inner.begin(0, None, None)
        transaction.delete(filter, None, None)
        return transaction.commit()


class NeedsAllAlways(Wrong):
    """Refuses also what names streams that are there."""

    def scan(self, filters: Any, start: Any, end: Any, order: str, streams: Any) -> Any:
        return self.inner.scan(filters, start, end, order, None)


class IsNeverPartial(Wrong):
    def partial(self) -> Any:
        return self


class TakesHalfAnAppend(Wrong):
    def append_rows(self, rows: Iterable[Any], *more: Any) -> Any:
        for row in rows:
            receipt = self.inner.append_rows([row], *more)
        return receipt


class SaysThatNothingGoes(Wrong):
    def set_quota(self, *arguments: Any) -> list[Any]:
        self.inner.set_quota(*arguments)
        return []


WRONG: list[tuple[type[Wrong], str]] = [
    (MissesNothing, "missing.a_lost_one_is_named"),
    (MissesByTheHashOfATopic, "missing.a_lost_one_is_named"),
    (LeavesOutUnasked, "missing.what_needs_it_is_refused"),
    (LeavesOutOfATopic, "missing.what_needs_it_is_refused"),
    (DeletesWhatIsThere, "missing.what_needs_it_is_refused"),
    (NeedsAllAlways, "missing.the_rest_goes_on"),
    (TakesHalfAnAppend, "missing.what_needs_it_is_refused"),
    (IsNeverPartial, "missing.a_partial_read_leaves_it_out"),
    (IsNeverPartial, "missing.partial_reads_go_on_where_they_are"),
    (SaysThatNothingGoes, "quota.it_says_what_goes_for_it"),
]


@pytest.mark.parametrize(("kind", "name"), WRONG)
def test_what_the_example_cannot_do_is_caught(kind: type[Wrong], name: str, tmp_path: Path) -> None:
    @contextmanager
    def whole(path: str) -> Iterator[Any]:
        with columnar_in_shards(path) as engine:
            yield kind(engine)

    @contextmanager
    def without(path: str, shard: int) -> Iterator[Any]:
        with without_a_shard(path, shard) as engine:
            yield kind(engine)

    (promise,) = [one for one in promises() if one.name == name]
    subject = Subject(kind.__name__, whole, open_without=without)
    with pytest.raises((BrokenPromiseError, topicdb.MissingShardError)):
        promise.check(subject, tmp_path)

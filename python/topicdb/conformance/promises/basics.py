"""Every engine: what it says of itself, and what it lacks."""

from __future__ import annotations

from topicdb._core import SchemaError
from topicdb.conformance import expect
from topicdb.conformance.calls import call
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.engines.base import METHODS, stats_of
from topicdb.engines.features import FEATURES, LOG_FEATURES, lacks_of
from topicdb.results import QuotaState

SCHEMA_KEYS = {"shards", "layout", "timestamp_bytes", "structures", "thresholds", "retention"}


@promise()
def has_every_method(lab: Lab) -> None:
    """An engine has every method of the contract, also those of features that it lacks."""
    for name in sorted(METHODS):
        expect.true(callable(getattr(lab.engine, name, None)), f"{name}() is there")


@promise()
def says_what_it_is(lab: Lab) -> None:
    """Path, schema, state and clock of an engine can be asked for without a read."""
    engine = lab.engine
    expect.is_a(engine.path, str, "path")
    expect.true(engine.path, "path is not empty")
    expect.equal(SCHEMA_KEYS - set(engine.schema), set(), "the keys that the schema lacks")
    expect.true(1 <= lab.shards <= 1_024, "schema['shards'] is from 1 to 1,024")
    expect.equal(
        engine.schema["timestamp_bytes"], 8, "schema['timestamp_bytes'] (the suite needs it)"
    )
    expect.equal(engine.closed, False, "closed, of an engine that was just opened")
    expect.true(engine.clock_ahead_us >= 0, "clock_ahead_us is not negative")


@promise()
def lacks_known_features(lab: Lab) -> None:
    """What an engine lacks are features of the contract."""
    expect.equal(lacks_of(lab.engine) - set(FEATURES), frozenset(), "features that are unknown")


@promise()
def says_that_it_lacks_a_method(lab: Lab) -> None:
    """A method of a feature that an engine lacks raises NotImplementedError, changing nothing."""
    lab.append(("a", 1, b"stays"))
    with lab.nothing_changes("calls of what the engine lacks"):
        for feature in sorted(lacks_of(lab.engine)):
            # The layout skipstream itself has no log, which whoever begins to read it is told.
            by_layout = feature in LOG_FEATURES and not lab.keeps_all
            kinds = (NotImplementedError, SchemaError) if by_layout else (NotImplementedError,)
            for method in FEATURES[feature]:
                if by_layout and method not in ("tail", "check_log"):
                    continue  # it tells of what there is in a log
                with expect.raises(kinds, f"{method}(), of the feature {feature!r}"):
                    call(lab.engine, method)


@promise()
def refuses_ids_without_remembering_them(lab: Lab) -> None:
    """An engine that lacks "ids" refuses an append with one, since it would store it twice."""
    if lab.has("ids"):
        return
    with lab.nothing_changes("an append with an id"), expect.raises(NotImplementedError, "an id"):
        lab.engine.append_rows([("a", 1, b"")], None, False, "id")


@promise()
def refuses_iterators_without_going_behind_them(lab: Lab) -> None:
    """An engine that lacks "given" refuses tails and subscriptions with iterators, since it would
    give twice what they have given."""
    if lab.has("given") or not lab.has("streams"):
        return
    lab.append(("a", 1, b""))
    (stream, *_) = lab.engine.streams("a", None, None, None)
    given = [lab.engine.iterator(stream, "a", None, None)]
    if lab.has("log"):
        with expect.raises(NotImplementedError, "a tail behind iterators"):
            lab.engine.tail(None, {}, {}, given)
        lab.engine.tail(None, {}, {}, []).close()
    if lab.has("subscriptions"):
        with expect.raises(NotImplementedError, "a subscription behind iterators"):
            lab.engine.subscribe(None, {}, 0, 10, 1_000, (0, 1), {}, given)
        lab.engine.subscribe(None, {}, 0, 10, 1_000, (0, 1), {}, []).close()


@promise()
def says_its_quota(lab: Lab) -> None:
    """quota() says the quota, in which 0 bytes are none, and how much counts against it."""
    lab.append(("a", 1, b"x"))
    found = lab.engine.quota()
    expect.is_a(found, QuotaState, "quota()")
    expect.true(found.quota_bytes >= 0 and found.disk_bytes >= 0, "no number is negative")
    expect.true(0 <= found.quota_trim <= 1, "quota_trim is a part")


@promise()
def stats_have_all_keys(lab: Lab) -> None:
    """stats() has the keys that are documented, and the last serial of each shard."""
    receipts = [lab.append((lab.topic_in(shard), 1, b"x")) for shard in range(lab.shards)]
    found = lab.engine.stats()
    wanted = stats_of([{"shard": 0, "serial": 0}])
    expect.equal(set(wanted) - set(found), set(), "the keys that stats() lacks")
    expect.equal(
        set(wanted["maintenance"]) - set(found["maintenance"]), set(), "keys of maintenance"
    )
    expect.equal(
        [s["shard"] for s in found["shards"]], list(range(lab.shards)), "the shards of stats()"
    )
    for shard, receipt in zip(found["shards"], receipts, strict=True):
        expect.equal(set(wanted["shards"][0]) - set(shard), set(), "the keys that a shard lacks")
        expect.equal(shard["serial"], receipt.serials[shard["shard"]], "the serial of a shard")
    expect.equal(found["messages"], lab.shards, "how many messages stats() counts")


@promise()
def subscription_stats_have_all_keys(lab: Lab) -> None:
    """subscription_stats() has the keys that are documented, also without subscriptions."""
    found = lab.engine.subscription_stats()
    keys = ("subscriptions", "live_reads", "catch_up_reads", "shared_reads", "page_bytes")
    expect.equal([key for key in keys if key not in found], [], "the keys that it lacks")
    expect.equal(found["subscriptions"], 0, "how many subscriptions are open")


@promise()
def refresh_and_flush_change_nothing(lab: Lab) -> None:
    """refresh() and flush() change nothing that is seen."""
    lab.append(("a", 1, b"1"), ("b", 2, b"2"))
    with lab.nothing_changes("refresh and flush"):
        lab.engine.refresh()
        lab.engine.flush()
        lab.engine.refresh()

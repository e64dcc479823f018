"""A call of each method of the contract, to see what an engine says that lacks it or is closed."""

from __future__ import annotations

import time
from collections.abc import Callable

from topicdb._core import Iterator, ScanIterator, Stream
from topicdb.conformance.expect import NotCheckedError
from topicdb.engine import Engine
from topicdb.engines.values import batch_of
from topicdb.results import RetentionClass

STREAM = Stream(
    database=bytes(16),
    shard=0,
    class_id=0,
    retention_class="#",
    generation=1,
    structure="a",
    id=1,
)
"""A stream of no database."""
SCAN = ScanIterator(database=bytes(16), filters=None, start=0, end=None, shards=[(0, 0, [])])
"""A scan in steps of no database."""

CALLS: dict[str, Callable[[Engine], object]] = {
    "missing_shards": lambda engine: engine.missing_shards("#"),
    "partial": lambda engine: engine.partial().missing_shards("#"),
    "seeing": lambda engine: engine.seeing(None, 0).missing_shards("#"),
    "append_rows": lambda engine: engine.append_rows([("a", 1, b"")], None),
    "append_arrow": lambda engine: engine.append_arrow(batch_of([("a", 1, b"")]), None),
    "find_append": lambda engine: engine.find_append("id"),
    "delete": lambda engine: engine.delete("a", None, None, None),
    "begin": lambda engine: engine.begin(0, None, None),
    "scan": lambda engine: engine.scan("#", None, None, "stream", None).next_batch(1, 1),
    "last": lambda engine: engine.last("#", None, None).next_batch(1, 1),
    "streams": lambda engine: engine.streams("#", None, None, None),
    "iterator": lambda engine: engine.iterator(STREAM, "a", None, None),
    "next": lambda engine: engine.next(Iterator(STREAM, "a", None, None), 1, 1),
    "scan_iterator": lambda engine: engine.scan_iterator("#", None, None),
    "next_of_scan": lambda engine: engine.next_of_scan(SCAN, 1, 1),
    "slices": lambda engine: engine.slices(["#"], None, None, {}, {}, 1 << 20),
    "scan_slices": lambda engine: engine.scan_slices(["#"], []).next_batch(1, 1),
    "summarize": lambda engine: engine.summarize("#", None, None, 0, None, 0),
    "explain": lambda engine: engine.explain("#", None, None),
    "tail": lambda engine: engine.tail(["#"], {}, {}),
    "watch_streams": lambda engine: engine.watch_streams("#", False),
    "subscribe": lambda engine: engine.subscribe(["#"], {}, 0, 10, 1_000),
    "check_log": lambda engine: engine.check_log(["#"], None, 0),
    "places_at": lambda engine: engine.places_at(["#"], 0),
    "measure_log": lambda engine: engine.measure_log(0, ["#"], 0, None, None, 10, 1_000),
    "count_dropped": lambda engine: engine.count_dropped(0, ["#"], 0, (1, 0), 0),
    "subscription_stats": lambda engine: engine.subscription_stats(),
    "retention": lambda engine: engine.retention(),
    "set_retention": lambda engine: engine.set_retention([RetentionClass("#", 0, 0, 0, 0)]),
    "quota": lambda engine: engine.quota(),
    "set_quota": lambda engine: engine.set_quota(None, None, True),
    "rotate": lambda engine: engine.rotate(None),
    "jobs": lambda engine: engine.jobs(),
    "slabs": lambda engine: engine.slabs(),
    "drop_slab": lambda engine: engine.drop_slab(0, "#", 1),
    "expire": lambda engine: engine.expire(None),
    "maintain": lambda engine: engine.maintain(None),
    "trim": lambda engine: engine.trim(0, None, True),
    "snapshot": lambda engine: engine.snapshot(f"conformance-{time.time_ns()}", None, False),
    "usage": lambda engine: engine.usage(),
    "usage_by_structure": lambda engine: engine.usage_by_structure(),
    "stats": lambda engine: engine.stats(),
    "refresh": lambda engine: engine.refresh(),
    "flush": lambda engine: engine.flush(),
}
"""By name, a call of each method but ``close``. A new method of the contract gets a line here."""


def call(engine: Engine, method: str) -> object:
    """Calls a method; raises NotCheckedError if the suite does not know it, being older than it."""
    if method not in CALLS:
        raise NotCheckedError(f"the suite has no call of {method}")
    return CALLS[method](engine)

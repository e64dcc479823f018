"""Arguments of a wrong type give errors in plain words, not those of the extension."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import topicdb
from topicdb import Database, jobs
from topicdb.arguments import wrong_types
from topicdb.lifecycle import planning
from topicdb.queue import files as queue_files

LEAKS = ("incompatible function arguments", "incompatible constructor", "pybind11", "_core.")
WRONG: list[Any] = [None, 5, -1, 2**70, 1.5, True, "text", b"bytes", [], [None], {}, {1: "x"}]
WRONG += [object(), timedelta(1), ("a", 1, b""), lambda: None]


def calls_of(db: Database, tmp_path: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Returns each public call with valid arguments; tests replace one argument at a time."""
    db.append([("a/b", 1, b"x")])
    stream = db.streams()[0]
    iterator = db.iterator(stream)
    slices = db.slices()
    batch = next(db.scan().batches())
    new = str(tmp_path / "new")
    rows = [("a", 1, b"")]
    time = {"start": 0, "end": 5}

    def transaction(method: str, **options: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
        def call(**changed: Any) -> Any:
            with db.transaction(shard=0) as tx:
                found = getattr(tx, method)(**changed)
                return list(found) if method == "scan" else found

        return call, options

    def queue(method: str, /, **options: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
        def call(**changed: Any) -> Any:
            with topicdb.Queue.open(tmp_path / "q") as queue:
                queue.append([b"x"])
                return getattr(queue, method)(**changed)

        return call, options

    def read(function: Callable[..., Any], **options: Any) -> Any:
        return (lambda **changed: list(function(**changed))), options

    return {
        "append": (db.append, {"messages": rows, "key": None, "durability": "os", "id": "x"}),
        "append_async": (
            lambda **options: db.append_async(**options).result(),
            {"messages": rows, "durability": "os", "id": "y"},
        ),
        "find_append": (db.find_append, {"id": "x"}),
        "delete": (db.delete, {"filter": "none", **time, "durability": "os"}),
        "begin": (
            lambda **options: db.transaction(**options).rollback(),
            {"key": "a", "generation": 1, "durability": "os", "commit_timeout": 5},
        ),
        "begin on a shard": (lambda **options: db.transaction(**options).rollback(), {"shard": 0}),
        "map": (
            lambda **options: db.map(takeover=True, **options).close(),
            {"name": "m", "durability": "os"},
        ),
        "scan": read(db.scan, filter="#", **time, order="time", streams=[stream]),
        "last": read(db.last, filter="#", start=0),
        "state_at": read(db.state_at, time=5, filter="#", start=0),
        "streams": (db.streams, {"filter": "#", **time, "generation_min": 1}),
        "iterator": (db.iterator, {"stream": stream, "filter": "#", **time}),
        "next": (db.next, {"iterator": iterator, "rows": 1}),
        "scan_iterator": (db.scan_iterator, {"filter": "#", **time}),
        "next of a scan": (
            db.next,
            {"iterator": db.scan_iterator(), "rows": 1, "on_loss": "report"},
        ),
        "slices": (
            db.slices,
            {"filter": "#", **time, "after": {}, "until": {0: 5}, "bytes_max": 100},
        ),
        "scan_slices": read(db.scan_slices, slices=slices, filter="#"),
        "tail": (
            lambda **options: db.tail(**options).close(),
            {"filter": "#", "after": {0: 0}, "until": {0: 1}, "given": [iterator], "timeout": 0},
        ),
        "watch_streams": (
            lambda **options: db.watch_streams(**options).close(),
            {"filter": "#", "existing": True, "timeout": 0},
        ),
        "explain": (db.explain, {"filter": "#", **time}),
        "summarize": (
            db.summarize,
            {"filter": "#", **time, "topic_levels": 1, "span": "1h", "origin": 0},
        ),
        "structures": (db.structures, {"filter": "#"}),
        "subscribe": (
            lambda **options: db.subscribe(**options).close(),
            {
                "filter": "#",
                "start": "latest",
                "given": iterator,
                "window": 10,
                "window_bytes": 10,
                "timeout": 0,
            },
        ),
        "consumer": (
            lambda **options: db.consumer(takeover=True, **options).close(),
            {"name": "c", "filter": "#", "start": "latest", "window": 10, "window_bytes": 9},
        ),
        "session": (
            lambda **options: db.session(takeover=True, **options).close(),
            {"client_id": "c", "expiry": "1h", "receive_maximum": 5, "durability": "os"},
        ),
        "group": (
            lambda **options: db.group(**options),
            {"name": "g", "filter": "#", "start": "latest", "parts": 2, "member_timeout": 5},
        ),
        "drop_consumer": (db.drop_consumer, {"name": "none"}),
        "drop_group": (db.drop_group, {"name": "none"}),
        "drop_session": (db.drop_session, {"client_id": "none"}),
        "set_quota": (
            db.set_quota,
            {"quota_bytes": None, "quota_trim": "unchanged", "dry_run": True},
        ),
        "set_retention": (db.set_retention, {"retention": {"#": None}, "dry_run": True}),
        "rotate": (db.rotate, {"retention_class": "#"}),
        "drop_slab": (db.drop_slab, {"slab": db.slabs()[0]}),
        "expire": (db.expire, {"now": 5}),
        "maintain": (db.maintain, {"now": 5}),
        "trim": (db.trim, {"older_than": 5, "filter": "#", "dry_run": True}),
        "usage": (db.usage, {"by": "class"}),
        "forecast": (db.forecast, {"now": 5}),
        "snapshot": (db.snapshot, {"path": new, "base": None, "copy": False}),
        "batches": read(db.scan().batches, rows=1, bytes_max=5, serials=False),
        "batch": (batch.__getitem__, {"index": 0}),
        "tx.write": transaction("write", topic="a", timestamp=1, value=b""),
        "tx.delete": transaction("delete", filter="none", **time),
        "tx.get": transaction("get", topic="a", timestamp=1),
        "tx.scan": transaction("scan", filter="#", **time),
        "tx.commit": transaction("commit", timeout=5),
        "tx.require": transaction("require", topic="a/b", timestamp=1, value=b"x"),
        "tx.require_absent": transaction("require_absent", topic="none", timestamp=1),
        "tx.require_present": transaction("require_present", topic="a/b", timestamp=1),
        "queue": (
            lambda **options: topicdb.Queue.open(**options).close(),
            {
                "path": tmp_path / "q2",
                "mode": "disk",
                "format": None,
                "segment_bytes": 1 << 20,
                "overflow": "reject",
                "block_timeout": 1,
                "durability": "os",
                "flush_interval": 1,
                "budget": None,
            },
        ),
        "queue.append": queue("append", items=[b"x"], durability="os"),
        "queue.pop": queue("pop", count=1, bytes=5, rule="at_most", timeout=0),
        "queue.cursor": queue("cursor", name="x"),
        "queue.remove_cursor": queue("remove_cursor", name="x"),
        "queue_files.inspect": (queue_files.inspect, {"path": tmp_path / "q", "deep": True}),
        "queue_files.repair": (queue_files.repair, {"path": tmp_path / "q"}),
        "QueueBudget": (topicdb.QueueBudget, {"total_bytes": 5}),
        "open": (
            lambda **options: topicdb.open(**options).close(),
            {
                "path": tmp_path / "opened",
                "mode": "rw",
                "shards": 1,
                "shard_by": "topic",
                "layout": "columnar",
                "timestamp_bytes": 8,
                "structures": ["a/+"],
                "thresholds": [5],
                "retention": {"#": "1d"},
                "durability": "os",
                "only_shards": [0],
                "on_damage": "skip",
                "cache_bytes": 1 << 20,
                "write_buffer_bytes": 1 << 20,
                "seal_bytes": 1 << 20,
                "learning": "base",
                "streams_max": 100,
                "flush_interval": "1ms",
                "max_pending": 5,
                "quota_bytes": 1 << 30,
                "quota_trim": 0.5,
                "maintenance_interval": "1s",
                "directory_mode": 0o700,
            },
        ),
        "over": (topicdb.Database.over, {"engine": db.engine}),
        "Stream": (
            topicdb.Stream,
            {
                "database": bytes(16),
                "shard": 0,
                "class_id": 0,
                "retention_class": "#",
                "generation": 1,
                "structure": "a",
                "id": 1,
            },
        ),
        "Iterator": (topicdb.Iterator, {"stream": stream, "filter": "#", **time, "seen": 1}),
        "Iterator.after": (iterator.after, {"timestamp": 1, "serial": 1, "row": 0}),
        "Iterator.with_seen": (iterator.with_seen, {"seen": 1, "exhausted": False}),
        "ScanIterator": (
            topicdb.ScanIterator,
            {
                "database": bytes(16),
                "filters": ["#"],
                **time,
                "shards": [(0, 1, [(0, 1, 1, 0)])],
                "in_shard": 0,
                "counted": 0,
                "place": (0, 0, 1, 1, 0),
            },
        ),
        "Slab": (
            topicdb.Slab,
            {
                "shard": 0,
                "class_id": 0,
                "retention_class": "#",
                "generation": 1,
                "layout": "columnar",
                "read_only": False,
                "created_at": 1,
            },
        ),
        "verify": (topicdb.verify, {"path": db.path, "deep": False, "progress": None}),
        "repair": (
            topicdb.repair,
            {"path": tmp_path / "none", "progress": None, "replace_missing": False},
        ),
        "restore": (
            topicdb.restore,
            {"snapshot": tmp_path / "none", "path": new, "replace": False, "base": None},
        ),
        "shard_of": (topicdb.shard_of, {"topic": "a", "shards": 1}),
        "shard_of_key": (topicdb.shard_of_key, {"key": "a", "shards": 1}),
        "topic_matches": (topicdb.topic_matches, {"filter": "#", "topic": "a"}),
        "jobs.applied": (jobs.applied, {"database": db}),
        "jobs.commit": (jobs.commit, {"path": db.path, "job": "j", "staged": []}),
        "planning.plan": (planning.plan, {"bytes_per_day": 5, "age": "1d", "rotate": "1h"}),
        "planning.size_bytes": (planning.size_bytes, {"size": "5B"}),
        "Iterator.from_bytes": (lambda data: topicdb.Iterator.from_bytes(data), {"data": b"x"}),
        "ScanIterator.from_bytes": (
            lambda data: topicdb.ScanIterator.from_bytes(data),
            {"data": b"x"},
        ),
        "Stream.from_bytes": (lambda data: topicdb.Stream.from_bytes(data), {"data": b"x"}),
        "Retention": (
            lambda **options: db.set_retention({"#": topicdb.Retention(**options)}, dry_run=True),
            {"age": "1d", "bytes": 5, "rotate": "1h", "keep_last": 1},
        ),
    }


def attempts(calls: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, (call, options) in calls.items():
        for option in options:
            for wrong in WRONG:
                changed = {**options, option: wrong}
                if name in ("batch", "QueueBudget", "shard_of", "shard_of_key", "topic_matches"):
                    values = list(changed.values())
                    yield f"{name}({option}={wrong!r})", partial(call, *values)
                else:
                    yield f"{name}({option}={wrong!r})", partial(call, **changed)


def test_no_signature_of_the_extension_is_shown(
    db_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "text" may be taken as a path
    leaked = []
    refused = 0
    with topicdb.open(db_path, maintenance_interval=None) as db:
        for what, call in attempts(calls_of(db, tmp_path)):
            try:
                call()
            except Exception as error:
                refused += 1
                text = str(error)
                if any(leak in text for leak in LEAKS):
                    leaked.append(f"{what}: {text[:200]}")
    assert leaked == []
    assert refused > 500


untyped: Any = topicdb  # for calls with wrong arguments
PLAIN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "append": (lambda db: db.append(None), "messages: expected an iterable, got NoneType"),
    "append a number": (lambda db: db.append(5), "messages: expected an iterable, got int"),
    "append_async": (lambda db: db.append_async(None), "messages: expected an iterable, got None"),
    "durability": (
        lambda db: db.append([("a", 1, b"")], durability=5),
        "durability: expected str or None, got int",
    ),
    "delete": (lambda db: db.delete(None), "filter: expected one topic filter (str), got NoneType"),
    "next": (lambda db: db.next("x"), "iterator: expected Iterator or ScanIterator, got str"),
    "iterator": (lambda db: db.iterator("x"), "stream: expected Stream, got str"),
    "rows": (lambda db: list(db.scan().batches("x")), "rows: expected int, got str"),
    "streams": (
        lambda db: list(db.scan(streams=["x"])),
        "streams: expected a sequence of Stream or None, got list of str",
    ),
    "rotate": (lambda db: db.rotate(5), "retention_class: expected str or None, got int"),
    "shards": (lambda db: untyped.shard_of("a", "b"), "shards: expected int, got str"),
    "topic": (lambda db: untyped.topic_matches("#", 5), "topic: expected str, got int"),
    "bytes": (lambda db: untyped.Iterator.from_bytes("x"), "data: expected bytes, got str"),
    "path": (lambda db: untyped.open(5), "path: expected str or a path, got int"),
    "retention": (
        lambda db: db.set_retention(["#"]),
        "retention: expected a mapping of topic filters to ages or Retention, got list",
    ),
    "map": (lambda db: db.map(5), "name: expected str, got int"),
    "consumer": (lambda db: db.consumer(b"c"), "name: expected str, got bytes"),
    "group": (lambda db: db.group(None), "name: expected str, got NoneType"),
    "session": (lambda db: db.session(5), "name: expected str, got int"),
    "drop_consumer": (lambda db: db.drop_consumer(5), "name: expected str, got int"),
    "drop_slab": (lambda db: db.drop_slab("#"), "slab: expected Slab, got str"),
    "budget": (lambda db: untyped.QueueBudget("x"), "total_bytes: expected int, got str"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_words(db: Database, name: str) -> None:
    call, says = PLAIN[name]
    with pytest.raises(TypeError) as error:
        call(db)
    assert says in str(error.value)


def test_what_a_signature_tells() -> None:
    doc = (
        "f(self: topicdb._core.X, a: str, *, b: typing.SupportsInt | typing.SupportsIndex | None, "
        "c: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex] = {}, "
        "d: typing.SupportsInt | typing.SupportsIndex = 5) -> dict[str, int]\\n\\nMore."
    )
    explain = wrong_types.explanation
    assert explain(doc, ["self", 5], {}) == "a: expected str, got int"
    assert explain(doc, ["self", "x"], {"b": "y"}) == "b: expected int or None, got str"
    assert explain(doc, ["self", "x"], {"c": {"k": None}}) == (
        "c: expected a mapping of str to int, got dict"
    )
    assert explain(doc, ["self", "x"], {"b": 2**70}).startswith(
        "b: expected int or None, got int 1"
    )
    assert explain(doc, ["self", "x"], {"b": -1}) == "b: -1 is out of range"
    assert "what is not given: b, c, d" in explain(doc, ["self", "x"], {})


def test_every_public_method_of_a_database_is_tried(db_path: Path, tmp_path: Path) -> None:
    """A new method fails this test until it is tried or listed here."""
    others = {"append_await", "transaction", "transact", "close", "flush", "refresh", "stats"}
    others |= {"slabs", "sessions", "expire_sessions", "groups", "consumers", "verify"}
    others |= {"export_parquet", "import_parquet", "standings"}
    with topicdb.open(db_path, maintenance_interval=None) as db:
        tried = set(calls_of(db, tmp_path))
    public = {
        name
        for name, _ in inspect.getmembers(Database, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public - tried - others == set()

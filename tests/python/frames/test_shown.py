"""What notebooks and the prompt show: helpful, safe in HTML, and never an error."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import serving
from strategies import payload, topic

import topicdb
from topicdb import replay
from topicdb.frames.shown import LINES_MAX, ROWS_MAX, Listing
from topicdb.frames.text import TEXT_MAX, cut, size_text, time_text, value_text
from topicdb.replay import Envelope

SCRIPT = "<script>alert('x')</script>"
LATE = 2**63 - 1


class Cells(HTMLParser):
    """The text of a table's cells, row by row, and the tags that there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def html(found: Any) -> str:
    text: str = found._repr_html_()
    return text


def shown(found: Any) -> list[list[str]]:
    cells = Cells(html(found))
    assert cells.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    return cells.rows


def test_a_scan_shows_its_first_messages(db: topicdb.Database) -> None:
    db.append([("a", us, b"%d" % us) for us in range(20)])
    scan = db.scan("a", start=5, order="time")
    wanted = "<topicdb.Scan scan('a', start='1970-01-01T00:00:00.000005Z', order='time')>"
    assert repr(scan) == wanted
    header, *rows = shown(scan)
    assert header == ["topic", "timestamp (UTC)", "value"] and len(rows) == ROWS_MAX
    assert rows[0] == ["a", "1970-01-01T00:00:00.000005Z", "5"]
    assert "and more" in scan._repr_html_()
    assert "7 in all" in db.scan(start=5, end=12)._repr_html_()
    assert scan.count() == 15
    assert shown(db.scan("nobody")) == [header]


def test_reprs_name_what_was_asked(db: topicdb.Database) -> None:
    assert repr(db.scan(["a/#", "b"], partial=True)) == (
        "<topicdb.Scan scan(['a/#', 'b'], partial=True)>"
    )
    assert repr(db.scan(None, properties=True, end=0)) == (
        "<topicdb.Scan scan(None, end='1970-01-01T00:00:00Z', properties=True)>"
    )
    assert repr(db.last("a", raw=True)) == "<topicdb.Scan last('a', form='stored')>"
    assert repr(db.state_at(1, "a")) == (
        "<topicdb.Scan state_at('a', time='1970-01-01T00:00:00.000001Z')>"
    )
    with db.transaction() as transaction:
        assert repr(transaction.scan("a", start=0)) == (
            "<topicdb.Scan scan('a', start='1970-01-01T00:00:00Z')>"
        )
        transaction.rollback()


def test_batches_show_values_as_text_or_bytes(db: topicdb.Database) -> None:
    db.append([("a/" + SCRIPT, 1, SCRIPT.encode()), ("b", 2, b"\x00\xff"), ("c", LATE, b"x" * 999)])
    batch = db.scan(order="time").head()
    _, first, second, third = shown(batch)
    assert first == ["a/" + SCRIPT, "1970-01-01T00:00:00.000001Z", SCRIPT]
    assert second[2] == r"b'\x00\xff' (2 bytes)"
    assert third[1] == f"{LATE} µs" and third[2] == "x" * (TEXT_MAX - 1) + "…"
    assert "<script" not in html(batch)
    assert repr(batch).startswith("<topicdb.Batch of 3 messages, the first: a/<script>")
    assert repr(db.scan("b").head()) == (
        r"<topicdb.Batch of 1 message: b 1970-01-01T00:00:00.000002Z b'\x00\xff' (2 bytes)>"
    )
    assert repr(db.scan("nobody").head()) == "<topicdb.Batch of 0 messages>"


def test_properties_are_shown(db: topicdb.Database) -> None:
    sent = Envelope(b"1", qos=2, content_type=SCRIPT, received=5)
    db.append([("a", 1, sent.encode())], raw=True)
    header, row = shown(db.scan(properties=True))
    assert header[3] == "properties"
    assert "qos=2" in row[3] and SCRIPT in row[3].replace('"', "")
    assert "received=1970-01-01T00:00:00.000005Z" in row[3]


def test_a_database_shows_its_size(sharded_db: topicdb.Database) -> None:
    sharded_db.append([("a", 1, b"1234")])
    layout = sharded_db.schema["layout"]
    assert repr(sharded_db) == f"<topicdb.Database {sharded_db.path!r}, 3 shards, {layout}>"
    facts = dict(shown(sharded_db))
    assert facts["messages"] == "1" and facts["topics and values"] == "5 B"
    assert re.fullmatch(r"[\d.]+ (B|KiB)", facts["on disk"]) and facts["missing shards"] == ""


def test_a_closed_database_is_shown(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        scan = db.scan("a")
    assert repr(db) == f"<topicdb.Database {str(db_path)!r} closed>" and shown(db) == []
    assert "ClosedError" in scan._repr_html_() and "scan(&#x27;a&#x27;)" in scan._repr_html_()


def test_a_database_of_a_server_is_shown_without_asking_it(db_path: Path) -> None:
    with topicdb.open(db_path) as local, serving(local) as server:
        local.append([("a", 1, b"1")])
        with topicdb.connect(server.url) as db:
            assert repr(db) == f"<topicdb.Database {server.url!r}, at a server>" and shown(db) == []
            scan = db.scan("a")
            assert shown(scan)[1][2] == "1"
            server.close()
            assert repr(db).endswith("at a server>") and shown(db) == []
            assert "Error" in scan._repr_html_()


def test_results_are_lists_that_show_as_tables(db: topicdb.Database) -> None:
    db.append([(f"a/{SCRIPT}/{number}", 7, b"1") for number in range(3)])
    slabs, usage, streams = db.slabs(), db.usage(), db.streams()
    for found in (slabs, usage, streams):
        assert isinstance(found, list) and found == list(found)
        assert type(pickle.loads(pickle.dumps(found))) is Listing
    header, row = shown(slabs)
    facts = dict(zip(header, row, strict=True))
    assert facts["messages"] == "3" and facts["bytes"].endswith(" B") and facts["sealed_at"] == ""
    assert facts["first_timestamp"] == "1970-01-01T00:00:00.000007Z"
    assert dict(zip(*shown(usage), strict=True))["retention_class"] == "#"
    assert len(shown(streams)) == 1 + len(streams) and "<script" not in html(streams)
    assert dict(shown(slabs[0]))["layout"] == slabs[0].layout
    assert dict(shown(streams[0]))["structure"] == streams[0].structure
    structures = db.structures()
    assert isinstance(structures, dict) and shown(structures)[1][1:] == ["1", "0", "1"]
    assert shown(Listing([])) == [] and "nothing" in Listing([])._repr_html_()


def test_long_results_are_cut() -> None:
    listing = Listing(
        [topicdb.Receipt({0: number}, number, "os") for number in range(LINES_MAX + 5)]
    )
    assert len(shown(listing)) == 1 + LINES_MAX and "… and 5 more" in listing._repr_html_()


HANDLES: dict[str, Callable[[topicdb.Database], Any]] = {
    "tail": lambda db: db.tail(timeout=0),
    "subscription": lambda db: db.subscribe(["a/#", SCRIPT], start="earliest"),
    "consumer": lambda db: db.consumer("c", "a/#"),
    "session": lambda db: db.session("device"),
    "group": lambda db: db.group("workers", "a/#"),
    "watch": lambda db: db.watch_streams("#", timeout=0),
    "replay log": lambda db: replay.open(db, "audit"),
}


@pytest.fixture
def plain(db_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(db_path) as db:
        db.append([("a/b", 1, b"1")])
        yield db


@pytest.mark.parametrize("name", HANDLES)
def test_handles_are_shown_open_and_closed(plain: topicdb.Database, name: str) -> None:
    with HANDLES[name](plain) as handle:
        assert repr(handle).startswith("<topicdb.") and "<script" not in handle._repr_html_()
        shown(handle)
    assert repr(handle).startswith("<topicdb.")
    shown(handle)
    plain.close()
    assert repr(handle).startswith("<topicdb.")
    shown(handle)


def test_handles_tell_how_they_stand(plain: topicdb.Database) -> None:
    with plain.consumer("c", "a/#") as consumer:
        facts = dict(shown(consumer))
        assert facts["filters"] == "a/#" and facts["unacknowledged"] == "0"
    with plain.subscribe("a/#") as subscription:
        assert repr(subscription) == "<topicdb.Subscription of a/#>"
        assert "state" in dict(shown(subscription))
    assert repr(subscription) == "<topicdb.Subscription of a/# (closed)>"
    with plain.group("g", ["a/#", "b"]) as group:
        assert dict(shown(group))["filters"] == "a/#, b"
    with plain.tail(timeout=0) as tail:
        assert list(tail) and repr(tail) == f"<topicdb.Tail behind commits {tail.serials}>"


def test_a_replay_log_shows_its_endpoints(plain: topicdb.Database) -> None:
    with replay.open(plain, "audit") as log:
        endpoint = log.queue("work", "a/#")
        assert repr(endpoint) == "<topicdb.replay.Endpoint 'work', queue: n/a>"
        assert dict(shown(endpoint))["subscriptions"] == "a/#"
        assert dict(shown(log))["endpoint work"].startswith("kind queue, state n/a, messages ")


class Broken(topicdb.Database):
    """A database that raises whatever it is asked."""

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "<broken>"

    @property
    def closed(self) -> bool:
        raise RuntimeError(SCRIPT)


def test_errors_are_shown_instead_of_raised() -> None:
    page = html(Broken())
    assert "&lt;broken&gt;" in page and "RuntimeError" in page and "<script" not in page


@given(st.binary(max_size=400), st.integers(2, 90))
def test_any_value_becomes_one_line(value: bytes, length: int) -> None:
    text = value_text(value, length)
    assert text.isprintable()
    assert len(text) <= length + len(f" ({len(value):,} bytes)")


@given(st.lists(st.tuples(topic, st.integers(0, LATE), payload), min_size=1, max_size=3))
def test_any_messages_are_shown(rows: list[tuple[str, int, bytes]]) -> None:
    batch = topicdb._core.batch_of_rows(rows).read_as("payload")
    assert len(shown(batch)) == 1 + len(rows) and "\n" not in repr(batch)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (cut("x" * 80), "x" * 80),
        (cut("x" * 81), "x" * 79 + "…"),
        (cut("a\x1b[31m\n\u202eb"), r"a\x1b[31m\n\u202eb"),
        (cut("Grüße, 世界"), "Grüße, 世界"),
        (value_text("é".encode() * 200, 10), "é" * 9 + "…"),
        (value_text("é".encode()[:1]), r"b'\xc3' (1 byte)"),
        (value_text(b"x" * 5_000 + b"\xff", 10), "x" * 9 + "…"),
        (value_text(b""), ""),
        (time_text(None), ""),
        (time_text(1_769_868_120_000_000), "2026-01-31T14:02:00Z"),
        (time_text(-1), "1969-12-31T23:59:59.999999Z"),
        (size_text(0), "0 B"),
        (size_text(1_536), "1.5 KiB"),
        (size_text(5 << 50), "5120.0 TiB"),
    ],
)
def test_texts(found: str, wanted: str) -> None:
    assert found == wanted

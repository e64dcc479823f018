"""Slices over a server: its extent, chosen columns, and slices that a client has forged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import serving

import topicdb
from topicdb.remote.client.connection import Connection
from topicdb.remote.server import tokens
from topicdb.types import Slice

ROWS, BYTES = 1_000, 1 << 20
NUMBER_MAX = (1 << 63) - 1


class Served(NamedTuple):
    """A database and a client of its server that may read ``a/#`` only."""

    database: topicdb.Database
    client: Any


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Three shards, two classes, several generations, a part of the blocks sealed."""
    folder = tmp_path_factory.mktemp("served")
    path = folder / "tokens.json"
    token = tokens.add(path, {"name": "reader", "read": ["a/#"]})
    with topicdb.open(folder / "db", shards=3, retention={"b/#": None, "#": None}) as database:
        for generation in range(3):
            for topic in ("a", "b", "$own"):
                time = 100 * generation
                rows = [(f"{topic}/{i}", time + i, f"{topic} {i}".encode()) for i in range(50)]
                database.append(rows)
            if generation < 2:
                database.flush()
                database.rotate()
        with (
            serving(database, tokens=path) as server,
            topicdb.connect(server.url, token=token) as client,
        ):
            yield Served(database, client)


def test_the_extent_says_how_far_the_database_reaches(served: Served) -> None:
    extent = served.client._extent(["a/#"])
    local = served.database._extent(["a/#"])
    assert len(extent.database) == 32 and int(extent.database, 16) > 0
    assert extent == dataclasses.replace(local, database=extent.database)
    assert extent.serials == {
        shard["shard"]: shard["serial"] for shard in served.database.stats()["shards"]
    }
    slabs = served.database.slabs()
    assert extent.slabs == [(one.shard, one.retention_class, one.generation) for one in slabs]
    assert set(extent.current) < set(extent.slabs)


def test_another_database_has_another_id(served: Served, tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "other") as database,
        serving(database) as server,
        topicdb.connect(server.url) as other,
    ):
        first, second = other._extent(None), served.client._extent(["a/#"])
        assert first.database != second.database


@pytest.mark.parametrize(
    "columns", [["topic"], ["value", "topic"], ["timestamp"], ["topic", "timestamp", "value"]]
)
def test_the_server_sends_only_the_columns_that_were_chosen(
    served: Served, columns: list[str]
) -> None:
    core = served.client._core
    slices = served.client.slices("a/#")
    whole = core.scan_slices(["a/#"], slices).next_arrow(ROWS, BYTES)
    chosen = core.scan_slices(["a/#"], slices, columns).next_arrow(ROWS, BYTES)
    assert chosen.schema.names == columns
    assert chosen.to_pydict() == whole.select(columns).to_pydict()
    table = pa.table(_Stream(core.scan_slices(["a/#"], slices, columns)))
    assert table.to_pydict() == chosen.to_pydict()


class _Stream:
    """The Arrow C stream of a scan."""

    def __init__(self, scan: Any) -> None:
        self._scan = scan

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._scan.arrow_stream(ROWS, BYTES)


def test_a_batch_has_nothing_in_columns_that_were_not_chosen(served: Served) -> None:
    core = served.client._core
    slices = served.client.slices("a/#")
    whole = core.scan_slices(["a/#"], slices).next_batch(ROWS, BYTES, True)
    for columns in (["topic"], ["timestamp"], ["value"]):
        batch = core.scan_slices(["a/#"], slices, columns).next_batch(ROWS, BYTES, True)
        assert batch.serials.tolist() == whole.serials.tolist()
        assert [
            (
                message.topic if "topic" in columns else "",
                message.timestamp if "timestamp" in columns else 0,
                message.value if "value" in columns else b"",
            )
            for message in whole
        ] == [tuple(message) for message in batch]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([], "at least one"),
        (["topic", "topic"], "each once"),
        (["serial"], "'serial'"),
        (["topic", 5], "names of topic, timestamp, value"),
        ("topic", "expected a list"),
        (5, "expected a list"),
    ],
)
def test_columns_that_messages_do_not_have_are_named(
    served: Served, columns: Any, said: str
) -> None:
    slices = served.client.slices("a/#")
    connection = served.client._connection
    with pytest.raises(ValueError, match=f"columns: .*{said}"), connection.told():
        connection.read("scan_slices", ["a/#"], slices, columns, 9, 9, False).read_chunk()


_serials = st.sampled_from([-1, 0, 1, 2, 5, NUMBER_MAX, 1 << 63, 1 << 64])
_times = st.none() | st.sampled_from([-1, 0, 50, 1_000, NUMBER_MAX, 1 << 63])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "shard": st.sampled_from([-1, 0, 1, 2, 3, 1 << 32]),
        "retention_class": st.sampled_from(["#", "b/#", "a/#", "", "none", "$own/#", "a/#/b"]),
        "generation": st.sampled_from([-1, 0, 1, 2, 3, 4, 1 << 32]),
        "after": _serials,
        "until": _serials,
        "start": _times,
        "end": _times,
        "messages": _serials,
        "bytes": _serials,
        "layout": st.sampled_from(["columnar", "skipstream", "other"]),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1_000), CHANGES), min_size=1, max_size=3))
def test_forged_slices_give_no_message_beyond_the_token(
    served: Served, changes: list[tuple[int, dict[str, Any]]]
) -> None:
    slices = served.database.slices(None)
    forged = [slices[number % len(slices)]._replace(**change) for number, change in changes]
    found: list[topicdb.Message] = []
    with suppress(ValueError, TypeError, topicdb.NotFoundError, topicdb.SchemaError):
        found = served.client.scan_slices(forged, "a/#").to_list()
    assert all(message.topic.startswith("a/") for message in found)


def test_slices_of_every_topic_give_only_what_the_token_may_read(served: Served) -> None:
    slices = served.database.slices(None)
    assert sum(one.messages for one in slices) == 450
    wide = [one._replace(after=0, start=None, end=None) for one in slices]
    for given_slices in (slices, wide):
        found = served.client.scan_slices(given_slices, "a/#").to_list()
        assert sorted(found) == sorted(served.database.scan("a/#"))
        for filter in ("#", "b/#", "+/1", "$own/#", None, ["a/#", "b/1"]):
            with pytest.raises(topicdb.AccessError, match="'a/#'"):
                served.client.scan_slices(given_slices, filter).to_list()


@pytest.mark.parametrize(
    "slices",
    [
        None,
        5,
        "0",
        {},
        [None],
        [[]],
        [(0, "#", 1, 0, 1, None, None, 1, 1, "columnar")],
        [Slice("0", "#", 1, 0, 1, None, None, 1, 1)],  # type: ignore[arg-type]
        [Slice(0, 0, 1, 0, 1, None, None, 1, 1)],  # type: ignore[arg-type]
        [Slice(0, "#", 1.5, 0, 1, None, None, 1, 1)],  # type: ignore[arg-type]
        [Slice(0, "#", None, 0, 1, None, None, 1, 1)],  # type: ignore[arg-type]
        [Slice(0, "#", 1, 0, 1, "now", None, 1, 1)],  # type: ignore[arg-type]
    ],
)
def test_what_are_no_slices_is_a_named_error(served: Served, slices: Any) -> None:
    connection: Connection = served.client._connection
    with pytest.raises((ValueError, TypeError)), connection.told():
        connection.read("scan_slices", ["a/#"], slices, ROWS, BYTES, False).read_chunk()
    assert served.client.scan("a/#").count() == 150, "the server goes on"


def test_versions_that_differ_are_named(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    url = served.client.path
    token = served.client._connection._token
    monkeypatch.setattr("topicdb.remote.client.connection.PROTOCOL", 3)
    with pytest.raises(topicdb.UnavailableError, match="speaks protocol 4, this is 3"):
        topicdb.connect(url, token=token)

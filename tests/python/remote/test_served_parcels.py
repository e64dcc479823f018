"""Slices over a server as parcels: messages as they are stored, and no others than the token's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import serving

import topicdb
from topicdb import _core
from topicdb.remote.client.connection import Connection
from topicdb.remote.server import tokens
from topicdb.types import Slice

BYTES = 1 << 20
ROWS = 450
NUMBER_MAX = (1 << 63) - 1


class Served(NamedTuple):
    """A database, and connections to its server: for ``a/#`` only, and for everything."""

    database: topicdb.Database
    some: Connection
    everything: Connection


@pytest.fixture(scope="module", params=["columnar", "skipstream"])
def served(tmp_path_factory: pytest.TempPathFactory, request: Any) -> Iterator[Served]:
    """Three shards, two classes, several generations; sealed, fresh and deleted messages."""
    folder = tmp_path_factory.mktemp("served")
    path = folder / "tokens.json"
    some = tokens.add(path, {"name": "reader", "read": ["a/#"]})
    everything = tokens.add(path, {"name": "all", "everything": True})
    with topicdb.open(
        folder / "db", shards=3, layout=request.param, retention={"b/#": None, "#": None}
    ) as database:
        for generation in range(3):
            for topic in ("a", "b", "$own"):
                time = 100 * generation
                database.append(
                    [(f"{topic}/{i}", time + i, f"{topic} {i}".encode()) for i in range(50)]
                )
            if generation < 2:
                database.flush()
                database.rotate()
        database.append([(f"a/{i}", 500 + i, b"to be deleted") for i in range(20)])
        database.delete("a/#", start=500, end=600)
        with (
            serving(database, tokens=path) as server,
            topicdb.connect(server.url, token=some) as one,
            topicdb.connect(server.url, token=everything) as other,
        ):
            clients: tuple[Any, Any] = one, other
            yield Served(database, *(client._connection for client in clients))


def read(
    connection: Connection, filters: Any, slices: Any, *, values: Any = True, size: Any = BYTES
) -> list[tuple[str, int, bytes]]:
    """Returns the messages of parcels."""
    found: list[tuple[str, int, bytes]] = []
    with connection.told():
        stream = connection.read("scan_parcels", filters, slices, values, size)
        while True:
            try:
                arrow: pa.RecordBatch = stream.read_chunk().data
            except StopIteration:
                return found
            assert arrow.schema.names == ["parcel", "messages"] and arrow.num_rows == 1
            batches = _core.Parcel.unpack(arrow["parcel"][0].as_py(), values)
            assert sum(map(len, batches)) == arrow["messages"][0].as_py() > 0
            found += [(m.topic, m.timestamp, m.value) for batch in batches for m in batch]


def test_parcels_have_the_messages_of_the_slices(served: Served) -> None:
    database = served.database
    slices = database.slices(None)
    expected = sorted(map(tuple, database.scan_slices(slices, None)))
    assert len(expected) == ROWS
    for size in (BYTES, 1):
        assert sorted(read(served.everything, None, slices, size=size)) == expected
        keys = [(topic, time, b"") for topic, time, _ in expected]
        assert sorted(read(served.everything, None, slices, values=False, size=size)) == keys
    for filter in ("#", "a/+", "b/7", "absent"):
        slices = database.slices(filter)
        assert sorted(read(served.everything, [filter], slices)) == sorted(
            map(tuple, database.scan(filter))
        )
    slices = database.slices("a/#", start=20, end=130)
    assert sorted(read(served.some, ["a/#"], slices)) == sorted(
        map(tuple, database.scan("a/#", start=20, end=130))
    )


_numbers = st.sampled_from([-1, 0, 1, 2, 5, NUMBER_MAX, 1 << 63, 1 << 64])
_times = st.none() | st.sampled_from([-1, 0, 50, 1_000, NUMBER_MAX, 1 << 63])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "shard": st.sampled_from([-1, 0, 1, 2, 3, 1 << 32]),
        "retention_class": st.sampled_from(["#", "b/#", "", "none", "$own/#"]),
        "generation": st.sampled_from([-1, 0, 1, 2, 3, 4, 1 << 32]),
        "after": _numbers,
        "until": _numbers,
        "start": _times,
        "end": _times,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1_000), CHANGES), min_size=1, max_size=3))
def test_forged_slices_give_no_message_beyond_the_token(
    served: Served, changes: list[tuple[int, dict[str, Any]]]
) -> None:
    slices = served.database.slices(None)
    forged = [slices[number % len(slices)]._replace(**change) for number, change in changes]
    found: list[tuple[str, int, bytes]] = []
    with suppress(ValueError, TypeError, topicdb.NotFoundError, topicdb.SchemaError):
        found = read(served.some, ["a/#"], forged)
    assert all(topic.startswith("a/") and value != b"to be deleted" for topic, _, value in found)


def test_a_token_gets_only_what_it_may_read(served: Served) -> None:
    slices = served.database.slices(None)
    found = read(served.some, ["a/#"], slices)
    assert sorted(found) == sorted(map(tuple, served.database.scan("a/#")))
    for filters in (None, ["#"], ["b/#"], ["+/1"], ["a/#", "b/1"]):
        with pytest.raises(topicdb.AccessError, match="'a/#'"):
            read(served.some, filters, slices)


@pytest.mark.parametrize(
    "args",
    [
        (),
        (["a/#"],),
        (["a/#"], None, True, BYTES),
        (["a/#"], [(0, "#")], True, BYTES),
        (["a/#"], [Slice(0, "#", 1.5, 0, 1, None, None, 1, 1)], True, BYTES),  # type: ignore[arg-type]
        (["a/#"], [], True, 0),
        (["a/#"], [], True, "much"),
        (["a/#"], [], True, BYTES, True),
    ],
)
def test_malformed_calls_are_named_errors(served: Served, args: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError)), served.some.told():
        served.some.read("scan_parcels", *args).read_chunk()
    assert read(served.some, ["a/1"], served.database.slices("a/1")), "the server goes on"


def test_the_server_lists_the_versions_that_it_sends(served: Served) -> None:
    with served.some.told():
        assert served.some.call("hello")["parcels"] == [1]


def test_damaged_parcels_are_refused(served: Served) -> None:
    slices = served.database.slices("a/#")
    with served.some.told():
        stream = served.some.read("scan_parcels", ["a/#"], slices, True, BYTES)
        whole = stream.read_chunk().data["parcel"][0].as_py()
    for at in range(0, len(whole), max(1, len(whole) // 50)):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with suppress(topicdb.CorruptionError):
            assert _core.Parcel.unpack(damaged, True), "only zeros between records may change"
        with pytest.raises(topicdb.CorruptionError):
            _core.Parcel.unpack(whole[:at], True)

"""Values travel unchanged between a client and a server; malformed data is refused."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topicdb
from topicdb.remote import errors, wire

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_sent_arrives(value: Any) -> None:
    assert wire.decode(wire.encode(value)) == value


def test_values_of_topicdb_arrive(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("a/b", 1, b"x"), ("a/c", 2, b"")])
        streams = db.streams("a/#")
        iterators = [db.iterator(streams[0]), db.scan_iterator(["a/b", "a/c"])]
        values = [streams[0], *iterators, db.slabs()[0], db.slices()[0]]
        assert wire.decode(wire.encode(values)) == values
        batch = next(db.scan("a/#").batches(serials=True))
        plain = next(db.scan("a/#").batches())
    arrived = wire.decode(wire.encode([batch, plain]), trusted=True)
    assert [one.to_list() for one in arrived] == [batch.to_list(), plain.to_list()]
    assert arrived[0].serials.tolist() == [1, 1] and arrived[1].serials is None
    rows = np.array([1, 2, 2**32 - 1], dtype=np.uint32)
    assert wire.decode(wire.encode(rows)).tolist() == rows.tolist()


def test_a_client_cannot_send_batches() -> None:
    data = wire.encode(topicdb._core.empty_batch())
    with pytest.raises(ValueError, match="do not go this way"):
        wire.decode(data)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="does not travel"):
        wire.encode([value])


def framed(plain: Any, body: bytes = b"") -> bytes:
    text = json.dumps(plain).encode()
    return struct.pack("<I", len(text)) + text + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        struct.pack("<I", 100) + b"1",
        struct.pack("<I", 1) + b"{",
        framed({}),
        framed({"bytes": [0, 0], "tuple": []}),
        framed({"other": 1}),
        framed({"bytes": [0, 5]}, b"1234"),
        framed({"bytes": [-1, 2]}, b"1234"),
        framed({"bytes": [0, -1]}, b"1234"),
        framed({"bytes": "ab"}, b"1234"),
        framed({"bytes": [0.5, 1]}, b"1234"),
        framed({"dict": [[1]]}),
        framed({"dict": [[[], 1]]}),
        framed({"dict": 5}),
        framed({"stream": [0, 4]}, b"1234"),
        framed({"iterator": [0, 4]}, b"1234"),
        framed({"scan_iterator": [0, 4]}, b"1234"),
        framed({"slab": [1]}),
        framed({"slab": [0, 0, 1, "#", 9, True, 0, None, 0, 0, 0, None, None, 0]}),
        framed({"slice": [1]}),
        framed({"rows": [0, 3]}, b"1234"),
        framed("x").replace(b"x", b"\xff"),
        struct.pack("<I", 200_000) + b"[" * 200_000,
    ],
)
def test_malformed_messages_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        wire.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        wire.decode(data)
        raise ValueError("malformed: it is not, this time")


@given(VALUES, st.data())
def test_flipped_bytes_are_refused_or_read(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(wire.encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        wire.decode(bytes(encoded))


def test_errors_arrive_as_they_were() -> None:
    conflict = topicdb.ConflictError("it lost")
    conflict.conflicts = [("a/#", None, 5, 7)]
    failed = topicdb.PreconditionError("it is not so")
    failed.failures = [("a", 1, b"x", None)]
    for error in (
        conflict,
        failed,
        topicdb.NotFoundError("gone"),
        ValueError("bad"),
        TypeError("x"),
    ):
        found = errors.unpacked(wire.decode(wire.encode(errors.packed(error))))
        assert type(found) is type(error) and str(found) == str(error)
        for name in ("conflicts", "failures"):
            assert getattr(found, name, None) == getattr(error, name, None)


def test_other_errors_arrive_as_errors_of_topicdb() -> None:
    found = errors.unpacked(errors.packed(ZeroDivisionError("division by zero")))
    assert type(found) is topicdb.Error and "ZeroDivisionError: division by zero" in str(found)
    found = errors.unpacked({"kind": "SystemExit", "text": "out", "attributes": {"args": ()}})
    assert type(found) is topicdb.Error

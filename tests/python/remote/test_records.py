"""Results with named fields agree with the extension, and other releases can read them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import topicdb
from topicdb import _core
from topicdb.database.verifying import Problem, Verification
from topicdb.engine import Engine
from topicdb.follow.losses import Loss
from topicdb.jobs import Applied
from topicdb.remote import records, wire
from topicdb.results import (
    CommitSpan,
    Delivered,
    Dropped,
    Maintained,
    RetentionClass,
    SlabUsage,
    Snapshot,
    StructureUsage,
    TrimCount,
)
from topicdb.types import Page, Receipt, Slice

HARMED = Problem("a page", 1, "a/#", 4, ["a/+"], 5, 10, 20)
LOST = Problem("a file", None, None, None, [], 0, None, None)
TRAVELS: list[tuple[Any, str]] = [
    (Receipt({0: 7}, 1, "os"), '{"tuple":[{"dict":[[0,7]]},1,"os",false]}'),
    (CommitSpan(7, 1, 20), '{"tuple":[7,1,20]}'),
    (Applied(0, "s", 1, 2, 3, 4, 5, 6), '{"tuple":[0,"s",1,2,3,4,5,6]}'),
    (RetentionClass("a/#", 1, 2, 3, 4, None), '{"tuple":["a/#",1,2,3,4,null]}'),
    (
        RetentionClass("b/#", 0, 0, 0, 0, "skipstream"),
        '{"tuple":["b/#",0,0,0,0,"skipstream"]}',
    ),
    (StructureUsage("#", "a/+", 1, 2, 3), '{"tuple":["#","a/+",1,2,3]}'),
    (TrimCount([], 3), '{"tuple":[[],3]}'),
    (Maintained(1, [], 2), '{"tuple":[1,[],2]}'),
    (Snapshot("p", {0: 3}, 1, 2, 3), '{"tuple":["p",{"dict":[[0,3]]},{"tuple":[1,2,3]}]}'),
    (
        HARMED,
        '{"tuple":["a page",1,{"tuple":["a/#",4]},["a/+"],5,{"tuple":[10,20]}]}',
    ),
    (LOST, '{"tuple":["a file",null,null,[],0,null]}'),
    (
        Verification([LOST], 1, 2, 3, 4, 5),
        '{"tuple":[[{"tuple":["a file",null,null,[],0,null]}],{"tuple":[1,2,3,4,5]}]}',
    ),
]


def json_of(value: Any) -> str:
    data = wire.encode(value)
    (size,) = struct.unpack_from("<I", data)
    return data[4 : 4 + size].decode().rstrip()


@pytest.mark.parametrize(("record", "plain"), TRAVELS, ids=lambda one: type(one).__name__)
def test_a_record_travels_as_the_tuple_of_its_fields(record: Any, plain: str) -> None:
    """Released servers and clients read and send these bytes."""
    assert json_of(record) == plain
    assert records.record_of(type(record), wire.decode(wire.encode(record))) == record


def test_records_of_slabs_and_messages_travel(db: topicdb.Database) -> None:
    db.append([("a/b", 1, b"x")])
    (slab,) = db.slabs()
    for record in (SlabUsage(slab, 5, 1), Maintained(1, [Dropped(slab, 5, "age")])):
        assert records.record_of(type(record), wire.decode(wire.encode(record))) == record
    page = db.next(db.iterator(db.streams()[0]))
    arrived = records.record_of(Page, wire.decode(wire.encode(page), trusted=True))
    assert (arrived.iterator, arrived.end_of_stream) == (page.iterator, False)
    assert arrived.batch.to_list() == page.batch.to_list()


def test_slices_are_tuples_where_a_server_gives_them(db: topicdb.Database) -> None:
    db.append([("a/b", 1, b"x")])
    found = db.slices()
    plain = records.plain_result(found)
    assert json_of(plain).startswith('[{"tuple":[0,"#",')
    assert json_of(found).startswith('[{"slice":[0,"#",')
    arrived = records.result_of(Engine.slices, wire.decode(wire.encode(plain)))
    assert arrived == found and isinstance(arrived[0], Slice)


def test_what_travels_of_a_loss() -> None:
    loss = Loss(3, "a/#", 1, 8, 20)
    about = records.About(9, 3, 8, 0, True, loss)
    assert json_of(about.plain()) == '[9,3,8,0,true,{"tuple":["a/#",1,8,20]}]'
    assert records.About.from_plain(wire.decode(wire.encode(about.plain()))) == about


@pytest.mark.parametrize("plain", [5, "x", [1, 2, 3], (1, 2), (1, 2, 3, 4)])
def test_a_tuple_of_another_kind_is_no_record(plain: Any) -> None:
    with pytest.raises(ValueError, match="CommitSpan: expected a tuple of 3"):
        records.record_of(CommitSpan, plain)


def test_the_extension_refuses_a_class_with_other_fields() -> None:
    fields: dict[str, Any] = {"until": int, "messages": int}
    other: type = dataclass(type("CommitSpan", (), {"__annotations__": fields}))
    with pytest.raises(TypeError, match="CommitSpan: the class has the fields"):
        _core.configure_results(other)
    with pytest.raises(TypeError, match="Snap: the extension gives no such result"):
        _core.configure_results(type("Snap", (), {}))


def test_the_extension_takes_only_the_classes(db: topicdb.Database) -> None:
    untyped: Any = db._core
    for wrong in [("#", 1, 0, 0, 0)], [5], ["#"]:
        with pytest.raises(TypeError, match="retention: expected a sequence of RetentionClass"):
            untyped.set_retention(wrong)
    with pytest.raises(TypeError, match="keep_last: str is of the wrong type"):
        untyped.set_retention([RetentionClass("#", 0, 0, 0, "1", None)])  # type: ignore[arg-type]
    with pytest.raises(topicdb.SchemaError, match="layout: expected 'columnar' or 'skipstream'"):
        untyped.set_retention([RetentionClass("#", 0, 0, 0, 1, "rows")])
    with pytest.raises(TypeError, match="slices: expected a sequence of Slice"):
        untyped.scan_slices(None, [(0, "#", 0, 0, 1, None, None, 1, 1, "columnar")])


def test_a_delivery_has_names(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        subscription = db._core.subscribe(None, {}, 0, 10, 1_000)
        db.append([("a/b", 1, b"x"), ("a/c", 2, b"y")])
        found = subscription.next(None, 10)
    assert isinstance(found, Delivered)
    assert (found.seqno, found.shard, found.loss) == (2, 0, None)
    assert found.rows.tolist() == [0, 1] and len(found.batch) == 2


@pytest.mark.parametrize("surplus", ["x", ("#", 1, 2, 3, 4), None])
def test_a_surplus_argument_is_passed_on_as_it_is(surplus: object) -> None:
    assert records.arguments_of(Engine.maintain, [5, surplus]) == [5, surplus]
    with pytest.raises(ValueError, match="Maintained: expected a tuple"):
        records.result_of(Engine.maintain, "x")

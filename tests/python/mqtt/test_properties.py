"""Readers of messages with MQTT properties get the payload, and properties on request."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from envelopes import FULL, GOLDEN, NOTHING, PAYLOADS, PROPERTIES, ROWS, envelopes
from hypothesis import given
from strategies import payload
from support import PATIENCE_S

import topicdb
from topicdb import Database, Properties, PropertyMessage, _core
from topicdb.replay import Envelope

EXPIRED = "a/2"  # groups and sessions give nothing that has expired
LIVING = GOLDEN._replace(message_expiry_s=None)


@pytest.fixture(params=["columnar", "skipstream"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with topicdb.open(tmp_path / "db", layout=request.param, structures=["a/+"]) as opened:
        opened.append(ROWS, raw=True)
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Database]:
    with topicdb.open(tmp_path / "log", shards=2) as opened:
        opened.append(ROWS, raw=True)
        yield opened


def test_values_are_payloads(db: Database) -> None:
    assert db.scan("#").to_list() == [
        (t, at, p) for (t, at, _), p in zip(ROWS, PAYLOADS, strict=True)
    ]
    assert [m.value for m in db.scan("#", order="time")] == PAYLOADS
    assert [m.value for m in db.last("a/#")] == PAYLOADS
    assert [m.value for m in db.state_at(2, "a/#")] == PAYLOADS[:2]
    assert [v for b in db.scan_slices(db.slices()).batches() for v in b.values] == PAYLOADS
    stream = db.streams("#")[0]
    assert db.next(db.iterator(stream)).batch.values == PAYLOADS


def test_properties_on_request(db: Any) -> None:
    expected = [
        PropertyMessage(t, at, p, q)
        for (t, at, _), p, q in zip(ROWS, PAYLOADS, PROPERTIES, strict=True)
    ]
    for scan in (
        db.scan("#", properties=True),
        db.last("#", properties=True),
        db.state_at(9, "#", properties=True),
        db.scan_slices(db.slices(), properties=True),
    ):
        found = sorted(scan)
        assert found == expected and isinstance(found[0], PropertyMessage)
        assert sorted(scan.to_list()) == expected
    (batch,) = db.scan("#", properties=True).batches()
    assert batch.properties == PROPERTIES and batch[1] == expected[1]
    stream = db.streams("#")[0]
    assert db.next(db.iterator(stream), properties=True).batch.to_list() == expected
    (batch,) = db.scan("#").batches()
    assert batch.properties is None


def test_values_as_they_are_stored(db: Database) -> None:
    assert db.scan("#", raw=True).to_list() == ROWS
    assert db.last("#", raw=True).to_list() == ROWS
    stream = db.streams("#")[0]
    assert db.next(db.iterator(stream), raw=True).batch.to_list() == ROWS
    with pytest.raises(ValueError, match="not both"):
        db.scan("#", raw=True, properties=True)


def test_following(log: Any) -> None:
    def sorted_of(batches: Any) -> list[Any]:
        return sorted(message for batch in batches for message in batch)

    plain = [(t, at, p) for (t, at, _), p in zip(ROWS, PAYLOADS, strict=True)]
    full = [(*row, q) for row, q in zip(plain, PROPERTIES, strict=True)]
    for options, expected in (({}, plain), ({"properties": True}, full), ({"raw": True}, ROWS)):
        assert sorted(log.tail("#", timeout=0, **options)) == expected
        with log.subscribe("#", start="earliest", timeout=PATIENCE_S, **options) as subscription:
            assert sorted(itertools.islice(subscription, len(ROWS))) == expected
        with log.consumer(f"c{len(options)}", timeout=5, takeover=True, **options) as consumer:
            consumer.seek("earliest")
            batches: list[Any] = []
            while sum(map(len, batches)) < len(ROWS):
                batches.append(consumer.poll())
                consumer.ack(batches[-1] if len(batches[-1]) else None)
            assert sorted_of(batches) == expected
        with log.group(f"g{sorted(options)}", parts=1).join(**options) as member:
            living: list[Any] = [row for row in expected if row[0] != EXPIRED]
            batches = []
            while sum(map(len, batches)) < len(living):
                if len(batch := member.poll()):
                    batches.append(batch)
                    member.ack(batch)
            assert sorted_of(batches) == living


def test_sessions_give_payloads_and_properties(log: Database) -> None:
    with log.session("client") as session:
        session.subscribe("#", 2, start="earliest")
        log.append([("a/4", 4, LIVING.encode())], raw=True)
        packets: list[topicdb.Packet] = []
        while len(packets) < len(ROWS):
            packets += session.poll()
        wanted = [NOTHING, PROPERTIES[2], FULL._replace(message_expiry_s=None, received=4)]
        found = sorted((p.topic, p.value, p.properties) for p in packets)
        assert [value for _, value, _ in found] == [b"value", b"plain", b"21.5"]
        assert [properties for _, _, properties in found] == wanted
    with log.session("client") as again:
        found = sorted((p.topic, p.value, p.properties) for p in again.poll())
        assert [properties for _, _, properties in found] == wanted


def test_transactions(log: Any) -> None:
    topic, at, value = ROWS[1]
    with log.transaction(key=topic) as tx:
        assert tx.get(topic, at) == b"21.5"
        assert [m.value for m in tx.scan(topic)] == [b"21.5"]
        assert tx.scan(topic, properties=True).to_list()[0].properties == FULL
        assert tx.scan(topic, raw=True).to_list() == [ROWS[1]]
        tx.require(topic, at, b"21.5")
        tx.write(topic, 50, value)  # a value that happens to look like an envelope
        tx.write(topic, 60, value, raw=True)
    assert [m.value for m in log.scan(topic)] == [b"21.5", value, b"21.5"]
    with pytest.raises(topicdb.PreconditionError) as caught, log.transaction(key=topic) as tx:
        tx.require(topic, at, value)
        tx.write(topic, 70, b"")
    assert caught.value.failures == [(topic, at, value, b"21.5")]


def test_own_values_of_maps_are_what_they_are(log: Database) -> None:
    with log.map("m") as map:
        map["key"] = GOLDEN.encode()
    with log.map("m") as map:
        assert map["key"] == GOLDEN.encode()
        map["key"] = b"21.5"  # the payload alone is another value


def test_any_value_comes_back_as_it_was_given(tmp_path: Path) -> None:
    value = GOLDEN.encode()
    escaped = _core.escaped_value(value)
    assert escaped != value and _core.payload_of(escaped) == value
    with topicdb.open(tmp_path / "db") as db:
        for depth, one in enumerate((value, escaped, _core.escaped_value(escaped))):
            topic = f"t/{depth}"
            db.append([(topic, 1, one)])
            db.append(pa.table({"topic": [topic], "timestamp": [2], "value": [one]}))
            db.append_async([(topic, 3, one)]).result()
            assert [m.value for m in db.scan(topic)] == [one] * 3
            (batch,) = db.scan(topic, properties=True).batches()
            assert batch.properties == [NOTHING] * 3


@given(st.lists(st.tuples(st.one_of(payload, envelopes.map(Envelope.encode)), st.booleans())))
def test_forms_of_a_batch(values: list[tuple[bytes, bool]]) -> None:
    stored = [value if raw else _core.escaped_value(value) for value, raw in values]
    batch = _core.batch_of_rows([("t", i, value) for i, value in enumerate(stored)])
    assert batch.read_as("stored") is batch
    seen = [
        (Envelope.decode(value) or Envelope(value)).payload if raw else value
        for value, raw in values
    ]
    payloads = batch.read_as("payload")
    assert payloads.values == seen
    assert (payloads is batch) == all(_core.payload_of(value) == value for value in stored)
    full: Any = batch.read_as("properties")
    assert full.values == seen and full.properties is not None
    for (value, raw), found, message in zip(values, full.properties, full, strict=True):
        envelope = Envelope.decode(value) if raw else None
        assert message.properties == found
        assert (found.qos is None) == (envelope is None)
        if envelope is not None:
            assert found.user_properties == envelope.user_properties
            assert found.client_id == (envelope.client_id or None)
    table = pa.record_batch(full)
    table.validate(full=True)
    assert table.column("value").to_pylist() == seen
    assert rows_of(without_zone(pa.Table.from_batches([table]))) == full.properties


def rows_of(table: pa.RecordBatch | pa.Table) -> list[Properties]:
    """Returns the properties that the columns of a table hold."""
    found = []
    for row in table.drop_columns(["topic", "timestamp", "value"]).to_pylist():
        row["user_properties"] = tuple(
            (pair["name"], pair["value"]) for pair in row["user_properties"] or ()
        )
        row["subscription_ids"] = tuple(row["subscription_ids"] or ())
        found.append(Properties(**row))
    return found


def without_zone(table: pa.Table) -> pa.Table:
    """Returns a table with ``received`` as a number, as Python's times end with the year 9999."""
    at = table.schema.get_field_index("received")
    return table.set_column(at, "received", table.column("received").cast(pa.int64()))


def test_arrow(db: Database) -> None:
    assert db.scan("#").to_arrow().column_names == ["topic", "timestamp", "value"]
    assert db.scan("#").to_arrow().column("value").to_pylist() == PAYLOADS
    assert db.scan("#", raw=True).to_arrow().column("value").to_pylist() == [r[2] for r in ROWS]
    table = db.scan("#", properties=True).to_arrow()
    table.validate(full=True)
    assert table.column("value").to_pylist() == PAYLOADS
    assert rows_of(without_zone(table)) == PROPERTIES
    assert pa.table(db.scan("#", properties=True)).equals(table)
    assert pa.table(db.scan("#")).column("value").to_pylist() == PAYLOADS
    assert pa.table(db.last("#", raw=True)).column("value").to_pylist() == [r[2] for r in ROWS]
    assert db.scan("nothing", properties=True).to_arrow().schema == table.schema


def test_the_columns() -> None:
    schema = pa.schema(_core.arrow_schema("properties"))
    assert schema.names[3:] == list(Properties._fields)
    assert all(schema.field(name).nullable for name in schema.names[3:])
    assert schema.field("received").type == pa.timestamp("us", tz="UTC")
    assert schema.field("message_expiry_s").type == pa.int64()


def test_without_envelopes_nothing_is_copied(tmp_path: Path) -> None:
    batch = _core.batch_of_rows([("a", i, b"value") for i in range(10)])
    assert batch.read_as("payload") is batch

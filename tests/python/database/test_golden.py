"""Databases that released versions wrote can be opened and hold what they held.

tests/data/make_golden*.py wrote these databases; manifests beside them list their contents.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topicdb
from data.make_golden_keys import CLIENTS as KEYED_CLIENTS
from data.make_golden_pages import content as content_of_pages
from data.make_golden_pages import digest as digest_of_pages
from data.make_golden_spread import content
from sealing import wait_for_sealing
from topicdb import Database

DATA = Path(__file__).resolve().parents[2] / "data"
VERSIONS = ["v1"]


def manifest_of(version: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("manifest.json", "columnar.json", "layouts.json"):
        text = (DATA / version / name).read_text(encoding="utf-8")
        found |= json.loads(text)["databases"]
    return found


def unpacked(version: str, name: str, directory: Path) -> Path:
    """Unpacks a golden database into ``directory``, and returns its path."""
    path = directory / f"{name}.db"
    with zipfile.ZipFile(DATA / version / f"{name}.zip") as archive:
        archive.extractall(path)
    return path


GOLDEN = [(version, name) for version in VERSIONS for name in manifest_of(version)]


@pytest.fixture(params=GOLDEN, ids="/".join)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The path of a copy of a golden database, and what the manifest says of it."""
    version, name = request.param
    return unpacked(version, name, tmp_path), manifest_of(version)[name]


@pytest.fixture(params=["r", "rw"])
def opened(
    request: pytest.FixtureRequest, golden: tuple[Path, dict[str, Any]]
) -> Iterator[tuple[Database, dict[str, Any]]]:
    path, expected = golden
    # Maintenance would rotate and drop what is over its age as soon as the database is open.
    options: dict[str, Any] = {} if request.param == "r" else {"maintenance_interval": None}
    with topicdb.open(path, mode=request.param, **options) as db:
        yield db, expected


def test_the_schema(opened: tuple[Database, dict[str, Any]]) -> None:
    db, expected = opened
    # Before there was a choice, the topic decided in which shard a message is.
    assert db.schema == {"shard_by": "topic", **expected["schema"]}


def test_the_slabs(opened: tuple[Database, dict[str, Any]]) -> None:
    db, expected = opened
    found = sorted(
        ([slab.shard, slab.retention_class, slab.generation], slab.read_only, slab.messages)
        for slab in db.slabs()
    )
    wanted = [(s["slab"], s["read_only"], s["messages"]) for s in expected["slabs"]]
    assert found == wanted


def test_layouts_of_generations(tmp_path: Path) -> None:
    """Opens what make_golden_layouts.py wrote, and begins the next generations."""
    wanted = [(tuple(s["slab"]), s["layout"]) for s in manifest_of("v1")["layouts"]["slabs"]]
    assert {layout for _, layout in wanted} == {"columnar", "skipstream"}

    def found(db: Database) -> list[tuple[tuple[int, str, int], str]]:
        slabs = db.slabs()
        return sorted(((s.shard, s.retention_class, s.generation), s.layout) for s in slabs)

    path = unpacked("v1", "layouts", tmp_path)
    with topicdb.open(path, mode="r") as db:
        assert found(db) == wanted
        assert {name: one.layout for name, one in db.retention.items()} == {
            "alarm/#": "skipstream",
            "$SYS/#": None,
            "#": None,
        }
    with topicdb.open(path, maintenance_interval=None) as db:
        db.rotate()
        last = {slab[:2]: layout for slab, layout in found(db)}
        assert {layout for slab, layout in last.items() if slab[1] == "alarm/#"} == {"skipstream"}
        assert {layout for slab, layout in last.items() if slab[1] == "#"} == {"columnar"}
    assert topicdb.verify(path, deep=True).ok


def test_scans(opened: tuple[Database, dict[str, Any]]) -> None:
    db, expected = opened
    assert any(expected["scans"].values())
    for filter, messages in expected["scans"].items():
        assert sorted(plain(db.scan(filter))) == messages, filter


def test_last_values(opened: tuple[Database, dict[str, Any]]) -> None:
    """``last`` also finds messages that were written before blocks had lists of their topics."""
    db, expected = opened
    for filter, messages in expected["scans"].items():
        newest: dict[str, int] = {}
        for topic, timestamp, _ in messages:
            newest[topic] = max(timestamp, newest.get(topic, 0))
        found = plain(db.last(filter))
        assert [(m[0], m[1]) for m in found] == sorted(newest.items(), key=lambda i: i[0].encode())
        assert all(message in messages for message in found)


def test_streams_and_their_order(opened: tuple[Database, dict[str, Any]]) -> None:
    db, expected = opened
    for item in expected["streams"]:
        stream = topicdb.Stream.from_bytes(decoded(item["stream"]))
        assert [stream.shard, stream.retention_class, stream.generation] == item["slab"]
        assert stream.structure == item["structure"]
        assert stream in db.streams(stream.structure)
        scanned = db.scan(stream.structure, streams=[stream])
        assert plain(scanned) == item["messages"]


def test_saved_iterators_go_on(opened: tuple[Database, dict[str, Any]]) -> None:
    db, expected = opened
    for item in expected["streams"]:
        iterator = topicdb.Iterator.from_bytes(decoded(item["iterator"]))
        assert bytes(iterator) == decoded(item["iterator"])
        page = db.next(iterator)
        assert plain(page.batch) == item["messages"][item["read"] :]


def test_it_can_be_written_on(golden: tuple[Path, dict[str, Any]]) -> None:
    path, expected = golden
    before = len(expected["scans"]["#"])
    # Maintenance would drop the generations that have become older than their class allows.
    with topicdb.open(path, maintenance_interval=None) as db:
        serials = {shard["shard"]: shard["serial"] for shard in db.stats()["shards"]}
        receipt = db.append([(f"written/later/{i}", 0, b"") for i in range(20)])
        assert all(serial > serials[shard] for shard, serial in receipt.serials.items())
        db.rotate()
        db.append([("written/later/1", 0, b"")])
    with topicdb.open(path, mode="r") as db:
        # Skipstream keeps one message per topic and time.
        written = 21 if db.schema["layout"] == "columnar" else 20
        assert db.scan("written/later/+").count() == written
        assert db.scan("#").count() == before + written


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_commits_deletes_and_maps(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_commits.py wrote, whose delete was cut short."""
    path = unpacked("v1", "commits", tmp_path)
    left = [(f"cut/{i % 5}/short", i, b"") for i in range(11_990, 12_000)]
    with topicdb.open(path, mode=mode) as db:
        assert [tuple(m) for m in db.scan("cut/#", order="time")] == left
        assert db.scan("cut/3/short").count() == 2
        assert [tuple(m) for m in db.scan("other")] == [("other", 7, b"tx")]
        assert db.scan("gone").count() == 0
        (serial,) = db.scan("serial")
        assert 0 < int.from_bytes(serial.value, "big") < db.stats()["shards"][0]["serial"]
    with topicdb.open(path) as db:
        with db.map("closed/a b") as one:
            assert dict(one) == {"k": b"v", "\u00e9/%+#": b"\x00\xff", "": b"empty key"}
        with pytest.raises(topicdb.ConflictError):
            db.map("owned")
        assert dict(db.map("owned", takeover=True)) == {"n": b"1"}
        assert [tuple(m) for m in db.scan("cut/#", order="time")] == left


def test_structures_and_the_sample_they_are_learned_from(tmp_path: Path) -> None:
    """Opens what make_golden_structures.py wrote."""
    path = unpacked("v1", "structures", tmp_path)
    expected = json.loads((DATA / "v1" / "structures.json").read_text())
    with topicdb.open(path, mode="r") as db:
        assert sorted([m.topic, m.timestamp] for m in db.scan()) == expected["messages"]
        streams = sorted([s.generation, s.structure] for s in db.streams())
        assert streams == expected["streams"]
        assert [2, "#"] in streams
    with topicdb.open(path, streams_max=64) as db:
        db.rotate()
        db.append([(f"tele/dev{i}/STATE", 400 + i, b"") for i in range(20, 23)])
        db.append([(f"many/{'x/' * n}{n}", 500 + n, b"") for n in range(30, 33)])
        learned = sorted(s.structure for s in db.streams() if s.generation == 3)
        assert learned == expected["learned"]


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_blocks_that_are_apart(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_spread.py wrote."""
    path = unpacked("v1", "spread", tmp_path)
    expected = json.loads((DATA / "v1" / "spread.json").read_text())
    with topicdb.open(path, mode=mode, maintenance_interval=None) as db:
        assert content(db) == expected
    assert topicdb.verify(path, deep=True).ok


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("name", ["early-pages", "pages"])
def test_pages_of_both_forms(tmp_path: Path, name: str, mode: Any) -> None:
    """Opens what make_golden_pages.py wrote, commits the job that waits there, and writes on."""
    path = unpacked("v1", name, tmp_path)
    expected = json.loads((DATA / "v1" / f"{name}.json").read_text())
    wanted = {key: expected[key] for key in expected if key not in ("job", "with the job")}

    def keys(db: Database, **options: Any) -> str:
        return digest_of_pages(db.scan("#", columns=["topic", "timestamp"], **options))

    assert topicdb.verify(path, deep=True).ok
    with topicdb.open(path, mode=mode, maintenance_interval=None) as db:
        assert content_of_pages(db) == wanted
        assert keys(db) == keys(db, order="none") == wanted["keys"]
        assert db.scan("#").count() == len(db.scan("#").to_list())
    if mode == "r":
        return
    staged = topicdb.jobs.Staged(**expected["job"])
    assert topicdb.jobs.commit(path, "waits", [staged]).messages == staged.messages
    for _ in range(2):  # sealed blocks of both forms are read, merged and spread together
        with topicdb.open(path, seal_bytes=8 << 10, maintenance_interval=None) as db:
            rows = [m for m in db.scan("#") if m.topic not in ("job/assigned", "on")]
            assert digest_of_pages(rows) == expected["with the job"]
            db.delete("on")
            db.append([("on", i, b"%d" % i) for i in range(2_000)])
            db.rotate()
            wait_for_sealing(db)
        assert topicdb.verify(path, deep=True).ok


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_lists_of_topics(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_last.py wrote."""
    path = unpacked("v1", "last", tmp_path)
    expected = json.loads((DATA / "v1" / "last.json").read_text())
    with topicdb.open(path, mode=mode) as db:
        for (filter, at), answer in zip(expected["questions"], expected["answers"], strict=True):
            found = db.last(filter) if at is None else db.state_at(at, filter)
            assert [[m.topic, m.timestamp, m.value.decode()] for m in found] == answer
        if mode == "r":  # a writer may have brought blocks apart in time meanwhile
            reads = db.stats()["shards"][0]["reads"]
            assert 0 < reads["pages_read"] < reads["pages"], "some were known from the lists alone"


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_generations_that_note_when_they_began(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_moves.py wrote: a topic moved to another class and back."""
    path = unpacked("v1", "moves", tmp_path)
    expected = json.loads((DATA / "v1" / "moves.json").read_text())
    with topicdb.open(path, mode=mode) as db:
        assert [m.value.decode() for m in db.scan("a/#")] == expected["values"]
        streams = [[s.retention_class, s.generation] for s in db.streams("a/#")]
        assert streams == expected["streams"]


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_clock_that_has_leapt(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_clock.py wrote: generations do not last as long as the clock leapt."""
    path = unpacked("v1", "clock", tmp_path)
    with topicdb.open(path, mode=mode, maintenance_interval=None) as db:
        assert sorted(message.value for message in db.scan("#")) == [b"after", b"before"]
        first, second, third = db.slabs()
        assert first.sealed_at == second.created_at
        assert second.sealed_at == third.created_at
        assert third.created_at - first.created_at < 3_600_000_000
    assert topicdb.verify(path, deep=True).ok


def test_appends_with_ids(tmp_path: Path) -> None:
    """Opens what make_golden_ids.py wrote."""
    path = unpacked("v1", "ids", tmp_path)
    with topicdb.open(path) as db:
        rows: list[Any] = [(f"ids/{i}", i, b"%d" % i) for i in range(20)]
        assert db.append(rows, id="all shards").repeated
        assert db.append(
            [("ids/later", None, b"\x00\xff"), ("ids/ü", 7, b"")], id="ü/später"
        ).repeated
        assert db.append([("ids/gone", 1, b"")], id="deleted").repeated
        with pytest.raises(ValueError, match="id 'deleted' was used for another append"):
            db.append([("ids/gone", 2, b"")], id="deleted")
        assert db.scan("ids/#").count() == 22


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_database_that_shards_by_key(tmp_path: Path, mode: Any) -> None:
    """Opens what make_golden_keys.py wrote."""
    path = unpacked("v2", "keys", tmp_path)
    with topicdb.open(path, mode=mode) as db:
        assert db.schema["shard_by"] == "key"
        found = {
            stream.shard: sorted(m.value.decode() for m in db.scan("t", streams=[stream]))
            for stream in db.streams("t")
        }
        assert found == {
            shard: [f"{client} {i}" for client in clients for i in range(3)]
            for shard, clients in KEYED_CLIENTS.items()
        }
        assert [m.value for m in db.last("t")] == [b"client 1 2"], "of shard 2"
    with topicdb.open(path) as db:
        rows = [("t", 1_000 + i, f"client 0 {i}".encode()) for i in range(3)]
        assert db.append(rows, key="client 0", id="client 0").repeated
        mixed: list[Any] = [("u", 1, b"of a client"), ("u", 2, b"of nobody")]
        assert db.append(mixed, key=[b"client 3", None], id="mixed").repeated
        with pytest.raises(ValueError, match="id 'mixed' was used for another append"):
            db.append(mixed, id="mixed")
    assert topicdb.verify(path, deep=True).ok


def plain(messages: Any) -> list[list[Any]]:
    """Returns messages in the form of the manifest."""
    return [[m.topic, m.timestamp, base64.b64encode(m.value).decode()] for m in messages]


def decoded(data: str) -> bytes:
    return base64.b64decode(data)


def test_positions_of_before_there_were_losses(tmp_path: Path) -> None:
    """Opens the first database of make_golden_readers.py, which knows nothing of losses."""
    path = unpacked("v1", "readers", tmp_path)
    with topicdb.open(path, mode="r") as db:
        consumer, group = db.standings()
        assert (consumer.lag, consumer.lost, group.lost) == (250, 0, 0)
    with topicdb.open(path) as db:
        with db.consumer("c", "a/#", on_loss="raise") as reader:
            assert [int(value) for value in reader.poll().values] == list(range(50, 300))
            assert reader.lost == 0
        drops = [s for s in db.slabs() if (s.retention_class, s.generation) == ("#", 1)]
        db.drop_slab(drops[0])
        with db.consumer("c", "a/#") as reader:
            assert len(reader.poll()) == 200
            assert reader.lost == 50
        session = db.session("s", expiry=None)
        assert session.resumed
        assert len(session.poll(1_000)) > 0
        session.puback(*session.in_flight)
        assert session.lost > 0
        session.close()


def test_what_was_lost(tmp_path: Path) -> None:
    """Opens the second database of make_golden_readers.py.

    Its consumer had acknowledged 60 messages and lost generation 2; generation 1 was dropped later.
    """
    path = unpacked("v1", "losses", tmp_path)
    with topicdb.open(path, mode="r") as db:
        consumer, group = db.standings()
        assert (consumer.lag, consumer.lost) == (100, 140)
        assert 190 <= group.lost <= 200
    with topicdb.open(path) as db:
        with db.consumer("c", "a/#") as reader:
            assert [int(value) for value in reader.poll().values] == list(range(200, 300))
            assert reader.lost == 140
        session = db.session("s", expiry=None)
        assert session.poll(1_000)[0].value == b"200"
        assert 190 <= session.lost <= 200
        session.close()

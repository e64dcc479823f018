"""Tests of access: what filters cover, the file of tokens, and what each token may do."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from served import Certificates, make_certificates, serving
from support import PATIENCE_S, Child

import topicdb
from topicdb import jobs, replay
from topicdb.arguments.filters import covers
from topicdb.follow.positions import standings
from topicdb.metrics import Collector
from topicdb.remote.server import replacing, tokens
from topicdb.remote.server.access import Access
from topicdb.remote.wire import decode, encode
from topicdb.replay.log.opening import names as replay_names
from topicdb.rights import served_methods

LEVELS = ["a", "b", "", "$x"]
TOPICS = [
    "/".join(levels)
    for count in (1, 2, 3, 4)
    for levels in itertools.product(LEVELS, repeat=count)
    if any(levels)
]
_level = st.sampled_from([*LEVELS, "+"])
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, "#"] if rest else levels),
    st.lists(_level, min_size=1, max_size=3),
    st.booleans(),
).filter(bool) | st.just("#")


@given(FILTERS, FILTERS)
def test_a_filter_covers_what_it_matches_all_of(permitted: str, wanted: str) -> None:
    if covers(permitted, wanted):
        for topic in TOPICS:
            if topicdb.topic_matches(wanted, topic):
                assert topicdb.topic_matches(permitted, topic)


def test_what_covers_what() -> None:
    for permitted, wanted in [("#", "a/#"), ("a/#", "a"), ("a/+", "a/b"), ("+/b/#", "a/b/+/c")]:
        assert covers(permitted, wanted) and not covers(wanted, permitted)
    assert not covers("#", "$SYS/#") and not covers("+/x", "$SYS/x") and covers("$SYS/#", "$SYS/x")
    assert not covers("a/b", "a/+") and not covers("a/+", "a/#") and not covers("a/b/#", "a")


def test_rights_in_replay_logs_are_of_logs_and_endpoints() -> None:
    access = Access("t", names=("endpoint/l/a/b",), replay=("+/night", "l/+"))
    access.check_client("l", "a/b")
    access.check_replay("m", "night")
    access.check_replay("l", "anything")
    access.check_watch("l")
    for check, name in (
        (access.check_client, ("l", "a")),
        (access.check_client, ("m", "a/b")),
        (access.check_replay, ("m", "day")),
        (access.check_look, ("m", "a/b")),
    ):
        with pytest.raises(topicdb.AccessError, match="/".join(name)):
            check(*name)
    with pytest.raises(topicdb.AccessError, match=r"see all of endpoint m/\+"):
        access.check_watch("m")
    own = Access("t", names=("endpoint/l/q",))
    with pytest.raises(topicdb.AccessError):
        own.check_own_any()  # it is no name among the topics of the database
    with pytest.raises(topicdb.AccessError):
        own.check_write("$topicdb/endpoint/l/q/x")
    for bad in ("l", "l/", "/q", ""):
        with pytest.raises(ValueError, match="expected a log"):
            Access("t", replay=(bad,))
        with pytest.raises(ValueError, match="expected a log"):
            Access("t", names=(f"endpoint/{bad}",))


def test_who_subscribes_to_more_later_gives_a_client_no_more_than_it_may_read(
    filled: Served,
) -> None:
    log = filled.server.service.replays.log("l")
    queue = log.queue("grows", "a/#")
    token = filled.token(read=["a/#"], names=["endpoint/l/grows"])
    filled.look_again()
    with filled.connect(token) as db, replay.open(db, "l").endpoint("grows").bind() as flow:
        filled.database.append([("a/x", None, b"may be read")])
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        flow.ack(message)
        queue.subscribe("b/#")
        filled.database.append([("b/x", None, b"may not")])
        with pytest.raises(topicdb.AccessError, match="'b/#'"):
            flow.receive(timeout=PATIENCE_S)
    log.drop_endpoint("grows")


def test_names_are_no_filters() -> None:
    access = Access("t", names=("consumer/etl", "map/+"))
    access.check_name("consumer", "etl")
    access.check_name("map", "anything")
    for kind, name in (("consumer", "other"), ("group", "etl"), ("consumer", "etl/x")):
        with pytest.raises(topicdb.AccessError, match=f"may not use {kind}/{name}"):
            access.check_name(kind, name)
    for name in ("etl", "queue/x", "map/", "/x"):
        with pytest.raises(ValueError, match="expected a kind"):
            Access("t", names=(name,))


# The file of tokens


def test_a_token_is_known_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token = tokens.add(path, {"name": "t", "read": ["a/#"], "names": ["consumer/c"]})
    assert token not in path.read_text() and path.stat().st_mode & 0o077 == 0
    access = tokens.Tokens(path).access(token)
    assert (access.name, access.read, access.write) == ("t", ("a/#",), ())
    for wrong in (None, "", "x", token + "x", token[:-1], token.upper(), "\ud800"):
        with pytest.raises(topicdb.AccessError):
            tokens.Tokens(path).access(wrong)
    with pytest.raises(topicdb.ExistsError, match="'t'"):
        tokens.add(path, {"name": "t", "read": ["a/#"]})
    tokens.remove(path, "t")
    with pytest.raises(topicdb.NotFoundError, match="'t'"):
        tokens.remove(path, "t")
    assert sorted(os.listdir(tmp_path)) == [".tokens.json.lock", "tokens.json"]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "no JSON"),
        ("[]", "expected"),
        ('{"tokens": {}}', "expected"),
        ('{"tokens": [1]}', "expected"),
        ('{"tokens": [{"name": "t"}]}', "sha256"),
        ('{"tokens": [{"name": "", "sha256": "x"}]}', "name"),
        ('{"tokens": [{"name": "t", "sha256": "x", "raed": ["#"]}]}', "raed"),
        ('{"tokens": [{"name": "t", "sha256": "x", "read": "#"}]}', "list of text"),
        ('{"tokens": [{"name": "t", "sha256": "x", "read": ["a/#/b"]}]}', "a/#/b"),
        ('{"tokens": [{"name": "t", "sha256": "x", "names": ["etl"]}]}', "expected a kind"),
        ('{"tokens": [{"name": "t", "sha256": "x", "everything": 1}]}', "true or false"),
        ('{"tokens": [{"name": "t", "sha256": "x", "expires": "soon"}]}', "expires"),
        (
            '{"tokens": [{"name": "t", "sha256": "x"}, {"name": "t", "sha256": "y"}]}',
            "two tokens",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, content: str, word: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=word) as caught:
        tokens.Tokens(path)
    assert str(path) in str(caught.value)


def test_a_relative_path_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.json"
    tokens.add(path, {"name": "first", "read": ["#"]})
    monkeypatch.chdir(tmp_path)
    known = tokens.Tokens("tokens.json")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    second = tokens.add(path, {"name": "second", "read": ["#"]})
    known._look_at = 0.0  # as if a second had passed
    known.access(second)


def test_changes_hold_soon_and_a_broken_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first = tokens.add(path, {"name": "first", "read": ["#"]})
    known = tokens.Tokens(path)
    known.access(first)
    second = tokens.add(path, {"name": "second", "read": ["#"]})
    known._look_at = 0.0  # as if a second had passed
    known.access(second)
    whole = path.read_text()
    path.write_text(whole[:-10])
    known._look_at = 0.0
    with pytest.raises(topicdb.AccessError):
        known.access(first)
    path.write_text(whole + "\n")
    known._look_at = 0.0
    known.access(first)
    path.unlink()
    known._look_at = 0.0
    with pytest.raises(topicdb.AccessError):
        known.access(first)


def test_changes_of_many_processes_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens.add(path, {"name": "first", "read": ["#"]})
    work = """
        import sys
        from pathlib import Path
        from topicdb.remote.server import replacing
        from topicdb.remote.server import tokens
        path, me = Path(sys.argv[1]), sys.argv[2]
        sys.stdin.readline()
        for number in range(12):
            tokens.add(path, {"name": f"{me}-{number}", "read": ["#"]})
            if number % 2:
                tokens.remove(path, f"{me}-{number - 1}")
        print("done", flush=True)
    """
    with ExitStack() as stack:
        children = [stack.enter_context(Child(work, path, number)) for number in range(4)]
        for child in children:
            child.send()
        for child in children:
            child.expect("done")
    found = {access.name for access in tokens.load(path).values()}
    left = {f"{me}-{number}" for me in range(4) for number in range(1, 12, 2)}
    assert found == {"first", *left}
    assert sorted(os.listdir(tmp_path)) == [".tokens.json.lock", "tokens.json"]


def killed_while_it_changes(path: Path) -> None:
    """Leaves what a process leaves that was killed just before it replaced the file."""
    work = """
        import os, signal, sys
        from pathlib import Path
        from topicdb.remote.server import tokens
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        tokens.add(Path(sys.argv[1]), {"name": "killed", "read": ["#"]})
    """
    with Child(work, path) as child:
        assert child.finish()[0] == -signal.SIGKILL


@pytest.mark.parametrize("name", ["tokens", "tokens-*", "tokens-[p]rod", "tokens.lock", ".tokens"])
def test_a_change_leaves_other_files_alone(tmp_path: Path, name: str) -> None:
    path, other = tmp_path / name, tmp_path / "tokens-prod"
    killed_while_it_changes(other)
    before = set(os.listdir(tmp_path))
    assert len(before) == 2  # its lock and its temporary file
    killed_while_it_changes(path)
    tokens.add(path, {"name": "x", "read": ["#"]})
    tokens.remove(path, "x")
    assert set(os.listdir(tmp_path)) == {*before, name, f".{name}.lock"}
    left = next(one for one in before if not one.endswith(".lock"))
    with pytest.raises(ValueError, match="choose another"):
        tokens.add(tmp_path / left, {"name": "x", "read": ["#"]})
    tokens.add(other, {"name": "x", "read": ["#"]})
    assert left not in os.listdir(tmp_path)


def test_a_change_leaves_the_locks_of_other_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "tokens-prod"
    with replacing.Replacing(other):
        tokens.add(tmp_path / "tokens", {"name": "x", "read": ["#"]})
        monkeypatch.setattr(replacing, "WAIT_S", 0.1)
        with pytest.raises(topicdb.LockedError):
            replacing.Replacing(other)


def test_a_change_keeps_the_link_the_mode_and_the_owner(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, path = tmp_path / "real" / "tokens.json", tmp_path / "link.json"
    tokens.add(real, {"name": "first", "read": ["#"]})
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    path.symlink_to(real)
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 1, 2)
    before = real.stat()
    killed_while_it_changes(real)
    assert len(os.listdir(real.parent)) == 3
    tokens.add(path, {"name": "second", "read": ["#"]})
    tokens.remove(path, "first")
    after = real.stat()
    assert path.is_symlink() and [one.name for one in tokens.load(path).values()] == ["second"]
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert sorted(os.listdir(real.parent)) == [".tokens.json.lock", "tokens.json"]
    unmade = tmp_path / "to.json"
    unmade.symlink_to(tmp_path / "real" / "other.json")
    tokens.add(unmade, {"name": "x", "read": ["#"]})
    assert (tmp_path / "real" / "other.json").is_file() and unmade.is_symlink()


def test_who_holds_the_lock_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setattr(replacing, "WAIT_S", 0.1)
    with (
        replacing.Replacing(path),
        pytest.raises(topicdb.LockedError, match=r"tokens\.json: another process"),
    ):
        tokens.add(path, {"name": "x", "read": ["#"]})
    assert not path.exists()
    tokens.add(path, {"name": "x", "read": ["#"]})
    with pytest.raises(topicdb.ExistsError), monkeypatch.context() as patch:
        patch.setattr(replacing.Replacing, "replace", lambda *_: pytest.fail("it was written"))
        tokens.add(path, {"name": "x", "read": ["#"]})

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    content = path.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(os, "fsync", fail)
        tokens.add(path, {"name": "y", "read": ["#"]})
    assert path.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == [".tokens.json.lock", "tokens.json"]


# Every call with every kind of token, over TLS


class Try(NamedTuple):
    """A use of the database, and the rights that a token needs for it."""

    call: str
    use: Callable[[topicdb.Database], Any]
    needs: dict[str, list[str]]
    wrong: dict[str, list[str]] | None = None  # rights that are not enough


READ = {"read": ["a/#"]}
WRITE = {"write": ["a/#"]}
ADMIN = {"admin": ["#"]}
OWN = {"names": ["consumer/c", "group/g", "session/s", "map/m"]}
FOLLOW = {**READ, **OWN}


def _commit(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.write("a/tx", 1, b"")


def _get(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.get("a/tx", 1)


def _require(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.require_absent("a/none", 1)


def _order(db: topicdb.Database, order: str) -> Any:
    """Sends an order of which no method of a log is in need."""
    return db._connection.call(f"replay.{order}", "l")  # type: ignore[attr-defined]


def _require_present(db: topicdb.Database) -> None:
    with suppress(topicdb.PreconditionError), db.transaction() as tx:
        tx.require_present("a/none", 1)


def _commit_async(db: topicdb.Database) -> None:
    tx = db.transaction()
    tx.write("a/tx", 1, b"")
    tx.commit_async().result(PATIENCE_S)


def _give_up(db: topicdb.Database) -> None:
    core: Any = db._core.begin(0, None, None)
    core.write("a/tx", 1, b"")
    core.get("a/tx", 1)  # sends the write
    core.begin_commit()
    assert core.give_up() == "not stored"


def _delete_in_transaction(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.delete("a/tx")


def _scan_in_transaction(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.scan("a/tx").to_list()


def _write_and_scan(db: topicdb.Database) -> None:
    with db.transaction() as tx:
        tx.write("a/tx", 2, b"")
        tx.scan("a/tx").to_list()


def _next(db: topicdb.Database) -> None:
    stream = db.streams("a/#")[0]
    db.next(db.iterator(stream, "a/#"))


def _scan_in_steps(db: topicdb.Database) -> None:
    db.next(db.scan_iterator(["a/b", "a/c"]), 1)


def _subscription(db: topicdb.Database) -> None:
    with db.subscribe("a/#", start="earliest") as messages:
        delivery = messages.next(PATIENCE_S)
        assert delivery is not None
        messages.ack(delivery.seqno)
        messages.pause()
        messages.resume()
        messages.info()
        places = list(zip(delivery.batch.serials, delivery.rows, strict=True))  # type: ignore[arg-type]
        messages._core.find(delivery.shard, [(int(s), int(r)) for s, r in places[:1]])


def _group(db: topicdb.Database) -> None:
    group = db.group("g", "a/#")
    group.members()
    group.lag()
    assert (group.lost, group.expired) == (0, 0)
    with group.join() as member:
        member.heartbeat()
        assert member.parts
        member.ack(member.poll(timeout=PATIENCE_S))
    group.close()


def _group_filters(db: topicdb.Database) -> None:
    group = db.group("g", "a/#")
    group.set_filters("a/+")
    group.set_filters("a/#")
    group.close()


def _count_dropped(db: topicdb.Database) -> None:
    assert db._core.count_dropped(0, ["a/#"], 0, (1, 0), 0) == 0


def _drop_group(db: topicdb.Database) -> None:
    db.group("g", "a/#").close()
    db.drop_group("g")


def _session(db: topicdb.Database) -> None:
    with db.session("s") as session:
        session.subscribe("a/#")


def _map(db: topicdb.Database) -> None:
    with db.map("m", takeover=True) as values:
        values["k"] = b"v"


def _scan_slices(db: topicdb.Database) -> None:
    db.scan_slices(db.slices("a/#"), "a/#").to_list()


def _scan_parcels(db: Any) -> None:
    with db._connection.told():
        slices = db.slices("a/#")
        db._connection.read("scan_parcels", ["a/#"], slices, True, 1 << 20).read_chunk()


def _stage(db: topicdb.Database) -> None:
    job = f"j{time.monotonic_ns()}"
    with jobs.StagedWriter(db, job) as writer:
        writer.append([("a/staged", 1, b"x")])
    jobs.commit(db, job, [writer.staged])


def _drop_slab(db: topicdb.Database) -> None:
    db.rotate()
    db.drop_slab(next(slab for slab in db.slabs() if slab.read_only))


def _log(db: topicdb.Database) -> replay.ReplayLog:
    return replay.open(db, "l")


def _queue(db: topicdb.Database) -> replay.Endpoint:
    return _log(db).endpoint("q")


def _receive(db: topicdb.Database) -> None:
    with _queue(db).bind() as flow:
        assert flow.active
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        flow.ack(message)


def _replayed(db: topicdb.Database) -> None:
    queue = _queue(db)
    queue.replay(rate=1e-3)
    queue.pause_replay()
    queue.resume_replay()
    queue.set_replay_rate(2e-3)
    queue.seek_replay("beginning")
    queue.cancel_replay()


def _changed(db: topicdb.Database) -> None:
    queue = _queue(db)
    queue.subscribe("a/y/z")
    queue.unsubscribe("a/y/z")
    queue.set_dead_letter("a_dead")
    queue.set_dead_letter(None)


def _made(db: topicdb.Database) -> None:
    log = _log(db)
    log.queue("made", "a/#")
    log.drop_endpoint("made")
    log.topic_endpoint("made", "a/#").change("a/x")
    log.drop_endpoint("made")


def _administered(db: topicdb.Database) -> None:
    log = _log(db)
    log.quota_bytes = 1 << 40
    log.set_filters("#")
    log.set_promotion([])
    log.trim(1)
    log.maintain()


def _dropped(db: topicdb.Database) -> None:
    replay.open(db, "other")
    replay.drop(db, "other")


CLIENT = {"read": ["a/#"], "names": ["endpoint/l/q"]}
NO_CLIENT = {
    "read": ["#"],
    "names": ["endpoint/l/p", "endpoint/m/q", "consumer/q"],
    "replay": ["+/+"],
}
REPLAY = {"replay": ["l/q"]}
NO_REPLAY = {"read": ["#"], "names": ["endpoint/+/+"], "replay": ["l/p", "m/q"], "write": ["#"]}
WATCH = {"replay": ["l/+"]}
NO_WATCH = {"replay": ["l/q", "m/+"], "names": ["endpoint/l/+"], "read": ["#"], "write": ["#"]}


def _bounded_tail(db: topicdb.Database) -> None:
    assert db._core.tail(["a/#"], {}, {0: 1}).shards() == [0]


# The calls by themselves: a client asks before each for the missing shards, and is refused there.
PARTIAL_CALLS: dict[str, list[Any]] = {
    "streams": ["a/#", None, None, None],
    "slices": [["a/#"], None, None, {}, {}, 1 << 20],
    "explain": ["a/#", None, None],
    "summarize": ["a/#", None, None, 0, None, 0],
    "scan_iterator": ["a/#", None, None],
    "check_log": [["a/#"], None, 0],
    "places_at": [["a/#"], 5],
    "tail": [["a/#"], {}, {}],
    "watch": ["a/#", True],
    "subscribe": [["a/#"], None, 0, 9, 1 << 20, (0, 1), {}],
}
PARTIAL_SCANS: dict[str, list[Any]] = {
    "scan": ["a/#", None, None, "stream", None],
    "last": ["a/#", None, None],
}


def _call_partial(call: str) -> Callable[[Any], Any]:
    return lambda db: db._connection.lease().call(f"partial.{call}", *PARTIAL_CALLS[call])


def _scan_partial(call: str) -> Callable[[Any], Any]:
    def use(db: Any) -> None:
        with db._connection.told():
            reader = db._connection.read(f"partial.{call}", *PARTIAL_SCANS[call], 9, 1 << 20, False)
            assert reader.read_chunk().data.num_rows > 0

    return use


EVERYTHING: dict[str, Any] = {"everything": True}
ALL_BUT_EVERYTHING = {"read": ["#"], "write": ["#"], "admin": ["#"], "names": ["map/+"]}
OTHER_READ = {"read": ["b/#", "a/+", "+/x", "$a/#"], "write": ["#"]}
ONE_TOPIC = {"read": ["b/#", "a/other"], "write": ["#"]}
OTHER_WRITE = {"write": ["b/#", "a/b", "$a/#"], "read": ["#"]}
NO_ADMIN = {"read": ["#"], "write": ["#"], "admin": ["a/#", "b/#"]}
NO_NAME = {"read": ["#"], "write": ["#"], "admin": ["#"], "names": ["consumer/x", "map/g"]}
TRIES = [
    Try("scan", lambda db: db.scan("a/#").to_list(), READ, OTHER_READ),
    Try("last", lambda db: db.last("a/#").to_list(), READ, OTHER_READ),
    Try("streams", lambda db: db.streams("a/#"), READ, OTHER_READ),
    Try("next", _next, READ, OTHER_READ),
    Try("iterator", _next, READ, OTHER_READ),
    Try("scan_iterator", _scan_in_steps, READ, {"read": ["a/b", "b/#"]}),
    Try("next_of_scan", _scan_in_steps, READ, {"read": ["a/b", "b/#"]}),
    Try("slices", lambda db: db.slices("a/#"), READ, OTHER_READ),
    Try("slices", lambda db: db.slices(["a/b", "a/c"]), READ, {"read": ["a/b", "b/#"]}),
    Try("slices", lambda db: db.slices(None), {"everything": True}, NO_NAME),  # type: ignore[dict-item]
    Try("scan_slices", _scan_slices, READ, OTHER_READ),
    Try("scan_parcels", _scan_parcels, READ, OTHER_READ),
    Try("extent", lambda db: db._extent(["a/#"]), READ, OTHER_READ),
    Try("extent", lambda db: db._extent(None), EVERYTHING, NO_NAME),
    Try("explain", lambda db: db.explain("a/#"), READ, OTHER_READ),
    Try("stage.files", _stage, EVERYTHING, ALL_BUT_EVERYTHING),
    Try("stage.upload", _stage, EVERYTHING, ALL_BUT_EVERYTHING),
    Try("stage.commit", _stage, EVERYTHING, ALL_BUT_EVERYTHING),
    Try(
        "stage.abort",
        lambda db: jobs.abort(db, "j"),
        EVERYTHING,
        ALL_BUT_EVERYTHING,
    ),
    Try("summarize", lambda db: db.summarize("a/#"), READ, OTHER_READ),
    Try(
        "measure_log",
        lambda db: db._core.measure_log(0, ["a/#"], 0, None, None, 9, 9),
        READ,
        OTHER_READ,
    ),
    Try(
        "check_log",
        lambda db: db._core.check_log(["a/#"], None, 0),
        READ,
        OTHER_READ,
    ),
    Try("places_at", lambda db: db._core.places_at(["a/#"], 5), READ, OTHER_READ),
    Try("tail", lambda db: list(db.tail("a/#", timeout=0)), READ, OTHER_READ),
    Try("tail.next", lambda db: list(db.tail("a/#", timeout=0)), READ, OTHER_READ),
    Try("watch", lambda db: list(db.watch_streams("a/#", timeout=0)), READ, OTHER_READ),
    Try("watch.next", lambda db: list(db.watch_streams("a/#", timeout=0)), READ, OTHER_READ),
    *(
        Try(call, _subscription, READ, OTHER_READ)
        for call in (
            "subscribe",
            "subscription.info",
            "subscription.find",
            "subscription.pause",
            "subscription.resume",
        )
    ),
    Try("missing_shards", lambda db: db._core.missing_shards("a/#"), READ, OTHER_READ),
    Try("tail.shards", _bounded_tail, READ, OTHER_READ),
    *(Try(f"partial.{one}", _call_partial(one), READ, OTHER_READ) for one in PARTIAL_CALLS),
    *(Try(f"partial.{one}", _scan_partial(one), READ, OTHER_READ) for one in PARTIAL_SCANS),
    Try("append", lambda db: db.append([("a/x", None, b"")]), WRITE, OTHER_WRITE),
    Try(
        "append", lambda db: db.append([("a/x", 1, b""), ("b/x", 1, b"")]), {"write": ["#"]}, WRITE
    ),
    Try("append", lambda db: db.append([("$x/y", 1, b"")]), {"write": ["$x/#"]}, {"write": ["#"]}),
    Try(
        "append_async",
        lambda db: db.append_async([("a/x", None, b"")]).result(PATIENCE_S),
        WRITE,
        OTHER_WRITE,
    ),
    Try("begin", _commit, WRITE, OTHER_WRITE),
    Try("transaction.commit", _commit, WRITE, OTHER_WRITE),
    Try("transaction.commit_each", _commit_async, WRITE, OTHER_WRITE),
    Try("transaction.give_up", _give_up, {**READ, **WRITE}, {**READ, "write": ["a/y"]}),
    Try("transaction.apply", _write_and_scan, {**READ, **WRITE}, {**READ, "write": ["a/y"]}),
    Try("transaction.get", _get, READ, ONE_TOPIC),
    Try("transaction.commit", _require, READ, ONE_TOPIC),
    Try("transaction.commit", _require_present, READ, ONE_TOPIC),
    Try("transaction.scan", _scan_in_transaction, READ, ONE_TOPIC),
    Try(
        "transaction.commit",
        _delete_in_transaction,
        {"admin": ["a/#"]},
        {"admin": ["b/#"], **WRITE},
    ),
    Try("delete", lambda db: db.delete("a/none"), {"admin": ["a/#"]}, {"admin": ["b/#"], **WRITE}),
    Try(
        "trim",
        lambda db: db.trim("1h", "a/#"),
        {"admin": ["a/#"]},
        {"admin": ["a/+"], "write": ["#"]},
    ),
    Try("trim", lambda db: db.trim("1h"), ADMIN, NO_ADMIN),
    Try("hold", lambda db: db.consumer("c", "a/#").close(), FOLLOW, NO_NAME),
    Try("subscribe", lambda db: db.consumer("c", "a/#").close(), FOLLOW, {**OWN, **OTHER_READ}),
    Try("hold", _session, FOLLOW, NO_NAME),
    Try("begin", _map, OWN, NO_NAME),
    *(
        Try(call, _group, FOLLOW, wrong)
        for call in (
            "group",
            "group.members",
            "group.lag",
            "group.lost",
            "group.expired",
            "group.join",
            "member.poll",
            "member.ack",
            "member.heartbeat",
            "member.parts",
        )
        for wrong in (NO_NAME, {**OWN, **OTHER_READ})
    ),
    Try("group.set_filters", _group_filters, FOLLOW, NO_NAME),
    Try("group.set_filters", _group_filters, FOLLOW, {**OWN, **OTHER_READ}),
    Try("count_dropped", _count_dropped, {"read": ["a/#"]}, {"read": ["b/#"]}),
    Try("replay.open", _log, WRITE, READ),
    Try("replay.open", lambda db: replay.open(db, "l", quota_bytes=0), ADMIN, NO_ADMIN),
    Try("replay.drop", _dropped, ADMIN, {**NO_ADMIN, "replay": ["+/+"]}),
    Try("replay.origin", lambda db: _order(db, "origin"), REPLAY, {"replay": ["m/+"]}),
    Try("replay.flush", lambda db: _log(db).flush(), CLIENT, {"replay": ["m/+"], **WRITE}),
    *(
        Try(call, use, {**WATCH}, NO_WATCH)
        for call, use in (
            ("replay.info", lambda db: _log(db).info()),
            ("replay.names", lambda db: _log(db).endpoints()),
            ("replay.events", lambda db: _log(db).events()),
        )
    ),
    *(
        Try(call, _administered, ADMIN, {**NO_ADMIN, "replay": ["+/+"]})
        for call in (
            "replay.set",
            "replay.filters",
            "replay.promotion",
            "replay.trim",
            "replay.maintain",
        )
    ),
    *(
        Try(call, use, needs, {"replay": ["l/p"], "names": ["endpoint/m/q"], "read": ["#"]})
        for needs in (REPLAY, CLIENT)
        for call, use in (
            ("replay.endpoint", _queue),
            ("replay.lag", lambda db: _queue(db).lag()),
            ("replay.progress", lambda db: _queue(db).progress()),
        )
    ),
    *(
        Try(call, _replayed, REPLAY, NO_REPLAY)
        for call in (
            "replay.start",
            "replay.cancel",
            "replay.pause",
            "replay.resume",
            "replay.rate",
            "replay.seek",
        )
    ),
    *(
        Try(call, _changed, {**REPLAY, **READ, "write": ["a_dead/#"]}, NO_REPLAY)
        for call in ("replay.subscribe", "replay.unsubscribe", "replay.dead_letter")
    ),
    Try("replay.subscribe", _changed, {**REPLAY, **READ, "write": ["#"]}, {**REPLAY, **OTHER_READ}),
    Try(
        "replay.dead_letter",
        _changed,
        {**REPLAY, "read": ["#"], "write": ["#"]},
        {**REPLAY, **READ},
    ),
    *(
        Try(call, _made, {**WATCH, **READ}, wrong)
        for call in ("replay.make", "replay.drop_endpoint", "replay.change")
        for wrong in (NO_REPLAY, {**WATCH, **OTHER_READ})
    ),
    *(
        Try(call, _receive, CLIENT, wrong)
        for call in ("replay.bind", "flow.receive", "flow.settle", "flow.active")
        for wrong in (NO_CLIENT, {**CLIENT, **OTHER_READ})
    ),
    Try(
        "replay.bind",
        lambda db: _queue(db).bind(replay="beginning").close(),
        {**CLIENT, **REPLAY},
        CLIENT,
    ),
    *(
        Try(call, lambda db: list(_queue(db).browse()), CLIENT, wrong)
        for call in ("replay.browse", "browser.page")
        for wrong in (NO_CLIENT, {**CLIENT, **OTHER_READ})
    ),
    Try(
        "replay.publish",
        lambda db: _log(db).publish([("a/direct", None, b"")], qos=0),
        WRITE,
        OTHER_WRITE,
    ),
    Try("find_append", lambda db: db.find_append("id"), ADMIN, NO_ADMIN),
    Try("drop_group", _drop_group, FOLLOW, NO_NAME),
    Try("verify", lambda db: db.verify(), ADMIN, NO_ADMIN),
    Try("snapshot", lambda db: db.snapshot(f"s-{time.monotonic_ns()}"), ADMIN, NO_ADMIN),
    Try("set_retention", lambda db: db.set_retention({}), ADMIN, NO_ADMIN),
    Try("quota", lambda db: db.quota, ADMIN, NO_ADMIN),
    Try("set_quota", lambda db: db.set_quota(None), ADMIN, NO_ADMIN),
    Try("rotate", lambda db: db.rotate(), ADMIN, NO_ADMIN),
    Try("jobs", lambda db: db._core.jobs(), ADMIN, NO_ADMIN),
    Try("slabs", lambda db: db.slabs(), ADMIN, NO_ADMIN),
    Try("expire", lambda db: db.expire(), ADMIN, NO_ADMIN),
    Try("usage", lambda db: db.usage(), ADMIN, NO_ADMIN),
    Try("usage_by_structure", lambda db: db.usage(by="structure"), ADMIN, NO_ADMIN),
    Try("maintain", lambda db: db.maintain(), ADMIN, NO_ADMIN),
    Try("stats", lambda db: db.stats(), ADMIN, NO_ADMIN),
    Try("subscription_stats", lambda db: db._core.subscription_stats(), ADMIN, NO_ADMIN),
    Try("flush", lambda db: db.flush(), ADMIN, NO_ADMIN),
    Try("retention", lambda db: db.retention, READ),
    Try("refresh", lambda db: db.refresh(), READ),
    Try("hello", lambda db: db.schema, READ),
    Try(
        "drop_slab",
        _drop_slab,
        ADMIN,
        NO_ADMIN,
    ),
]
# The first two concern only what the client has open. A database of one process has no cluster:
# tests/python/cluster try what concerns one.
WITHOUT_A_TRY = {"ping", "close", "cluster", "cluster.change", "cluster.heal", "cluster.verify"}


class Served(NamedTuple):
    """A server with TLS and a file of tokens."""

    server: Any
    tokens: Path
    certificates: Certificates
    database: topicdb.Database

    def token(self, **entry: Any) -> str:
        """Adds a token with these rights, and returns it."""
        return tokens.add(self.tokens, {"name": f"t{time.monotonic_ns()}", **entry})

    def connect(self, token: str | None) -> topicdb.Database:
        """Connects a client over TLS."""
        return topicdb.connect(
            self.server.url.replace("127.0.0.1", "localhost"),
            token=token,
            tls_root_certs=self.certificates.root,
        )

    def look_again(self) -> None:
        """Makes the server read the file of tokens again without waiting for a second."""
        self.server._gate._tokens._look_at = 0.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    certificates = make_certificates(directory / "tls")
    path = directory / "tokens.json"
    tokens.add(path, {"name": "first", "read": ["#"]})
    (directory / "snapshots").mkdir()
    with (
        topicdb.open(directory / "db") as database,
        serving(
            database,
            tls_certificate=certificates.certificate,
            tls_key=certificates.key,
            tokens=path,
            snapshots=directory / "snapshots",
        ) as server,
    ):
        yield Served(server, path, certificates, database)


@pytest.fixture
def filled(served: Served) -> Served:
    service = served.server.service
    if "l" not in replay_names(served.database):
        replay.open(served.database, "l").close()
    service.replays.log("l").queue("q", "a/#", spool=1_000_000, spool_bytes=64 << 20)
    served.database.append([("a/x", None, b"1"), ("a/y/z", None, b"2"), ("b/x", None, b"3")])
    return served


def test_every_call_is_tried(served: Served) -> None:
    service = served.server.service
    calls = {*service._plain, *service._calls, *service._reads}
    calls |= {"append", "append_async", "replay.publish"}
    assert calls > set(served_methods())
    assert calls - WITHOUT_A_TRY == {one.call for one in TRIES}


@pytest.mark.parametrize("one", TRIES, ids=lambda one: one.call)
def test_what_is_permitted_is_done_and_nothing_else(filled: Served, one: Try) -> None:
    token = filled.token(**one.needs)
    filled.look_again()
    with filled.connect(token) as db:
        one.use(db)
    if one.wrong is not None:
        before = _content(filled.database)
        token = filled.token(**one.wrong)
        filled.look_again()
        with (
            filled.connect(token) as db,
            pytest.raises(topicdb.AccessError, match="may not"),
        ):
            one.use(db)
        assert _content(filled.database) == before


@pytest.mark.parametrize("filter", ["a/#", ["a/b", "b/x"], None])
def test_an_iterator_that_another_has_made_gives_no_more_rights(
    filled: Served, filter: str | list[str] | None
) -> None:
    scan = filled.database.scan_iterator(filter)
    iterator = filled.database.iterator(filled.database.streams("a/#")[0], "a/#")
    token = filled.token(**ONE_TOPIC)
    filled.look_again()
    with filled.connect(token) as db:
        for one in (scan, iterator):
            with pytest.raises(topicdb.AccessError, match="may not read"):
                db.next(one)


def _content(database: topicdb.Database) -> list[topicdb.Message]:
    """Returns all messages except those that keep the state of consumers and groups."""
    return database.scan("#").to_list()


def test_without_a_token_nothing_is_done(filled: Served) -> None:
    for token, word in ((None, "a token is needed"), ("wrong", "not known here"), ("", "needed")):
        with pytest.raises(topicdb.AccessError, match=word):
            filled.connect(token)


def raw(
    served: Served, headers: list[tuple[bytes, bytes]], *, lasting: bool = True
) -> Iterator[Callable[[], Any]]:
    """Yields every way to call the server, with arguments that keep no rule."""
    client = flight.FlightClient(
        served.server.url.replace("127.0.0.1", "localhost"),
        tls_root_certs=served.certificates.root.read_bytes(),
    )
    options = flight.FlightCallOptions(headers=headers)

    def act(call: str) -> None:
        list(client.do_action(flight.Action(call, encode([])), options))

    def read(call: str) -> None:
        client.do_get(flight.Ticket(encode([call])), options).read_all()

    for call in {*served.server.service._plain, *served.server.service._calls, "nothing"}:
        yield partial(act, call)
    lasts = ["connection"] if lasting else []  # only where it is refused, as it would last
    for call in (*served.server.service._reads, *lasts, "subscription"):
        yield partial(read, call)
    for method in ("append", "append_async"):
        descriptor = flight.FlightDescriptor.for_command(encode([method, None]))

        def put(descriptor: Any = descriptor) -> None:
            batch = served.database.scan("b/#").to_arrow()
            writer, _ = client.do_put(descriptor, batch.schema, options)
            with writer:
                writer.write_table(batch)

        yield put
    descriptor = flight.FlightDescriptor.for_path("x")
    yield lambda: list(client.list_flights(b"", options))
    yield lambda: client.get_flight_info(descriptor, options)
    yield lambda: client.get_schema(descriptor, options)
    yield lambda: list(client.list_actions(options))
    yield lambda: client.do_exchange(descriptor, options)[1].read_chunk()
    yield lambda: list(client.do_action(flight.Action("topicdb", b"\xff" * 50), options))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Basic Zmlyc3Q6Zmlyc3Q=")],
        [(b"authorization", b"expired")],
        [(b"authorization", b"revoked")],
        [(b"topicdb-connection", b"x")],
    ],
    ids=["none", "wrong", "empty", "other scheme", "expired", "revoked", "connection"],
)
def test_no_way_in(filled: Served, headers: list[tuple[bytes, bytes]]) -> None:
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    expired = filled.token(everything=True, expires=past.isoformat())
    revoked = filled.token(everything=True)
    tokens.remove(filled.tokens, tokens.read_entries(filled.tokens)[-1]["name"])
    filled.look_again()
    bearer = {b"expired": f"Bearer {expired}".encode(), b"revoked": f"Bearer {revoked}".encode()}
    sent = [(name, bearer.get(value, value)) for name, value in headers]
    before = filled.database.scan("#").count()
    refused_before = filled.server.meter.told().refusals.get("AccessError", 0)
    tried = 0
    for use in raw(filled, sent):
        tried += 1
        with pytest.raises(
            (flight.FlightUnauthorizedError, OSError), match="Unauthorized"
        ) as caught:
            use()
        if isinstance(caught.value, flight.FlightError):  # get_schema gives an OSError
            assert decode(caught.value.extra_info)["kind"] == "AccessError"
    assert filled.database.scan("#").count() == before
    refused = filled.server.meter.told().refusals["AccessError"] - refused_before
    assert refused == tried


def test_what_nobody_asked_for_is_refused_with_a_token(filled: Served) -> None:
    """Malformed calls with a token for everything give errors, and no crash and no change."""
    token = filled.token(everything=True)
    filled.look_again()
    headers = [(b"authorization", f"Bearer {token}".encode())]
    wrong = 0
    before = filled.database.scan("#").count()
    for use in raw(filled, headers, lasting=False):
        try:
            use()
        except (flight.FlightError, NotImplementedError):
            wrong += 1
    assert wrong > 40 and filled.database.scan("#").count() >= before
    with filled.connect(token) as db:
        assert db.scan("a/x").count() > 0


def test_what_lasts_ends_with_its_token(filled: Served) -> None:
    soon = datetime.now(timezone.utc) + timedelta(seconds=15)  # long enough for connecting
    token = filled.token(read=["a/#"], expires=soon.isoformat())
    filled.look_again()
    with filled.connect(token) as db:
        messages = db.subscribe("a/#")
        tail = db.tail("a/#", timeout=PATIENCE_S)
        with pytest.raises(topicdb.AccessError, match="has expired"):
            messages.next(PATIENCE_S)
        with pytest.raises((topicdb.AccessError, topicdb.UnavailableError)):
            list(tail)
        filled.database.append([("a/x", None, b"late")])
        with pytest.raises((topicdb.AccessError, topicdb.UnavailableError)):
            db.subscribe("a/#")


def test_a_scan_ends_with_its_token(filled: Served) -> None:
    filled.database.append([("scan/x", None, os.urandom(10_000)) for _ in range(3_000)])
    token = filled.token(read=["scan/#"])
    name = tokens.read_entries(filled.tokens)[-1]["name"]
    filled.look_again()
    with filled.connect(token) as db:
        batches = db.scan("scan/#").batches(rows=10)
        assert len(next(batches)) == 10
        tokens.remove(filled.tokens, name)
        filled.look_again()
        with pytest.raises(topicdb.AccessError, match="revoked"):
            for _ in batches:
                pass
    filled.database.delete("scan/#")


def test_what_another_has_open_cannot_be_reached(filled: Served) -> None:
    first, second = (filled.token(read=["a/#"], write=["a/#"]) for _ in range(2))
    filled.look_again()
    with filled.connect(first) as one, filled.connect(second) as two:
        tx = one.transaction()
        tx.write("a/secret", 1, b"")
        tx.get("a/secret", 1)
        lease = two._connection.lease()  # type: ignore[attr-defined]
        for number in range(1, 50):
            with pytest.raises(topicdb.ClosedError, match="transaction is over"):
                lease.call("transaction.commit", number, [])
        assert tx.open
        tx.commit()


def test_of_many_appends_those_that_may_be_are_stored(filled: Served) -> None:
    token = filled.token(write=["many/#"])
    filled.look_again()
    before = filled.database.scan("b/#").count()
    with filled.connect(token) as db:
        futures = [db.append_async([(("many", "b")[i % 2] + "/x", i, b"")]) for i in range(40)]
        for number, future in enumerate(futures):
            if number % 2:
                with pytest.raises(topicdb.AccessError, match="may not write 'b/x'"):
                    future.result(PATIENCE_S)
            else:
                assert future.result(PATIENCE_S).count == 1
    assert filled.database.scan("many/#").count() == 20
    assert filled.database.scan("b/#").count() == before


def test_columns_of_topics_that_are_no_text_are_refused(filled: Served) -> None:
    token = filled.token(write=["a/#"])
    filled.look_again()
    before = filled.database.scan("#").count()
    with filled.connect(token) as db:
        for column in (pa.array([1]), pa.array([b"b/x"])):
            with pytest.raises(ValueError, match="topic"):
                db.append(pa.table({"topic": column, "value": [b""]}))
        for column in (
            pa.array(["b/x"]).dictionary_encode(),
            pa.array(["b/x"], pa.string_view()),
            pc.run_end_encode(pa.array(["b/x"])),
        ):
            with pytest.raises(topicdb.AccessError, match="may not write 'b/x'"):
                db.append(pa.table({"topic": column, "value": [b""]}))
        twice = pa.RecordBatch.from_arrays(
            [pa.array(["a/x"]), pa.array(["b/x"]), pa.array([b""])],
            names=["topic", "topic", "value"],
        )
        with pytest.raises((topicdb.Error, ValueError, KeyError)):
            db.append(twice)
    assert filled.database.scan("#").count() == before


def test_what_an_owner_has_spoilt_spoils_nothing_else(filled: Served) -> None:
    token = filled.token(names=["consumer/spoilt", "session/spoilt"])
    filled.look_again()
    nested = b"[" * 100_000
    with filled.connect(token) as db:
        for value in (b"{", nested, b"[]", b'{"epoch":1,"kept":{"parts":1e9},"places":{}}'):
            core = db._core.begin(0, None, None)
            core.write("$topicdb/consumer/spoilt/state", 0, value, True)
            with pytest.raises(ValueError, match=r"no state of a name|has 1 to"):
                core.commit()
        core = db._core.begin(0, None, None)
        core.write("$topicdb/session/spoilt/state", 0, b"{", True)
        core.commit()
    with filled.database.transaction(shard=0) as tx:  # as by a server of an earlier release
        tx._core.write("$topicdb/consumer/spoilt/state", 0, nested, True)
    token = filled.token(everything=True)
    filled.look_again()
    with filled.connect(token) as db:
        db.session("good", expiry="1h").close()
        assert "spoilt" not in db.sessions()
    filled.server.service.expire_sessions()
    assert standings(filled.database._core, "consumer")["spoilt"] is None
    assert "spoilt" not in [reader.name for reader in filled.database.standings()]
    with pytest.raises(ValueError, match="no state of a name"):
        filled.database.consumer("spoilt", "a/#")
    registry = CollectorRegistry()
    registry.register(Collector(filled.database, filled.server))
    assert b"topicdb_up 1.0" in generate_latest(registry)


def test_a_server_that_is_not_who_it_says_is_not_trusted(filled: Served, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other")
    url = filled.server.url.replace("127.0.0.1", "localhost")
    token = filled.token(read=["#"])
    filled.look_again()
    with pytest.raises(topicdb.UnavailableError):
        topicdb.connect(url, token=token, tls_root_certs=other.root)
    with pytest.raises(topicdb.UnavailableError):
        topicdb.connect(url, token=token)
    with pytest.raises(topicdb.UnavailableError):  # without TLS
        topicdb.connect(url.replace("grpc+tls", "grpc"), token=token)
    entries = json.loads(filled.tokens.read_text())["tokens"]
    assert all(token not in json.dumps(entry) for entry in entries)

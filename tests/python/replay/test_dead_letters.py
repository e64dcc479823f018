"""Tests of dead letters: messages that were rejected, or expired before a client had them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb import replay
from topicdb.arguments.times import now_us
from topicdb.replay.endpoint.dead_letters import PROPERTY, TOPIC_BYTES_MAX
from topicdb.replay.endpoint.expiry import Expiry
from topicdb.replay.records import EndpointRecord

BASE = 1_700_000_000_000_000
DEAD = "$dead/q"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


@pytest.fixture
def log(db: topicdb.Database) -> Iterator[replay.ReplayLog]:
    with replay.open(db) as opened:
        yield opened


def publish(log: replay.ReplayLog, *values: bytes, expiry_s: int | None = None) -> None:
    """Publishes messages that expire so many seconds after ``BASE``, long ago; None: never."""
    rows = []
    for number, value in enumerate(values):
        envelope = replay.Envelope(value, message_expiry_s=expiry_s, content_type="text/plain")
        rows.append(("a/1", BASE + number, envelope.encode()))
    log.publish(rows, raw=True)


def received(flow: replay.Flow) -> replay.ReplayMessage:
    message = flow.receive(timeout=PATIENCE_S)
    assert message is not None
    return message


def told(letter: replay.ReplayMessage) -> dict[str, str]:
    """Returns what a dead letter says of how it came to be one."""
    assert letter.envelope is not None
    return {
        name.removeprefix(PROPERTY): value
        for name, value in letter.envelope.user_properties
        if name.startswith(PROPERTY)
    }


def letters(db: topicdb.Database) -> list[bytes]:
    return [message.value for message in db.scan("$dead/#")]


def stored(db: topicdb.Database, filter: str) -> list[Any]:
    """Returns the messages with their properties."""
    return list(db.scan(filter, properties=True))


# Rejected messages


def test_a_rejected_message_goes_to_who_subscribes_to_dead_letters(log: replay.ReplayLog) -> None:
    queue, dead = log.queue("q", "#", dead_letter=DEAD), log.queue("dead", f"{DEAD}/#")
    publish(log, b"good", b"bad")
    with queue.bind(client="c") as flow:
        flow.ack(received(flow))
        bad = received(flow)
        flow.reject(bad)
        assert flow.receive(timeout=0.05) is None  # not its own dead letter
    with dead.bind() as flow:
        letter = received(flow)
        assert letter[:3] == (f"{DEAD}/a/1", bad.timestamp, b"bad")
        found = told(letter)
        assert BASE < int(found.pop("time")) <= now_us()
        assert found == {
            "reason": "rejected",
            "endpoint": "default/q",
            "topic": "a/1",
            "id": str(bad.id),
            "client": "c",
        }
        assert letter.envelope is not None and letter.envelope.content_type == "text/plain"
        flow.ack(letter)
        assert flow.receive(timeout=0.05) is None
    counts = queue.info()["counts"]
    assert (counts["acknowledged"], counts["rejected"], counts["expired"]) == (1, 1, 0)


def test_letters_are_stored_even_if_nobody_subscribes_to_them(
    db: topicdb.Database, log: replay.ReplayLog
) -> None:
    queue, other = log.queue("q", "#", dead_letter=DEAD), log.queue("other", "#")
    log.publish([("a/1", BASE, b"plain"), ("$a/2", BASE, b"reserved"), ("a/3", BASE, b"")])
    queue.subscribe("$a/#")
    log.publish([("$a/2", BASE, b"reserved")])
    with queue.bind() as flow:
        flow.reject(received(flow), received(flow), received(flow))
    assert [(m.topic, m.value) for m in db.scan("$dead/#", order="time")] == [
        (f"{DEAD}/a/1", b"plain"),
        (f"{DEAD}/a/3", b""),
        (f"{DEAD}/$a/2", b"reserved"),
    ]
    with other.bind() as flow:
        assert [received(flow).value for _ in range(2)] == [b"plain", b""]
        assert flow.receive(timeout=0.05) is None  # letters are below a topic that begins with $
    other.replay()
    with other.bind() as flow:
        assert [received(flow).value for _ in range(2)] == [b"plain", b""]


def test_batches_are_rejected_together(db: topicdb.Database, log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD)
    publish(log, *(b"%d" % number for number in range(10)))
    with queue.bind() as flow:
        batch = flow.receive_batch(10, timeout=PATIENCE_S)
        assert batch is not None
        before = db.stats()["shards"][0]["serial"]
        flow.reject(batch, *batch.ids[:3])
        assert sorted(letters(db)) == sorted(batch.batch.values)
        (found,) = [b.serials for b in db.scan("$dead/#").batches(serials=True)]
        assert found is not None and set(found.tolist()) == {before + 1}  # in one commit


def test_what_cannot_be_stored_is_not_removed(
    log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD)
    publish(log, b"bad")
    with queue.bind() as flow:
        message = received(flow)

        def full(*_: object) -> None:
            raise topicdb.QuotaError("there is no room")

        with monkeypatch.context() as patched:
            patched.setattr(type(queue._parts.host), "append", full)
            with pytest.raises(topicdb.QuotaError):
                flow.reject(message)
        assert queue.info()["counts"]["rejected"] == 0
        flow.release(message)
        assert received(flow).value == b"bad"


def test_a_topic_that_would_be_too_long_is_only_in_the_properties(log: replay.ReplayLog) -> None:
    queue, dead = log.queue("q", "#", dead_letter=DEAD), log.queue("dead", f"{DEAD}/#")
    topic = "ü" * (TOPIC_BYTES_MAX // 2)
    log.publish([(topic, BASE, b"x")])
    with queue.bind() as flow:
        flow.reject(received(flow))
    with dead.bind() as flow:
        letter = received(flow)
        assert letter.topic == DEAD and told(letter)["topic"] == topic


def test_a_replay_goes_on_if_the_message_is_kept_as_a_dead_letter(log: replay.ReplayLog) -> None:
    queue, strict = log.queue("q", "#", dead_letter=DEAD), log.queue("strict", "#")
    publish(log, b"0", b"1")
    for endpoint in (queue, strict):
        endpoint.replay()
    with queue.bind() as flow:
        flow.reject(received(flow))
        assert received(flow).value == b"1"
    with strict.bind() as flow:
        flow.reject(received(flow))
        with pytest.raises(replay.RejectedMessageError):
            flow.receive(timeout=PATIENCE_S)


def test_letters_of_letters(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD)
    dead = log.queue("dead", f"{DEAD}/#", dead_letter="$worse")
    publish(log, b"bad")
    with queue.bind() as flow:
        flow.reject(received(flow))
    with dead.bind() as flow:
        letter = received(flow)
        flow.reject(letter)
    (worse,) = stored(log._database, "$worse/#")
    assert worse.topic == f"$worse/{DEAD}/a/1"
    assert dict(worse.properties.user_properties)[f"{PROPERTY}endpoint"] == "default/dead"


# Expired messages


def test_expired_messages_are_removed_where_that_is_wanted(
    db: topicdb.Database, log: replay.ReplayLog
) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD, expired="remove")
    silent, lenient = log.queue("silent", "#", expired="remove"), log.queue("lenient", "#")
    publish(log, b"old", expiry_s=1)
    publish(log, b"new", expiry_s=10_000_000_000)
    publish(log, b"ever")
    log.publish([("a/1", BASE, b"plain")])
    for endpoint, values in (
        (queue, [b"new", b"ever", b"plain"]),
        (silent, [b"new", b"ever", b"plain"]),
        (lenient, [b"old", b"new", b"ever", b"plain"]),
    ):
        with endpoint.bind() as flow:
            found = [received(flow) for _ in values]
            assert [message.value for message in found] == values
            assert flow.receive(timeout=0.05) is None
            flow.ack(*found)
    wait_until(lambda: letters(db) == [b"old"])
    wait_until(lambda: queue.info()["counts"]["expired"] == 1)
    wait_until(lambda: silent.info()["counts"]["expired"] == 1)
    assert letters(db) == [b"old"] and lenient.info()["counts"]["expired"] == 0
    (letter,) = stored(db, "$dead/#")
    assert letter.properties.message_expiry_s is None  # it does not expire once more
    assert dict(letter.properties.user_properties)[f"{PROPERTY}reason"] == "expired"


def test_a_message_expires_while_it_waits(db: topicdb.Database, log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD, expired="remove")
    value = replay.Envelope(b"soon", message_expiry_s=1).encode()
    log.publish([("a/1", None, value)], raw=True)
    wait_until(lambda: letters(db) == [b"soon"])
    wait_until(lambda: queue.info()["messages"] == 0)


def test_what_a_client_has_does_not_expire_until_it_waits_again(
    db: topicdb.Database, log: replay.ReplayLog
) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD, expired="remove")
    flow = queue.bind()
    publish(log, b"acked", b"released", b"left", expiry_s=10_000_000_000)
    found = [received(flow) for _ in range(3)]
    moment = [now_us() + 20_000_000_000_000_000]  # later than all of them
    queue._parts.contents.expiry._now_us = lambda: moment[0]
    queue.step()  # looks at what waits, of which there is nothing
    flow.ack(found[0])
    assert queue.info()["messages"] == 2
    flow.release(found[1])
    wait_until(lambda: letters(db) == [b"released"])
    flow.close()
    wait_until(lambda: sorted(letters(db)) == [b"left", b"released"])
    wait_until(lambda: queue.info()["messages"] == 0)
    assert queue.info()["counts"]["acknowledged"] == 1


def test_a_replay_brings_what_has_expired(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", expired="remove")
    publish(log, b"old", expiry_s=1)
    wait_until(lambda: queue.info()["counts"]["expired"] == 1)
    queue.replay()
    with queue.bind() as flow:
        message = received(flow)
        assert message.value == b"old"
        flow.ack(message)
        wait_until(lambda: queue.state is replay.State.COMPLETE)
    assert queue.info()["counts"]["expired"] == 1


def test_expired_messages_wait_if_their_letters_cannot_be_stored(
    db: topicdb.Database, log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = log.queue("q", "#", dead_letter=DEAD, expired="remove")
    tried: list[int] = []

    def full(*_: object) -> None:
        tried.append(1)
        raise topicdb.QuotaError("there is no room")

    with monkeypatch.context() as patched:
        patched.setattr(type(queue._parts.host), "append", full)
        publish(log, b"old", expiry_s=1)
        wait_until(lambda: tried)
        with queue.bind() as flow:
            assert flow.receive(timeout=0.05) is None
        assert queue.info()["messages"] == 1
    wait_until(lambda: letters(db) == [b"old"])
    wait_until(lambda: queue.info()["messages"] == 0)


def test_the_rule_can_be_changed(db: topicdb.Database, log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, b"old", expiry_s=1)
    wait_until(lambda: queue.info()["messages"] == 1)
    queue.set_dead_letter(DEAD, expired="remove")
    wait_until(lambda: letters(db) == [b"old"])
    queue.set_dead_letter(None)
    publish(log, b"given", expiry_s=1)
    with queue.bind() as flow:
        message = received(flow)
        assert message.value == b"given"
        flow.reject(message)
    assert letters(db) == [b"old"]
    info = queue.info()
    assert (info["dead_letter"], info["expired"]) == (None, "give")


def test_nothing_is_looked_at_where_nothing_expires() -> None:
    expiry = Expiry(EndpointRecord("q", "queue", True, [], replay.MessageId(0, 1, 0).place))
    assert expiry.accepts(None) is None and expiry.wait_s() is None
    expiry.given_back()
    assert expiry.accepts(None) is None and expiry.wait_s() is None


# Options


def test_options_of_dead_letters_that_cannot_be(log: replay.ReplayLog) -> None:
    queue = log.queue("q", ["a/#", "b"], dead_letter=DEAD)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"dead_letter": "a/+"}, "a/\\+"),
        ({"dead_letter": ""}, "topic"),
        ({"dead_letter": "$topicdb/x"}, "TopicDB's own"),
        ({"dead_letter": "$share/x"}, "TopicDB's own"),
        ({"dead_letter": "x/y"}, "its own dead letters"),
        ({"expired": "forget"}, "expired"),
    ]
    for options, words in bad:
        with pytest.raises(ValueError, match=words):
            log.queue("other", "#", **options)
    assert [endpoint.name for endpoint in log.endpoints()] == ["q"]
    others: list[dict[str, Any]] = [{"dead_letter": "$other"}, {"expired": "remove"}]
    for options in others:
        with pytest.raises(ValueError, match=f"{next(iter(options))}: endpoint 'q' has"):
            log.queue("q", **options)
    assert log.queue("q", dead_letter=DEAD, expired="give") is queue
    for filter in ("$dead/#", f"{DEAD}/x", f"{DEAD}/#"):
        with pytest.raises(ValueError, match="its own dead letters"):
            queue.subscribe(filter)
    for topic, expired in (("a", "give"), ("a/x/y", "give"), (DEAD, "sell")):
        with pytest.raises(ValueError, match=r"dead_letter|expired"):
            queue.set_dead_letter(topic, expired=expired)  # type: ignore[arg-type]
    endpoint = log.topic_endpoint("t", "c", dead_letter=DEAD)
    with pytest.raises(ValueError, match="its own dead letters"):
        endpoint.change("$dead/+/c")
    assert endpoint.subscriptions == ["c"] and queue.subscriptions == ["a/#", "b"]


def test_options_are_there_after_a_restart(db: topicdb.Database) -> None:
    with replay.open(db) as log:
        log.queue("q", "#", dead_letter=DEAD, expired="remove")
    with replay.open(db) as log:
        info = log.endpoint("q").info()
        assert (info["dead_letter"], info["expired"]) == (DEAD, "remove")
        publish(log, b"old", expiry_s=1)
        wait_until(lambda: letters(db) == [b"old"])


# Crashes

_PROGRAM = """
import sys
import topicdb
from topicdb import replay

with topicdb.open(sys.argv[1]) as db:
    log = replay.open(db)
    queue = log.queue("q", "a", spool=50, dead_letter="$dead/q")
    if sys.argv[2] == "start":
        log.publish([("a", 1_700_000_000_000_000 + n, b"%d" % n) for n in range(1_000)])
    with queue.bind() as flow:
        while queue.lag() > 0 or queue.info()["messages"] > 0:
            message = flow.receive(timeout=0.1)
            if message is not None:
                flow.reject(message)
                print(message.value.decode(), flush=True)
"""


@pytest.mark.parametrize("reach", [3, 222])
def test_a_killed_process_loses_no_dead_letter(tmp_path: Path, reach: int) -> None:
    path = tmp_path / "crash.db"
    rejected = set()
    with Child(_PROGRAM, path, "start") as child:
        is_killed = False
        while line := child.read_line():
            rejected.add(line.encode())
            if len(rejected) >= reach and not is_killed:
                child.kill()
                is_killed = True
    with topicdb.open(path) as db:
        found = letters(db)
        assert rejected <= set(found)
        assert len(found) == len(set(found)) <= len(rejected) + 1  # one may not have been told of
    with Child(_PROGRAM, path, "go on") as child:
        code, _, errors = child.finish()
        assert code == 0, errors
    with topicdb.open(path) as db:
        assert set(letters(db)) == {b"%d" % number for number in range(1_000)}

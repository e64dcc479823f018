"""Tests of the bridge with a real Mosquitto: what it stores, when it acknowledges, and history."""

from __future__ import annotations

import json
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from brokers import MOSQUITTO, Broker, mosquitto, unsent_bytes
from mqtt_clients import Asker, Publisher, connected, has_stored, values
from paho.mqtt.client import MQTTv5, MQTTv311
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.arguments.times import now_us
from topicdb.bridge import Bridge
from topicdb.bridge.client import StoringClient
from topicdb.bridge.options import widest
from topicdb.bridge.storing import Arrival, Part, Store
from topicdb.replay import Envelope

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=2) as database:
        yield database


def test_everything_of_a_message_is_stored(broker: Broker, db: topicdb.Database) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        publisher.publish(
            "a/ü",
            b"\x00\xff",
            2,
            retain=True,
            PayloadFormatIndicator=0,
            MessageExpiryInterval=1_000,
            ContentType="image/x",
            ResponseTopic="re/1",
            CorrelationData=b"\x01\x02",
            UserProperty=[("client-id", "pump-7"), ("unit", "°C"), ("unit", "K")],
        )
        publisher.publish("a/0", b"zero", 0)
        publisher.publish("a/1", b"", 1)
        has_stored(bridge, 3)
    found = {message.topic: Envelope.decode(message.value) for message in db.scan("#", raw=True)}
    full = found["a/ü"]
    assert full is not None
    assert full == Envelope(
        b"\x00\xff",
        qos=2,
        retain=full.retain,
        client_id="pump-7",
        payload_format=full.payload_format,
        message_expiry_s=full.message_expiry_s,
        content_type="image/x",
        response_topic="re/1",
        correlation_data=b"\x01\x02",
        user_properties=(("client-id", "pump-7"), ("unit", "°C"), ("unit", "K")),
    )
    assert full.message_expiry_s is not None and 0 < full.message_expiry_s <= 1_000
    assert found["a/0"] == Envelope(b"zero") and found["a/1"] == Envelope(b"", qos=1)


def test_the_devices_own_time(
    broker: Broker, db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_us = now_us()
    made_us = began_us - 3_600_000_000
    have_come = threading.Event()
    original = Store._commit

    def commit(self: Store, part: Part) -> int:
        assert have_come.wait(PATIENCE_S)
        return original(self, part)

    monkeypatch.setattr(Store, "_commit", commit)
    with (
        Bridge(db, "127.0.0.1", broker.port, timestamp="field:ts", timestamp_unit="us") as bridge,
        Publisher(broker.port) as publisher,
    ):
        connected(bridge)
        publisher.publish("b", b"no JSON", 1)
        wait_until(lambda: bridge.status().received == 1)
        # While it stores that message the others come, and it takes them together.
        for ts in (made_us, made_us, made_us - 5, "never", began_us - 40 * 86_400_000_000):
            publisher.publish("a", json.dumps({"ts": ts}).encode(), 1)
        wait_until(lambda: unsent_bytes(broker.port) == 0)
        have_come.set()
        has_stored(bridge, 6)
        assert bridge.status().untimed == 3 and bridge.status().refused == 0
    found: Any = db.scan("#", order="time", properties=True).to_list()
    assert [m.timestamp - made_us for m in found[:3]] == [-5, 0, 1]  # none replaces another
    assert all(began_us <= m.properties.received for m in found)
    assert [m.properties.received == m.timestamp for m in found] == [False] * 3 + [True] * 3
    with pytest.raises(ValueError, match="need protocol='5'"):
        Bridge(db, "broker", protocol="3.1.1", timestamp="property:at")


def test_a_value_that_looks_like_an_envelope_is_a_payload(
    broker: Broker, db: topicdb.Database
) -> None:
    value = Envelope(b"inner", qos=1).encode()
    for keeps in (True, False):
        with (
            Bridge(db, "127.0.0.1", broker.port, envelope=keeps, name=f"b{keeps}") as bridge,
            Publisher(broker.port) as publisher,
        ):
            connected(bridge)
            publisher.publish(f"a/{keeps}", value, 1)
            has_stored(bridge, 1)
        assert [m.value for m in db.last(f"a/{keeps}")] == [value]


def test_retained_messages_say_so(broker: Broker, db: topicdb.Database) -> None:
    with Publisher(broker.port) as publisher:
        publisher.publish("a", b"kept", retain=True)
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        has_stored(bridge, 1)
    (message,) = db.scan("#", raw=True)
    assert Envelope.decode(message.value) == Envelope(b"kept", qos=1, retain=True)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_what_comes_while_it_is_away_is_stored_when_it_is_back(
    broker: Broker, db: topicdb.Database, protocol: Literal["5", "3.1.1"]
) -> None:
    options: dict[str, Any] = {"filters": ["a/#", "b/+"], "protocol": protocol}
    version = MQTTv5 if protocol == "5" else MQTTv311
    with Publisher(broker.port, version) as publisher:
        with Bridge(db, "127.0.0.1", broker.port, **options) as bridge:
            connected(bridge)
            publisher.publish("a/1", b"0")
            has_stored(bridge, 1)
        for number in range(1, 50):
            publisher.publish("b/1", b"%d" % number, number % 2 + 1)
        publisher.publish("c", b"not wanted")
        with Bridge(db, "127.0.0.1", broker.port, **options) as bridge:
            has_stored(bridge, 49)
    assert sorted(values(db), key=int) == [b"%d" % number for number in range(50)]


def test_payloads_alone(broker: Broker, db: topicdb.Database) -> None:
    with (
        Bridge(db, "127.0.0.1", broker.port, envelope=False) as bridge,
        Publisher(broker.port) as publisher,
    ):
        connected(bridge)
        publisher.publish("a", b"bare")
        has_stored(bridge, 1)
    assert [message.value for message in db.scan("#")] == [b"bare"]


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_is_acknowledged_before_it_is_stored(
    broker: Broker, db: topicdb.Database, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """While commits fail, the bridge acknowledges nothing: the broker keeps the messages for it."""
    fails = threading.Event()
    fails.set()
    original = Store._commit

    def commit(self: Store, *arguments: Any) -> int:
        if fails.is_set():
            raise topicdb.QuotaError("there is no room")
        return original(self, *arguments)

    monkeypatch.setattr(Store, "_commit", commit)
    with Publisher(broker.port) as publisher:
        with Bridge(db, "127.0.0.1", broker.port) as bridge:
            connected(bridge)
            publisher.publish("a", b"1", qos)
            wait_until(lambda: "no room" in bridge.status().last_error)
        assert db.scan("#").count() == 0
        with Bridge(db, "127.0.0.1", broker.port) as bridge:
            wait_until(lambda: "no room" in bridge.status().last_error)
            fails.clear()
            has_stored(bridge, 1)
            publisher.publish("a", b"2", qos)
            has_stored(bridge, 2)
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        connected(bridge)
    assert values(db) == [b"1", b"2"]


def test_a_broker_that_comes_back(tmp_path: Path, db: topicdb.Database) -> None:
    broker = mosquitto(tmp_path / "broker")
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        wait_until(lambda: bridge.status().last_error != "")
        with broker:
            connected(bridge)
            with Publisher(broker.port) as publisher:
                publisher.publish("a", b"1")
            has_stored(bridge, 1)
        wait_until(lambda: bridge.status().state != "connected")
        with broker:
            connected(bridge, 2)
            with Publisher(broker.port) as publisher:
                publisher.publish("a", b"2")
            has_stored(bridge, 2)
    assert values(db) == [b"1", b"2"]


# paho does not close its socket if a TLS handshake fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tls_and_login(tmp_path: Path, db: topicdb.Database) -> None:
    import trustme

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    lines = [f"certfile {tmp_path}/cert.pem", f"keyfile {tmp_path}/key.pem"]
    with mosquitto(tmp_path / "broker", *lines) as broker:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        options: dict[str, Any] = {"tls": context, "username": "me", "password": "x"}
        with Bridge(db, "127.0.0.1", broker.port, **options) as bridge:
            connected(bridge)
            with Publisher(broker.port, ca_certs=str(tmp_path / "ca.pem")) as publisher:
                publisher.publish("a", b"x" * 300_000)
            has_stored(bridge, 1)
        with Bridge(db, "127.0.0.1", broker.port, tls=True) as bridge:
            wait_until(lambda: "certificate" in bridge.status().last_error)
    assert values(db) == [b"x" * 300_000]


def test_topics_that_cannot_be_stored_are_told_and_do_not_block(
    broker: Broker, db: topicdb.Database
) -> None:
    options: dict[str, Any] = {"filters": ["a", "$topicdb/#"]}
    with Bridge(db, "127.0.0.1", broker.port, **options) as bridge:
        connected(bridge)
        with Publisher(broker.port) as publisher:
            publisher.publish("$topicdb/x", b"1", 2)
            publisher.publish("a", b"2", 2)
        has_stored(bridge, 1)
        assert bridge.status().refused == 1 and "$topicdb/x" in bridge.status().last_error
    assert values(db) == [b"2"]


def test_names_of_messages_are_stored_once(broker: Broker, db: topicdb.Database) -> None:
    for _ in range(2):
        with (
            Bridge(db, "127.0.0.1", broker.port, deduplicate_by="id") as bridge,
            Publisher(broker.port) as publisher,
        ):
            connected(bridge)
            for name in ("x", "y", "x"):
                publisher.publish("a", name.encode(), UserProperty=[("id", name)])
            publisher.publish("a", b"without")
            wait_until(lambda: bridge.status().received == 4)
            wait_until(lambda: bridge.status().stored + bridge.status().duplicates == 4)
    assert values(db) == [b"x", b"y", b"without", b"without"]


def test_the_store_keeps_ids_and_names_across_restarts(db: topicdb.Database) -> None:
    store = Store(db._core, "b", None, 3)
    arrivals = [Arrival(f"t/{n}", b"x", n, f"name-{n}") for n in range(1, 6)]
    assert store.store(arrivals, []).stored == 5
    arrivals = [arrival._replace(dup=True) for arrival in arrivals]
    assert store.store(arrivals, []) == (0, 5, 0, "", 0)
    store = Store(db._core, "b", None, 3)
    assert sorted(store.received) == [1, 2, 3, 4, 5]
    assert store.store(arrivals, [1, 2]) == (0, 5, 0, "", 0)
    assert sorted(store.received) == [3, 4, 5]
    again = [arrival._replace(mid=0) for arrival in arrivals]
    outcome = store.store(again, [])
    assert outcome.stored + outcome.duplicates == 5 and outcome.duplicates >= 3
    store.forget_session()
    assert Store(db._core, "b", None, 3).received == {}
    assert Store(db._core, "other", None, 3).received == {}


def test_ids_that_a_broker_has_forgotten_name_other_messages(db: topicdb.Database) -> None:
    store = Store(db._core, "b", None, 0)
    store.store([Arrival("t/1", b"first", 7, "")], [])
    assert store.store([Arrival("t/1", b"first", 7, "", dup=True)], []).duplicates == 1
    assert store.store([Arrival("t/2", b"second", 7, "", dup=True)], []).stored == 1
    assert store.store([Arrival("t/2", b"second", 7, "")], []).stored == 1
    assert list(store.received) == [7]
    store.store([], [7])
    assert store.received == {}
    assert [m.value for m in db.scan("#", order="time")] == [b"first", b"second", b"second"]


def test_a_store_that_failed_in_one_shard_goes_on_with_it(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(db._core, "b", None, 0)
    arrivals = [Arrival(f"t/{n}", b"x", n, "") for n in range(1, 20)]
    original = Store._commit

    def commit(self: Store, part: Part) -> int:
        if part.shard == 1:
            raise topicdb.QuotaError("there is no room")
        return original(self, part)

    plan = store.plan(arrivals, [])
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_commit", commit)
        for _ in range(2):
            with pytest.raises(topicdb.QuotaError):
                store.commit(plan)
    assert 0 < db.scan("#").count() < 19
    assert store.commit(plan) == (19, 0, 0, "", 0)
    assert sorted(message.topic for message in db.scan("#")) == sorted(a.topic for a in arrivals)
    assert sorted(store.received) == list(range(1, 20))


def test_messages_that_are_too_long_are_refused(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from topicdb.bridge import storing

    with pytest.raises(ValueError, match="bytes"):
        db.append([("t", None, b"x" * (storing.VALUE_BYTES_MAX + 1))])
    monkeypatch.setattr(storing, "VALUE_BYTES_MAX", 100)
    store = Store(db._core, "b", None, 0)
    outcome = store.store([Arrival("t", b"x" * size, 0, "") for size in (101, 100)], [])
    assert outcome.stored == 1 and outcome.refused == 1 and "too long: 101" in outcome.error


@pytest.mark.parametrize(
    "options",
    [
        {"filters": []},
        {"filters": "a/#/b"},
        {"filters": "$share/group"},
        {"name": ""},
        {"name": "a\0b"},
        {"name": "x" * 65_536},
        {"port": 0},
        {"port": 65_536},
        {"keepalive": 0},
        {"keepalive": 65_536},
        {"password": "without a username"},
        {"username": "x" * 65_536},
        {"session_expiry": "1ms"},
        {"session_expiry": "9000000d"},
        {"durability": "perhaps"},
        {"qos": 3},
        {"protocol": "4"},
        {"session_expiry": "long"},
        {"protocol": "3.1.1", "deduplicate_by": "id"},
        {"protocol": "3.1.1", "history": "#"},
        {"history": "a#"},
        {"request_topic": "a/#"},
    ],
)
def test_bad_options(db: topicdb.Database, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Bridge(db, "127.0.0.1", **options)


@pytest.mark.parametrize("host", ["", "a\0b"])
def test_hosts_that_are_none(db: topicdb.Database, host: str) -> None:
    with pytest.raises(ValueError, match="host"):
        Bridge(db, host)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_other_filters_end_the_subscriptions_that_were(
    broker: Broker, db: topicdb.Database, protocol: Literal["5", "3.1.1"]
) -> None:
    options: dict[str, Any] = {"protocol": protocol}
    for filters, expected in (
        (["a/#", "b"], {"a/1", "b"}),
        (["b", "c"], {"b", "c"}),
        (["a/#"], {"a/1"}),
    ):
        before = {message.timestamp for message in db.scan("#")}
        with Bridge(db, "127.0.0.1", broker.port, filters=filters, **options) as bridge:
            connected(bridge)
            with Publisher(broker.port) as publisher:
                for topic in ("c", "b", "a/1"):
                    publisher.publish(topic, b"x")
            has_stored(bridge, len(expected))
        found = {message.topic for message in db.scan("#") if message.timestamp not in before}
        assert found == expected


def test_filters_that_overlap_give_a_message_once(broker: Broker, db: topicdb.Database) -> None:
    filters = ["a/1", "a/+", "a/#", "a/#", "b/+"]
    with Bridge(db, "127.0.0.1", broker.port, filters=filters) as bridge:
        connected(bridge)
        with Publisher(broker.port) as publisher:
            publisher.publish("a/1", b"1")
            publisher.publish("b/1", b"2")
        has_stored(bridge, 2)
    assert sorted(values(db)) == [b"1", b"2"]


def test_widest_filters() -> None:
    assert widest(["a/1", "b", "a/+", "b", "$SYS/#", "a/#"]) == ["b", "$SYS/#", "a/#"]
    assert widest(["#", "a", "$SYS/x", "$share/g/a"]) == ["#", "$SYS/x", "$share/g/a"]


def test_shared_filters_divide_the_messages(broker: Broker, db: topicdb.Database) -> None:
    options: dict[str, Any] = {"filters": "$share/bridges/a/#"}
    with (
        Bridge(db, "127.0.0.1", broker.port, name="one", **options) as one,
        Bridge(db, "127.0.0.1", broker.port, name="other", **options) as other,
        Publisher(broker.port) as publisher,
    ):
        connected(one)
        connected(other)
        for number in range(100):
            publisher.publish("a/1", b"%d" % number, number % 2 + 1)
        wait_until(lambda: one.status().stored + other.status().stored >= 100)
        assert one.status().stored > 0 and other.status().stored > 0
    assert sorted(values(db), key=int) == [b"%d" % number for number in range(100)]


def test_much_at_once_is_committed_in_parts(
    broker: Broker, db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    original = Store._commit

    def commit(self: Store, part: Part) -> int:
        commits.append(sum(len(arrival.value) for arrival in part.arrivals))
        return original(self, part)

    monkeypatch.setattr(Store, "_commit", commit)
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        connected(bridge)
    with Publisher(broker.port) as publisher:
        for number in range(60):
            publisher.publish("a", b"%02d" % number * 500_000)
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        has_stored(bridge, 60)
    assert sorted(value[:2] for value in values(db)) == [b"%02d" % n for n in range(60)]
    assert max(commits) < (16 << 20) + 1_100_000


def test_what_should_not_happen_is_told(
    broker: Broker,
    db: topicdb.Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def commit(self: Store, *arguments: object) -> int:
        raise KeyError("unknown")

    bridge = Bridge(db, "127.0.0.1", broker.port)
    bridge.start()
    connected(bridge)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_commit", commit)
        with Publisher(broker.port) as publisher:
            publisher.publish("a", b"1", 2)
        wait_until(lambda: bridge.status().state == "stopped")
    assert "KeyError" in bridge.status().last_error and "KeyError" in caplog.text
    with pytest.raises(RuntimeError, match="ended by an error"):
        bridge.stop()
    bridge.stop()
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        has_stored(bridge, 1)
    assert values(db) == [b"1"]


def test_closing_the_database_stops_it(broker: Broker, tmp_path: Path) -> None:
    db = topicdb.open(tmp_path / "x.db")
    bridge = Bridge(db, "127.0.0.1", broker.port)
    bridge.start()
    with pytest.raises(RuntimeError):
        bridge.start()
    connected(bridge)
    db.close()
    with Publisher(broker.port) as publisher:
        publisher.publish("a", b"x")
    wait_until(lambda: bridge.status().state == "stopped")
    bridge.stop()


# History.


def test_history_at_the_response_topic(broker: Broker, db: topicdb.Database) -> None:
    db.append([("a/old", "2026-01-01T00:00:00Z", b"old"), ("secret", None, b"no")])
    asker = Asker(broker.port)
    with Bridge(db, "127.0.0.1", broker.port, history=["a/#", "b"]) as bridge:
        connected(bridge)
        with Publisher(broker.port) as publisher:
            for number in range(1_500):
                qos = 1 if number % 500 == 499 else 0
                publisher.publish("a/1", b"%d" % number, qos, UserProperty=[("unit", "K")])
        has_stored(bridge, 1_500)
        try:
            *messages, end = asker.ask("a/#", since="1h")
            assert [one.payload for one in messages] == [b"%d" % n for n in range(1_500)]
            users = asker.users(messages[0])
            assert users["topic"] == "a/1" and users["unit"] == "K" and users["timestamp"].isdigit()
            assert messages[0].properties.CorrelationData == b"7"  # type: ignore[union-attr]
            assert asker.users(end)["end"] == "1500"
            assert [one.payload for one in asker.ask("a/old")[:-1]] == [b"old"]
            assert len(asker.ask("a/1", limit="3")) == 4
            assert asker.users(asker.ask("a/1", until="2026-01-02T00:00:00Z")[0])["end"] == "0"
            for filter, asked in (
                ("#", {}),
                ("secret", {}),
                ("a/#/b", {}),
                ("a/1", {"since": "yesterday"}),
                ("a/1", {"limit": "0"}),
            ):
                assert asker.users(asker.ask(filter, **asked)[0])["error"]
        finally:
            asker.close()
        wait_until(lambda: bridge.status().requests == 4)
        broker.kill()
        wait_until(lambda: bridge.status().state == "waiting")
        broker.start()
        connected(bridge, 2)
        assert bridge.status().requests == 4 and bridge.status().replayed == 1_504
        assert bridge.status().received == 1_500  # the bridge stores neither requests nor answers


def test_no_request_for_history_ends_the_bridge(broker: Broker, db: topicdb.Database) -> None:
    db.append([("good", None, b"1")])
    db.append([("bad", None, Envelope(b"", content_type="x" * 65_536).encode())], raw=True)
    asker = Asker(broker.port)
    with Bridge(db, "127.0.0.1", broker.port, history=["good", "bad"]) as bridge:
        connected(bridge)
        try:
            for filter, asked, told in (
                ("good", {"since": "9" * 401}, "microseconds since 1970"),
                ("good", {"since": "9" * 401 + "s"}, "less than 2**63"),
                ("good", {"limit": "9" * 5_000}, "limit"),
                ("a" * 65_530, {}, "is not covered by what may be asked for"),
                ("\0\n\x7f" * 20_000, {}, "NUL"),
                ("bad", {}, "65536 bytes"),
            ):
                (answer,) = asker.ask(filter, **asked)
                error = asker.users(answer)["error"]
                assert told in error and len(error) <= 1_000, (filter[:10], error)
            *messages, end = asker.ask("good")
            assert [one.payload for one in messages] == [b"1"] and asker.users(end)["end"] == "1"
        finally:
            asker.close()
        assert bridge.status().connections == 1


def test_an_answer_that_cannot_be_sent_is_passed_over(
    broker: Broker, db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = StoringClient.publish

    def fails(self: StoringClient, topic: str, payload: bytes, *others: Any) -> Any:
        if payload == b"2":
            raise struct.error("it cannot be packed")
        return publish(self, topic, payload, *others)

    monkeypatch.setattr(StoringClient, "publish", fails)
    db.append([("a", number, b"%d" % number) for number in (1, 2, 3)])
    asker = Asker(broker.port)
    with Bridge(db, "127.0.0.1", broker.port, history="a") as bridge:
        connected(bridge)
        try:
            assert [one.payload for one in asker.ask("a")] == [b"1", b"3", b""]
        finally:
            asker.close()


def test_no_paho_no_bridge() -> None:
    code = (
        "import sys; sys.modules['paho'] = sys.modules['paho.mqtt.client'] = None\n"
        "import topicdb.bridge\n"
        "try: topicdb.bridge.Bridge(None, 'x')\n"
        "except ImportError as error: print(error)\n"
    )
    import sys

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install topicdb[mqtt]" in found.stdout

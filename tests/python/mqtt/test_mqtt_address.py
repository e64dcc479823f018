"""Tests of addresses of brokers (hosts, ports, URLs) in the API, in commands, and in errors."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, free_port, mosquitto
from cli_runs import run_here, usage_error
from mqtt_clients import connected, has_stored
from support import wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.forward import Forwarder, MqttSink
from topicdb.mqtt.address import address_text, broker_of, split_address
from topicdb.replay.broker.broker import BrokerReplay

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db") as database:
        yield database


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("h",), ("h", 1883, None)),
        (("h", 7), ("h", 7, None)),
        (("::1",), ("::1", 1883, None)),
        (("mqtt://h",), ("h", 1883, None)),
        (("mqtt://h/",), ("h", 1883, None)),
        (("mqtt://h:7",), ("h", 7, None)),
        (("mqtt://h", 7), ("h", 7, None)),
        (("mqtt://[::1]:7",), ("::1", 7, None)),
        (("mqtt://me@h",), ("h", 1883, ("me", None))),
        (("mqtt://me:se%40cr%2Fet@h:7",), ("h", 7, ("me", "se@cr/et"))),
        (("mqtt://me@h", None, False, None, "secret"), ("h", 1883, ("me", "secret"))),
        (("mqtt://h", None, False, "me", "secret"), ("h", 1883, ("me", "secret"))),
    ],
)
def test_what_names_a_broker(arguments: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    found = broker_of(*arguments)
    assert (found.host, found.port, found.login, found.tls) == (*expected, None)


def test_tls() -> None:
    context = ssl.create_default_context()
    assert broker_of("mqtts://h").port == broker_of("h", tls=True).port == 8883
    assert isinstance(broker_of("mqtts://h").tls, ssl.SSLContext)
    assert broker_of("mqtts://h:7", tls=context)[:3] == ("h", 7, context)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("",), "host"),
        (("a\0b",), "host"),
        (("http://h",), "mqtt://"),
        (("mqtt://",), "HOST"),
        (("mqtt://:7",), "HOST"),
        (("mqtt://me:secret@h:x",), "'mqtt://h:x'"),
        (("mqtt://me:secret@h:70000",), "'mqtt://h:70000'"),
        (("mqtt://h:0",), "HOST"),
        (("mqtt://me:secret@h/topic",), "topics"),
        (("mqtt://h?x=1",), "other options"),
        (("mqtt://:secret@h",), "no user name"),
        (("mqtt://h:1", 2), "2 is not that of the URL"),
        (("mqtt://h", None, True), "mqtts://"),
        (("mqtt://me@h", None, False, "you"), "the URL has them"),
        (("mqtt://me:secret@h", None, False, None, "x"), "the URL has them"),
        (("h", None, False, None, "x"), "goes with username"),
        (("h", 0), "port"),
        (("h", 65_536), "port"),
    ],
)
def test_what_names_none(arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        broker_of(*arguments)
    assert "secret" not in str(caught.value)


def test_addresses_as_text() -> None:
    assert address_text("h", 7) == "h:7" and address_text("::1", 7) == "[::1]:7"
    assert split_address("h:7") == ("h", 7) and split_address("[::1]:7") == ("::1", 7)
    assert split_address("mqtt://h:7") == ("mqtt://h:7", None)
    for wrong in ("h:x", "h:0", ":7", "", "h:99999"):
        with pytest.raises(ValueError, match="HOST"):
            split_address(wrong)


@needs_mosquitto
def test_urls_where_a_broker_is_named(db: topicdb.Database, tmp_path: Path) -> None:
    lines = ["allow_anonymous false", f"password_file {tmp_path}/passwords"]
    # The password is "s@cret/1"; mosquitto_passwd -U replaces it with a hash.
    (tmp_path / "passwords").write_text("me:s@cret/1\n")
    import subprocess

    subprocess.run(["mosquitto_passwd", "-U", str(tmp_path / "passwords")], check=True)
    with (
        mosquitto(tmp_path / "broker", *lines) as broker,
        topicdb.Queue.open(tmp_path / "queue") as queue,
    ):
        url = f"mqtt://me:s%40cret%2F1@127.0.0.1:{broker.port}"
        with Bridge(db, url, store_replays=True) as bridge:
            connected(bridge)
            queue.append([b"1"])
            Forwarder(queue, MqttSink(url, topic="a")).run(until_empty=True)
            has_stored(bridge, 1)
            BrokerReplay(db, host=url).run()
            has_stored(bridge, 2)
            assert run_here("replay", "run", db.path, "--broker", url).returncode == 0
            has_stored(bridge, 4)
        assert repr(BrokerReplay(db, host=url)).count(f"127.0.0.1:{broker.port}") == 1
        wrong = url.replace("s%40", "x")
        with Bridge(db, wrong) as bridge:
            wait_until(lambda: "refused" in bridge.status().last_error)
            assert f"127.0.0.1:{broker.port}: " in bridge.status().last_error


def test_urls_that_commands_refuse(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with topicdb.open(path):
        pass
    for command in (["bridge", path], ["replay", "run", path]):
        for url in ("http://me:secret@h", "mqtt://me:secret@h:x", "mqtt://me:secret@h/a"):
            shown = usage_error(*command, "--broker", url)
            assert "mqtt" in shown and "secret" not in shown


# Errors name host and port


def sink_error(host: str, port: int, db: topicdb.Database) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011
        MqttSink(host, port, topic="a").open()
    return str(caught.value)


def replay_error(host: str, port: int, db: topicdb.Database) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011
        BrokerReplay(db, host=host, port=port, give_up_after=0).run()
    return str(caught.value)


def bridge_error(host: str, port: int, db: topicdb.Database) -> str:
    with Bridge(db, host, port) as bridge:
        wait_until(lambda: bridge.status().last_error != "")
        return bridge.status().last_error


@pytest.mark.parametrize("error_of", [sink_error, replay_error, bridge_error])
def test_errors_name_host_and_port(
    db: topicdb.Database, error_of: Callable[[str, int, topicdb.Database], str]
) -> None:
    port = free_port()
    refused = error_of("127.0.0.1", port, db)
    assert refused.count(f"127.0.0.1:{port}") == 1 and "refused" in refused
    assert error_of("no.such.host.invalid", 1, db).count("no.such.host.invalid:1") == 1


def test_a_replay_that_nobody_takes_says_so_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicdb.cli.commands.replay.run._TELL_S", 0.0)
    path, port = tmp_path / "x.db", free_port()
    with topicdb.open(path) as db:
        db.append([("a", 1, b"x")])
    command = ["replay", "run", path, "--broker", f"127.0.0.1:{port}"]
    failed = run_here(*command, "--give-up-after", "1500ms")
    assert failed.returncode == 1 and failed.stdout == ""
    retrying, error = failed.stderr.splitlines()
    assert f"127.0.0.1:{port}: " in retrying and "trying again" in retrying
    assert f"127.0.0.1:{port}: " in error and "--start" in error
    lines = run_here(*command, "--give-up-after", "0", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["state"] == "failed"
    assert "never" in usage_error(*command, "--give-up-after", "soon")


def test_it_gives_up_after_a_minute_if_nothing_else_is_said(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test has a clock of its own, which moves on with each call."""
    from topicdb.replay.broker import work as broker_work

    now_s = [1_000.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            now_s[0] += 7
            return now_s[0]

    monkeypatch.setattr(broker_work, "time", Clock)
    with pytest.raises(ConnectionRefusedError):
        BrokerReplay(db, host="127.0.0.1", port=free_port(), retry_max=0).run()
    assert 1_060 < now_s[0] < 1_200

"""Tests of ``topicdb replay run`` with a real Mosquitto."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import MOSQUITTO, Broker, free_port, mosquitto
from cli_runs import COMMAND, error_in, output_of, run, run_here, started, usage_error
from forwarding import numbered
from mqtt_clients import START_US, Subscriber, fill
from served import serving
from support import CHILD_TIMEOUT_S, wait_until

import topicdb
from topicdb.remote.server import tokens
from topicdb.replay.broker.progress import Progress

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "mosquitto") as started_broker:
        yield started_broker


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "db"
    with topicdb.open(path, shards=2) as db:
        fill(db, numbered(300))
    return path


def at(broker: Broker) -> list[str]:
    return ["--broker", f"127.0.0.1:{broker.port}"]


def test_a_part_under_another_name(broker: Broker, path: Path) -> None:
    with Subscriber(broker.port) as subscriber:
        words = ["--start", str(START_US + 10_000), "--end", str(START_US + 20_000)]
        words += ["--remap", "site/0/#=test/#", "--remap", "site/+/t=other/+", "--qos", "2"]
        words += ["--rate", "1000x", "--retain", "yes", "--client-id", "me"]
        found = output_of("replay", "run", path, "site/#", *at(broker), *words)
        assert found.startswith("replayed 10 messages in ")
        wait_until(lambda: len(subscriber.messages) == 10)
        names = ["test/t", "other/1", "other/2"]
        assert [(m.topic, m.payload, m.qos, m.retain) for m in subscriber.messages] == [
            (names[number % 3], b"%d" % number, 2, True) for number in range(10, 20)
        ]


def test_json(broker: Broker, path: Path) -> None:
    lines = output_of("replay", "run", path, *at(broker), "--json", "--protocol", "3.1.1")
    records = [json.loads(line) for line in lines.splitlines()]
    assert records[-1]["state"] == "complete" and records[-1]["done"] == 300
    assert records[-1]["position"] == START_US + 299_001
    assert set(records[-1]) == set(Progress._fields)


def test_from_a_server(broker: Broker, path: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    reads = tokens.add(file, {"name": "reads", "read": ["#"]})
    more = tokens.add(file, {"name": "more", "read": ["#", "$topicdb/#"]})
    with (
        Subscriber(broker.port) as subscriber,
        topicdb.open(path) as db,
        serving(db, tokens=file) as server,
    ):
        words = ["replay", "run", server.url, "site/#", *at(broker)]
        assert "a token is needed" in error_in(run_here(*words))
        told = error_in(run_here(*words, "--token", reads))
        assert "give a token with --read '$topicdb/#', too, or --allow-stored-again" in told
        assert output_of(*words, "--token", more).startswith("replayed 300 messages in ")
        wait_until(lambda: len(subscriber.messages) == 300)
        assert subscriber.items == numbered(300)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_where_to_go_on(broker: Broker, path: Path, signal_number: int) -> None:
    with Subscriber(broker.port) as subscriber:
        with started("replay", "run", path, *at(broker), "--json", "--rate", "20") as process:
            wait_until(lambda: len(subscriber.messages) >= 5)
            process.send_signal(signal_number)
            out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert process.returncode == 130
        last = json.loads(out.splitlines()[-1])
        done = last["done"]
        assert last["state"] == "stopped" and last["position"] == START_US + done * 1_000
        told = err.decode()
        assert told.startswith(f"topicdb: stopped after {done} messages; go on with --start ")
        assert f"--start {last['position']} (2023-" in told and told.count("\n") == 1
        output_of("replay", "run", path, *at(broker), "--start", last["position"])
        wait_until(lambda: len(subscriber.messages) == 300)
        assert subscriber.items == numbered(300)


def test_a_broker_that_is_not_there(path: Path) -> None:
    words = ["--broker", f"127.0.0.1:{free_port()}", "--give-up-after", "0.1"]
    error = error_in(run("replay", "run", path, *words))
    assert "refused" in error and error.endswith(
        "go on with --start 0 (1970-01-01T00:00:00.000000Z)"
    )


def test_what_the_broker_refuses(path: Path, tmp_path: Path) -> None:
    with topicdb.open(path) as db:
        db.append([("big", START_US + 500, b"x" * 2_000)])
    with mosquitto(tmp_path / "mosquitto", "max_packet_size 1000") as broker:
        error = error_in(run("replay", "run", path, *at(broker)))
        assert "topic 'big'" in error and f"go on with --start {START_US + 500} " in error
        found = output_of("replay", "run", path, *at(broker), "--on-error", "skip")
        assert found.startswith("replayed 300 messages") and "the broker refused 1" in found


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("mosquitto_passwd")),
    reason="needs openssl and mosquitto_passwd",
)
def test_over_tls_with_a_password(path: Path, tmp_path: Path) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    key, certificate, users = (directory / name for name in ("key.pem", "cert.pem", "users"))
    for command in [
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}",
        f"mosquitto_passwd -b -c {users} me right",
    ]:
        subprocess.run(command.split(), check=True, capture_output=True)
    lines = [f"certfile {certificate}", f"keyfile {key}", f"password_file {users}"]
    password = tmp_path / "password"
    with mosquitto(directory, "allow_anonymous false", *lines) as broker:
        words = ["replay", "run", path, *at(broker), "--tls", "--broker-ca", certificate]
        words += ["--username", "me", "--password-file", password, "--give-up-after", "0.1"]
        password.write_text("wrong\n")
        assert "refused the connection" in error_in(run(*words))
        password.write_text("right\n")
        assert output_of(*words).startswith("replayed 300")


def test_on_a_terminal(broker: Broker, path: Path) -> None:
    """The progress is on stderr, and the summary is on stdout."""
    terminal, stderr = pty.openpty()
    try:
        with subprocess.Popen(
            [COMMAND, "replay", "run", path, *at(broker), "--rate", "60"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "COLUMNS": "200", "TERM": "xterm"},
        ) as process:
            os.close(stderr)
            shown = b""
            while b"messages" not in shown:
                shown += os.read(terminal, 10_000)
            while True:
                try:
                    shown += os.read(terminal, 10_000)
                except OSError:  # the other side is closed
                    break
            assert process.stdout is not None
            assert process.stdout.read().startswith(b"replayed 300 messages")
    finally:
        os.close(terminal)
    assert b"replaying" in shown and b"/300 messages" in shown and b"left" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Missing option '--broker'"),
        (["--broker", "host:"], "expected HOST[:PORT], got 'host:'"),
        (["--broker", ":1883"], "expected HOST[:PORT]"),
        (["--broker", "host:99999"], "expected HOST[:PORT]"),
        (["--broker", "host", "--rate", "fast"], "'fast' is no rate"),
        (["--broker", "host", "--remap", "a"], "expected FILTER=TOPIC"),
        (["--broker", "host", "--remap", "a=b/#"], "there is a # only on the right"),
        (["--broker", "host", "--qos", "3"], "'3' is not one of"),
        (["--broker", "host", "--broker-ca", "x"], "goes with --tls"),
        (["--broker", "host", "--password-file", "x"], "goes with --username"),
    ],
)
def test_wrong_usage(path: Path, words: list[str], told: str) -> None:
    assert told in usage_error("replay", "run", path, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a/#/b"], "a/#/b"),
        (["--start", "soon"], "--start: 'soon' is no time"),
        (["--username", "me", "--password-file", "/none/such"], "/none/such"),
        (["--tls", "--broker-ca", "/none/such"], "/none/such"),
    ],
)
def test_what_cannot_be(path: Path, words: list[str], told: str) -> None:
    result = run_here("replay", "run", path, "--broker", "127.0.0.1:1", *words)
    assert told in error_in(result)


def test_a_file_without_certificates(path: Path, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    words = ["--broker", "127.0.0.1:1", "--tls", "--broker-ca", tmp_path / "ca"]
    assert "ca: no certificates" in error_in(run_here("replay", "run", path, *words))


def test_addresses() -> None:
    from topicdb.cli.broker import broker_address as _address

    assert _address("host") == ("host", None) and _address("host:1") == ("host", 1)
    assert _address("[::1]:1") == ("::1", 1) and _address("[::1]") == ("::1", None)


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert str(missing) in error_in(run_here("replay", "run", missing, "--broker", "127.0.0.1:1"))
    assert not missing.exists()

"""Tests of ``topicdb bridge`` and ``topicdb replay status``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from cli_runs import COMMAND, error_in, run_here, started, usage_error
from mqtt_clients import Publisher, values
from served import serving
from support import CHILD_TIMEOUT_S, PATIENCE_S, wait_until

import topicdb
from topicdb import replay

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "mosquitto") as started:
        yield started


@needs_mosquitto
def test_a_bridge_stores_until_it_is_told_to_end(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    command = [COMMAND, "bridge", path, "--broker", f"127.0.0.1:{broker.port}", "--json"]
    with subprocess.Popen(
        [*map(str, command), "--filter", "a/#", "--shards", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["state"] != "connected":
            pass
        with Publisher(broker.port) as publisher:
            for number in range(10):
                publisher.publish(f"a/{number}", b"%d" % number, 2)
            publisher.publish("b", b"not wanted")
        while json.loads(process.stdout.readline())["stored"] < 10:
            pass
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert process.returncode == 0, err
        last = json.loads(out.splitlines()[-1])
        assert (last["state"], last["stored"]) == ("stopped", 10)
    with topicdb.open(path, mode="r") as db:
        assert sorted(values(db)) == [b"%d" % number for number in range(10)]
        assert db.schema["shards"] == 2


@needs_mosquitto
def test_a_bridge_stores_at_a_server(broker: Broker, tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db, serving(db) as server:
        words = ["bridge", server.url, "--broker", f"127.0.0.1:{broker.port}", "--json"]
        with started(*words, "--filter", "a/#") as process:
            assert process.stdout is not None
            while json.loads(process.stdout.readline())["state"] != "connected":
                pass
            with Publisher(broker.port) as publisher:
                for number in range(10):
                    publisher.publish(f"a/{number}", b"%d" % number, 2, retain=True)
            wait_until(lambda: db.scan().count() == 10, "the messages")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert (process.returncode, err) == (0, b"")
        assert sorted(values(db)) == [b"%d" % number for number in range(10)]
        told = error_in(run_here(*words, "--durability", "disk"))
        assert "leave out --durability" in told
        assert "leave out --shards" in error_in(run_here(*words, "--shards", "2"))


def test_bad_options(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    assert "HOST[:PORT]" in usage_error(run_here("bridge", path, "--broker", "host:x"))
    assert "--tls" in usage_error(run_here("bridge", path, "--broker", "h", "--broker-ca", path))
    refused = run_here("bridge", path, "--broker", "h", "--filter", "a/#/b")
    assert "a/#/b" in error_in(refused)


def test_status_shows_endpoints_as_they_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with topicdb.open(path) as db, replay.open(db, "main", include="a/#") as log:
        log.publish([("a/1", None, b"x")] * 3)
        log.queue("orders", ["a/1", "a/2"]).replay()
        log.topic_endpoint("one", "b")
        wait_until(lambda: log.endpoint("orders").state is replay.State.PENDING_COMPLETE)
        log.flush()
        found = run_here("replay", "status", path, "--json")
        assert found.returncode == 0, found.stderr
        (status,) = json.loads(found.stdout)["logs"]
        assert status["name"] == "main" and status["include"] == ["a/#"]
        one, orders = status["endpoints"]
        assert (one["name"], one["kind"], one["state"]) == ("one", "topic", "n/a")
        assert (orders["state"], orders["replayed"]) == ("pending complete", 3)
        assert orders["subscriptions"] == ["a/1", "a/2"] and orders["lag"] == 0
        assert orders["per_s"] > 0 and orders["clients"] == []
        text = run_here("replay", "status", path).stdout
        assert "orders" in text and "pending complete" in text and "3 replayed" in text


def test_status_shows_the_windows_of_clients(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    def clients() -> list[dict[str, object]]:
        (status,) = json.loads(run_here("replay", "status", path, "--json").stdout)["logs"]
        found: list[dict[str, object]] = status["endpoints"][0]["clients"]
        return found

    def account(client: str, window: int, unacknowledged: int) -> dict[str, object]:
        return {"client": client, "window": window, "unacknowledged": unacknowledged}

    with topicdb.open(path) as db, replay.open(db, "main") as log:
        queue = log.queue("orders", "a", exclusive=False)
        log.publish([("a", None, b"x")] * 3)
        with queue.bind(client="till", window=2) as flow, queue.bind(client="other"):
            assert flow.receive(timeout=PATIENCE_S) and flow.receive(timeout=PATIENCE_S)
            wait_until(lambda: len(clients()) == 2)  # the log stores this without a flush
            log.flush()
            assert clients() == [account("till", 2, 2), account("other", 1_000, 0)]
            queue.replay(rate=1, start="beginning")
            log.flush()
            assert clients() == []
        text = run_here("replay", "status", path).stdout
        assert "rate 1" in text and re.search(r"at \d+-\d+,", text)
        queue.bind(client="late")
        log.flush()
        assert "late: 0 of 1,000 not acked" in run_here("replay", "status", path).stdout
    with topicdb.open(path):  # no client is bound once the log is closed
        assert clients() == []

"""Tests of ``topicdb serve``, of ``topicdb token``, and of metrics."""

from __future__ import annotations

import re
import threading
import urllib.request
from pathlib import Path

import pytest
from cli_runs import error_in, error_of, output_of, run, usage_error
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from served import Process, make_certificates, serving
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.cli.errors import EXIT_LOCKED
from topicdb.metrics import Collector


def values_of(text: str) -> dict[str, float]:
    """Returns the values of metrics by name and labels."""
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def collected(collector: Collector) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(collector)
    return values_of(generate_latest(registry).decode())


def test_a_database_is_served_until_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with Process(path, "--shards", "2") as process:
        assert re.fullmatch(r"grpc://127\.0\.0\.1:\d+", process.url)
        with topicdb.connect(process.url) as db:
            db.append([("a", i, b"") for i in range(100)])
            assert db.schema["shards"] == 2
            stream = iter(db.scan("a"))
            next(stream)
        assert "is open for writing" in error_in(run("rotate", path), EXIT_LOCKED)
        assert process.stop() == (0, "")
    with topicdb.open(path) as database:
        assert database.scan("a").count() == 100


def test_who_does_not_read_does_not_hold_up_the_end(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with topicdb.open(path) as database:
        database.append([("a", i, b"x" * 1_000) for i in range(50_000)])
    with Process(path, "--grace", "0.5") as process, topicdb.connect(process.url) as db:
        batches = db.scan("a").batches(rows=1_000)
        assert len(next(batches)) == 1_000
        code, errors = process.stop()  # ``stop`` waits for a limited time
        assert (code, errors) in ((0, ""), (1, "topicdb: some calls did not end in time\n"))
        with pytest.raises((topicdb.UnavailableError, topicdb.ClosedError)):
            for _ in batches:
                pass
    with topicdb.open(path) as database:
        assert database.verify().ok


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    tokens, path = tmp_path / "tokens.json", tmp_path / "db"
    made = make_certificates(tmp_path / "tls")
    token = output_of(
        "token", "new", "reader", "--tokens", tokens, "--read", "a/#", "--own", "consumer/c",
        "--expires", "1d",
    ).strip()  # fmt: skip
    admin = output_of("token", "new", "root", "--tokens", tokens, "--everything").strip()
    listed = output_of("token", "list", "--tokens", tokens)
    assert "reader; read a/#; names consumer/c; until 20" in listed and "root; everything" in listed
    assert token not in listed and admin not in listed
    arguments = ("--tokens", tokens, "--tls-cert", made.certificate, "--tls-key", made.key)
    with Process(path, *arguments) as process:
        url = process.url.replace("127.0.0.1", "localhost")
        with topicdb.connect(url, token=admin, tls_root_certs=made.root) as db:
            db.append([("a/1", 1, b"x")])
        with topicdb.connect(url, token=token, tls_root_certs=made.root.read_bytes()) as db:
            assert db.scan("a/#").count() == 1
            with pytest.raises(topicdb.AccessError, match="'reader' may not write 'a/1'"):
                db.append([("a/1", 1, b"x")])
            assert output_of("token", "revoke", "reader", "--tokens", tokens) == "revoked reader\n"

            def is_refused() -> bool:
                try:
                    db.scan("a/#").count()
                except topicdb.AccessError as error:
                    return "revoked" in str(error)
                return False

            wait_until(is_refused)
        assert process.stop() == (0, "")


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    path, tokens = tmp_path / "db", tmp_path / "tokens.json"
    assert "--listen" in usage_error("serve", path, "--listen", "nowhere")
    assert "other machines" in error_of("serve", path, "--listen", "0.0.0.0:0")
    assert "give both" in error_of("serve", path, "--tls-key", tokens)
    assert "tokens.json" in error_of("serve", path, "--tokens", tokens)
    for option in ("--memory", "--token-memory", "--append-max"):
        assert f"{option}: expected at least" in error_of("serve", tmp_path / "no", option, "0B")
    assert not (tmp_path / "no").exists()
    assert "may do nothing" in error_of("token", "new", "t", "--tokens", tokens)
    assert "a/#/b" in error_of("token", "new", "t", "--tokens", tokens, "--read", "a/#/b")
    new = ("token", "new", "t", "--tokens", tokens, "--read", "#")
    assert "--expires" in error_of(*new, "--expires", "x")
    assert "--expires: 9000000w from now is after" in error_of(*new, "--expires", "9000000w")
    assert not tokens.exists()
    output_of(*new)
    assert "'t'" in error_of(*new)
    assert "'u'" in error_of("token", "revoke", "u", "--tokens", tokens)
    with topicdb.open(path):
        assert "is locked" in error_in(run("serve", path), EXIT_LOCKED)


def test_metrics_over_http(tmp_path: Path) -> None:
    with Process(tmp_path / "db", "--metrics", "127.0.0.1:0") as process:
        assert process.process.stdout is not None
        line = process.process.stdout.readline()
        found = re.search(r"http\S+", line)
        assert found is not None, line
        with topicdb.connect(process.url) as db:
            db.append([("a", 1, b"xyz"), ("b", 2, b"")])
            db.scan("a").to_list()
            with urllib.request.urlopen(found[0], timeout=PATIENCE_S) as answer:
                values = values_of(answer.read().decode())
        assert values["topicdb_up"] == 1
        assert values["topicdb_shard_messages 0"] == 2
        assert values["topicdb_server_messages_received_total"] == 2
        assert values["topicdb_server_messages_sent_total"] == 1
        assert values["topicdb_server_call_calls_total append"] == 1
        assert process.stop() == (0, "")


def test_metrics_tell_of_consumers_groups_sessions_and_clients(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", shards=2) as database, serving(database) as server:
        collector = Collector(database, server)
        database.append([(f"a/{i}", i, b"") for i in range(30)])
        with topicdb.connect(server.url) as db:
            consumer = db.consumer("c", "a/#")
            consumer.poll(rows=5)
            member = db.group("g", "a/#", parts=4).join()
            session = db.session("s")
            session.subscribe("a/#")
            with pytest.raises(topicdb.TopicError):
                db.scan("a/#/b")
            with pytest.raises(topicdb.NotFoundError):
                db.drop_group("other")
            values = collected(collector)
            assert values["topicdb_lag_messages consumer c"] == 30
            assert values["topicdb_lag_messages group g"] == 30
            assert values["topicdb_group_members g"] == 1 and values["topicdb_sessions"] == 1
            assert values["topicdb_server_handles member"] == 1
            assert values["topicdb_server_handles hold"] == 2
            assert values["topicdb_subscriptions"] == 5 and values["topicdb_server_clients"] == 1
            assert values["topicdb_server_call_errors_total drop_group"] == 1
            consumer.ack()
            while db.group("g", "a/#").lag() > 0:
                if len(batch := member.poll(timeout=0.2)):
                    member.ack(batch)
            values = collected(collector)
            assert values["topicdb_lag_messages group g"] == 0
            assert 0 < values["topicdb_lag_messages consumer c"] <= 30
            assert values["topicdb_server_call_errors_total group"] == 0
            session.close()
    assert collected(collector)["topicdb_up"] == 0


def test_made_up_calls_are_counted_as_one(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as database, serving(database) as server:
        with topicdb.connect(server.url) as db:
            for number in range(5):
                with pytest.raises(ValueError, match="there is no call"):
                    db._core.connection.call(f"made-up-{number}")  # type: ignore[attr-defined]
        values = collected(Collector(database, server))
    assert values["topicdb_server_call_errors_total unknown"] == 5
    assert not [name for name in values if "made-up" in name]


def test_metrics_of_a_database_without_a_server(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as database:
        done = threading.Event()
        subscription = database.subscribe("a", callback=lambda batch: done.set())
        wait_until(lambda: subscription.info()["state"] == "live")
        database.append([("a", 1, b"")])
        assert done.wait(PATIENCE_S)
        values = collected(Collector(database))
        subscription.close()
    assert values["topicdb_shard_serial 0"] == 1 and values["topicdb_subscriptions"] == 1
    assert values["topicdb_subscription_live_reads_total"] >= 1
    assert not [name for name in values if "server" in name]

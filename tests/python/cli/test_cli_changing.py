"""Tests of ``topicdb publish`` and ``topicdb delete``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import (
    COMMAND,
    answered,
    error_in,
    error_of,
    output_of,
    run,
    run_here,
    started,
    stored,
    usage_error,
)
from served import serving
from support import CHILD_TIMEOUT_S, wait_until

import topicdb
from model.model import shard_of

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture
def path(db_path: Path) -> Path:
    topicdb.open(db_path).close()
    return db_path


class TestPublish:
    def test_a_value(self, path: Path) -> None:
        told = output_of("publish", path, "site/1", "9½", "--timestamp", "2023-11-14T22:13:20Z")
        assert told == f"stored 1 message in {path}\n"
        assert stored(path) == [("site/1", T0, "9½".encode())]

    def test_standard_input_as_it_is(self, path: Path) -> None:
        output_of("publish", path, "a", "-", "--timestamp", T0, stdin=b"\xff\n\x00\n")
        assert [message.value for message in stored(path)] == [b"\xff\n\x00\n"]

    def test_lines(self, path: Path) -> None:
        found = output_of("publish", path, "log", "--lines", "--json", stdin=b"one\ntwo\n\nlast")
        assert json.loads(found) == {"messages": 4, "pending_shards": []}
        assert [message.value for message in stored(path)] == [b"one", b"two", b"", b"last"]

    def test_a_line_is_stored_when_no_more_come(self, path: Path) -> None:
        with started("publish", path, "log", "--lines") as process:
            assert process.stdin is not None
            process.stdin.write(b"first\n")
            process.stdin.flush()
            wait_until(lambda: stored(path), "the first line")
            out, err = process.communicate(b"second\n", timeout=CHILD_TIMEOUT_S)
        assert (out.decode(), err) == (f"stored 2 messages in {path}\n", b"")
        assert [message.value for message in stored(path)] == [b"first", b"second"]

    def test_beside_a_writer(self, path: Path) -> None:
        with topicdb.open(path) as db:
            told = output_of("publish", path, "site/1", "900", "--timestamp", T0)
            assert told.startswith(f"stored 1 message in {path}")
            wait_until(lambda: db.scan().count() == 1, "the message")
            assert output_of("publish", path, "site/1", "901").startswith("stored 1 message")
            wait_until(lambda: db.scan().count() == 2, "the message without a time")
            assert db.scan(order="time").to_list()[0] == ("site/1", T0, b"900")

    def test_keys(self, tmp_path: Path) -> None:
        topicdb.open(tmp_path / "db", shards=4, shard_by="key").close()
        output_of("publish", tmp_path / "db", "site/1", "x", "--key", "client-7")
        with topicdb.open(tmp_path / "db", mode="r") as db:
            assert [stream.shard for stream in db.streams()] == [shard_of("client-7", 4)]

    def test_at_a_server(self, path: Path) -> None:
        with topicdb.open(path) as db, serving(db) as server:
            output_of("publish", server.url, "site/1", "900", "--timestamp", T0)
            assert db.scan().to_list() == [("site/1", T0, b"900")]

    def test_a_new_database(self, tmp_path: Path) -> None:
        new = tmp_path / "new.db"
        assert "there is no database" in error_of("publish", new, "a", "b")
        assert not new.exists()
        output_of("publish", new, "a", "b", "--create")
        assert len(stored(new)) == 1

    def test_mqtt_properties(self, path: Path) -> None:
        words = ["--qos", 2, "--retain", "--content-type", "text/plain", "--client-id", "press"]
        words += ["--user-property", "unit=K", "--user-property", "note=a=b", "--message-expiry"]
        words += ["1h", "--response-topic", "back", "--correlation-data", "7", "--payload-format"]
        output_of("publish", path, "site/1", "900", "--timestamp", T0, *words, "text")
        with topicdb.open(path, mode="r") as db:
            found: list[Any] = db.scan(properties=True).to_list()
        expected = (
            "site/1",
            T0,
            b"900",
            topicdb.Properties(
                qos=2,
                retain=True,
                client_id="press",
                payload_format=1,
                message_expiry_s=3600,
                content_type="text/plain",
                response_topic="back",
                correlation_data=b"7",
                user_properties=(("unit", "K"), ("note", "a=b")),
                received=T0,
            ),
        )
        assert found == [expected]

    def test_properties_of_lines_beside_a_writer(self, path: Path) -> None:
        with topicdb.open(path) as db:
            output_of("publish", path, "log", "--lines", "--retain", stdin=b"one\ntwo\n")
            wait_until(lambda: db.scan().count() == 2, "the lines")
            found: list[Any] = db.scan(properties=True).to_list()
        assert [one.value for one in found] == [b"one", b"two"]
        assert [(one.properties.retain, one.properties.qos) for one in found] == [(True, 0)] * 2

    def test_a_message_without_properties_has_none(self, path: Path) -> None:
        output_of("publish", path, "site/1", "900")
        with topicdb.open(path, mode="r") as db:
            found: list[Any] = db.scan(properties=True).to_list()
            assert [one.properties for one in found] == [topicdb.Properties()]

    def test_wrong_properties(self, tmp_path: Path) -> None:
        new = ["publish", tmp_path / "new.db", "a", "b", "--create"]
        assert "expected NAME=VALUE, such as unit=K" in usage_error(*new, "--user-property", "K")
        assert "whole seconds, from 1s" in error_of(*new, "--message-expiry", "1500ms")
        assert "whole seconds, from 1s" in error_of(*new, "--message-expiry", "50000d")
        assert "write a number and one of us" in error_of(*new, "--message-expiry", "90")
        assert "+" in error_of(*new, "--response-topic", "a/+")
        assert not (tmp_path / "new.db").exists()

    def test_wrong_usage(self, path: Path) -> None:
        assert "give a VALUE, or - for standard input" in usage_error("publish", path, "a")
        assert "leave VALUE out" in usage_error("publish", path, "a", "b", "--lines")
        assert "a/#" in error_of("publish", path, "a/#", "b")
        assert "--timestamp: 'x' is no time" in error_of(
            "publish", path, "a", "b", "--timestamp", "x"
        )
        assert "key" in error_of("publish", path, "a", "b", "--key", "k")
        assert stored(path) == []


class TestDelete:
    @pytest.fixture
    def filled(self, path: Path) -> Path:
        with topicdb.open(path) as db:
            db.append([(f"site/{i % 2}", T0 + i, b"%d" % i) for i in range(10)])
        return path

    def test_it_says_what_goes_and_asks(self, filled: Path) -> None:
        refused = error_of("delete", filled, "site/1")
        assert refused == (
            f"5 messages of {filled} that match site/1 would go for good: nothing was changed; "
            "--yes does it"
        )
        command = [COMMAND, "delete", str(filled), "site/1"]
        assert "nothing was changed" in answered(command, "n")
        assert len(stored(filled)) == 10
        assert f"deleted 5 messages of {filled}" in answered(command, "y")
        assert {message.topic for message in stored(filled)} == {"site/0"}

    def test_a_range(self, filled: Path) -> None:
        times = ["--start", T0 + 2, "--end", "2023-11-14T22:13:20.000006Z"]
        told = output_of("delete", filled, "site/#", *times, "--dry-run")
        assert told == (
            f"4 messages of {filled} that match site/# from 2023-11-14T22:13:20.000002Z to before "
            "2023-11-14T22:13:20.000006Z\n"
        )
        assert len(stored(filled)) == 10
        found = output_of("delete", filled, "site/#", *times, "--yes", "--json")
        assert json.loads(found) == {"matching": 4, "deleted": 4}
        assert [m.timestamp - T0 for m in stored(filled)] == [0, 1, 6, 7, 8, 9]

    def test_nothing_to_delete(self, filled: Path) -> None:
        assert "0 messages" in run_here("delete", filled, "none").stdout
        assert "nothing to delete" in run_here("delete", filled, "none", "--yes").stdout

    def test_beside_a_writer(self, filled: Path) -> None:
        with topicdb.open(filled) as db:
            assert "5 messages" in output_of("delete", filled, "site/1", "--dry-run")
            assert "give its URL" in error_in(run_here("delete", filled, "site/1", "--yes"), 3)
            with serving(db) as server:
                assert run("delete", server.url, "site/1", "--yes").returncode == 0
            assert db.scan().count() == 5

    def test_bad_input(self, filled: Path) -> None:
        assert "FILTER" in usage_error("delete", filled)
        assert "did you mean '--start'" in usage_error("delete", filled, "a", "--from", "-1h")
        assert "no time" in error_of("delete", filled, "site/#", "--start", "soon", "--yes")
        assert len(stored(filled)) == 10

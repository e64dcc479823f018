"""Tests of the commands that govern replay logs, wherever these are open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, answered, error_in, error_of, run, run_here, usage_error
from served import serving
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb import replay
from topicdb.remote.server import tokens
from topicdb.replay.endpoint.endpoint import Endpoint

BASE = 1_700_000_000_000_000


def filled(path: Path) -> None:
    """Makes a database with ten messages in its replay log, and a queue that wants them."""
    with topicdb.open(path) as db, replay.open(db) as log:
        log.queue("orders", "a/#", spool=2)
        for number in range(10):  # a commit each, as what is to come is counted by commits
            log.publish([("a/1", BASE + number * 1_000, b"%d" % number)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    filled(tmp_path / "log.db")
    return tmp_path / "log.db"


@pytest.fixture(params=["closed", "open elsewhere", "served"])
def target(request: pytest.FixtureRequest, path: Path) -> Iterator[str]:
    """What a command is given for the log: closed, open in a process that is not the command's (as
    far as the command can see), or at a server."""
    with ExitStack() as stack:
        if request.param == "closed":
            yield str(path)
            return
        db = stack.enter_context(topicdb.open(path))
        stack.enter_context(replay.open(db))
        if request.param == "served":
            yield stack.enter_context(serving(db)).url
        else:
            yield str(path)


def output(*arguments: object) -> str:
    """Returns what a run in this process printed; it must succeed."""
    result = run_here("replay", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def endpoints(target: str, *options: object) -> dict[str, dict[str, object]]:
    found = json.loads(output("endpoints", target, "--json", *options))
    return {endpoint["name"]: endpoint for endpoint in found["endpoints"]}


def test_a_replay_is_governed(target: str) -> None:
    words = ["--start", "earliest", "--rate", "0.001/s", "--end", str(BASE + 8_000)]
    text = output("start", target, "orders", *words, "--stall-timeout", "never")
    assert re.fullmatch(
        r"orders: (initializing|active), at \d+-\d+, [01] of about 10 replayed\n", text
    )
    assert "orders: " in output("pause", target, "orders")
    assert "of about 5 replayed" in output("seek", target, "orders", "--start", str(BASE + 5_000))
    assert "of about 10 replayed" in output(
        "seek", target, "orders", "--start", "1970-01-01T00:00:00Z", "--clamp"
    )
    assert "orders: " in output("rate", target, "orders", "max")
    state = endpoints(target)["orders"]["state"]
    assert state in ("initializing", "active")  # it pauses
    output("resume", target, "orders")
    assert output("cancel", target, "orders") == "the replay on orders was cancelled\n"
    assert endpoints(target)["orders"]["state"] == "n/a"
    for words in (["cancel"], ["pause"], ["resume"], ["rate"], ["seek"]):
        more = {"rate": ["10x"], "seek": ["--start", "earliest"]}.get(words[0], [])
        assert "no replay runs" in error_of("replay", *words, target, "orders", *more)


def test_endpoints_and_their_subscriptions(target: str) -> None:
    text = output(
        "add", target, "q", "--filter", "a/#", "--filter", "b", "--shared", "--owner", "me"
    )
    assert text == "queue q: a/#, b; shared; 0 messages; replay n/a\n"
    text = output(
        "add", target, "strict", "--filter", "a", "--dead-letter", "$dead", "--remove-expired"
    )
    assert "one client at a time; dead letters to $dead; expired messages go" in text
    assert "queue q: a/#, b, c;" in output("subscribe", target, "q", "c")
    assert "queue q: b, c;" in output("unsubscribe", target, "q", "a/#")
    found = endpoints(target)
    assert found["q"]["subscriptions"] == ["b", "c"] and set(found) == {"orders", "q", "strict"}
    assert len(output("endpoints", target).splitlines()) == 3
    error = error_of("replay", "drop", target, "q")
    assert "endpoint q goes, " in error and "nothing was changed; --yes" in error
    assert output("drop", target, "q", "--yes") == "q was removed\n"
    assert set(endpoints(target)) == {"orders", "strict"}
    assert "no endpoint 'q'" in error_of("replay", "subscribe", target, "q", "c")
    assert "has the subscriptions" in error_of("replay", "add", target, "strict", "--filter", "z")


def test_every_reply_has_a_form_in_json(target: str) -> None:
    def json_of(command: str, *words: object) -> dict[str, Any]:
        return dict(json.loads(output(command, target, *words, "--json")))

    began = json_of("start", "orders", "--rate", "0.001/s")
    assert set(began) == {"endpoint", "state", "position", "replayed", "total"}
    assert (began["endpoint"], began["total"]) == ("orders", 10)
    for command in ("pause", "resume"):
        assert json_of(command, "orders")["endpoint"] == "orders"
    assert json_of("rate", "orders", "0.01/s")["total"] == 10
    assert json_of("seek", "orders", "--start", str(BASE + 5_000))["total"] == 5
    assert json_of("cancel", "orders") == {"endpoint": "orders", "cancelled": True}
    made = json_of("add", "q", "--filter", "a/#")["endpoint"]
    assert (made["name"], made["subscriptions"]) == ("q", ["a/#"])
    assert json_of("subscribe", "q", "b")["endpoint"]["subscriptions"] == ["a/#", "b"]
    assert json_of("unsubscribe", "q", "b")["endpoint"]["subscriptions"] == ["a/#"]
    trimmed = json_of("trim", "--before", str(BASE), "--yes")
    assert (trimmed["log"], trimmed["before"]) == ("default", BASE)
    assert json_of("drop", "q", "--yes") == {"dropped": "q"}


def test_a_topic_endpoint(target: str) -> None:
    pytest.importorskip("sqlglot")
    words = ["--topic", "--filter", "a/#", "--selector", "topic = 'a/1'"]
    text = output("add", target, "t", *words)
    assert text.startswith("topic endpoint t: a/#; one client at a time; where topic = 'a/1'; ")


def test_trimming_asks(target: str) -> None:
    before = "2023-11-14T22:13:20.006Z"  # that of message 6
    error = error_of("replay", "trim", target, "--before", before)
    assert "loses what is from before 2023-11-14T22:13:20.006000Z: nothing was changed" in error
    text = output("trim", target, "--before", before, "--yes")
    assert re.fullmatch(r"[\d,]+ of [\d,]+ bytes were trimmed, \d+ generations dropped\n", text)
    text = output("start", target, "orders", "--rate", "0.001/s")
    assert "of about 4 replayed" in text


def test_a_start_may_be_an_id(path: Path) -> None:
    with topicdb.open(path) as db, replay.open(db) as log:
        with log.endpoint("orders").bind() as flow:
            message = flow.receive(timeout=PATIENCE_S)
            assert message is not None
        output("start", path, "orders", "--start", message.id)
        with log.endpoint("orders").bind() as flow:
            following = flow.receive(timeout=PATIENCE_S)
            assert following is not None and following.value == b"1"


def test_another_log_is_named(path: Path) -> None:
    with topicdb.open(path) as db:
        replay.open(db, "night").close()
    assert endpoints(str(path), "--log", "night") == {}
    error = error_of("replay", "endpoints", path, "--log", "day")
    assert "no replay log 'day'" in error and "it has default, night (--log)" in error


def test_who_has_the_database_and_not_the_log_is_named(path: Path) -> None:
    with topicdb.open(path):
        result = run_here("replay", "pause", path, "orders")
        error = error_in(result, code=3)
        assert "replay log 'default' is not open there" in error


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert "no database at" in error_of("replay", "endpoints", missing)
    assert not missing.exists()
    assert "127.0.0.1:1" in error_of("replay", "endpoints", "grpc://127.0.0.1:1")


def test_bad_options(path: Path) -> None:
    for words, told in (
        (["start", path, "orders", "--rate", "fast"], "rate"),
        (["start", path, "orders", "--start", "soon"], "is no time"),
        (["start", path, "orders", "--stall-timeout", "long"], "stall_timeout"),
        (["rate", path, "orders", "fast"], "rate"),
        (["subscribe", path, "orders", "a/#/b"], "a/#/b"),
        (["endpoints", path, "--token-file", path], "for the URL of a server"),
        (["endpoints", path, "--ca", path], "for the URL of a server"),
    ):
        assert told in error_of("replay", *words)
    usage_error("replay", "add", path, "q")
    assert "--topic" in usage_error("replay", "add", path, "q", "--filter", "a", "--selector", "x")
    words = ["add", path, "q", "--topic", "--filter", "a", "--filter", "b"]
    assert "one filter" in usage_error("replay", *words)
    usage_error("replay", "trim", path)
    assert set(endpoints(str(path))) == {"orders"}


def test_a_server_asks_for_a_token_with_the_right(tmp_path: Path, path: Path) -> None:
    file = tmp_path / "tokens.json"
    reads = tokens.add(file, {"name": "reads", "read": ["#"], "names": ["endpoint/+/+"]})
    replays = tokens.add(file, {"name": "replays", "replay": ["default/orders"]})
    (tmp_path / "replays").write_text(f"{replays}\n")
    with topicdb.open(path) as db, serving(db, tokens=file) as server:
        words = ["start", server.url, "orders", "--rate", "1/s"]
        assert "a token is needed" in error_of("replay", *words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOPICDB_TOKEN", reads)
            assert "may not have replays on endpoint default/orders" in error_of("replay", *words)
            assert "orders: " in output(*words, "--token-file", tmp_path / "replays")
            patch.setenv("TOPICDB_TOKEN", replays)
            assert "orders: " in output("pause", server.url, "orders")
            assert "may not see all of" in error_of("replay", "endpoints", server.url)
            words = ["trim", server.url, "--before", "1h", "--yes"]
            assert "may not see all of" in error_of("replay", *words)


def test_what_drops_data_asks_at_a_terminal(path: Path) -> None:
    shown = answered([COMMAND, "replay", "drop", str(path), "orders"], "n")
    assert "endpoint orders goes" in shown and "nothing was changed" in shown
    shown = answered([COMMAND, "replay", "drop", str(path), "orders"], "y")
    assert "orders was removed" in shown
    assert endpoints(str(path)) == {}


_OWNER = """
import sys
import topicdb
from topicdb import replay

with topicdb.open(sys.argv[1]) as db, replay.open(db) as log:
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_the_log_of_another_process_is_governed_and_outlives_it(path: Path) -> None:
    with Child(_OWNER, path) as child:
        child.expect("ready")
        result = run(
            "replay", "start", path, "orders", "--start", str(BASE + 3_000), "--rate", "1/s"
        )
        assert (result.returncode, result.stderr) == (0, "")
        assert run("replay", "pause", path, "orders").returncode == 0
        child.kill()
    assert endpoints(str(path))["orders"]["state"] in ("initializing", "active")
    output("rate", path, "orders", "max")
    output("resume", path, "orders")
    with topicdb.open(path) as db, replay.open(db) as log:
        queue: Endpoint = log.endpoint("orders")
        with queue.bind() as flow:
            values: list[bytes] = []
            while len(values) < 7:
                message = flow.receive(timeout=PATIENCE_S)
                assert message is not None
                values.append(message.value)
                flow.ack(message)
        assert values == [b"%d" % n for n in range(3, 10)]
        wait_until(lambda: queue.state is replay.State.COMPLETE)

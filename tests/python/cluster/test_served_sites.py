"""Sites in processes of their own, which are killed, and their clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import error_of, output_of
from served import Process
from sites import NAMES, Servers, servers
from support import wait_until

import topicdb
from topicdb import _core

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def append_until_stored(database: topicdb.Database, n: int) -> None:
    """Appends a message; asks again with the same id while no site can tell its outcome."""
    while True:
        try:
            database.append([(f"k/{n % 10}", n, b"%d" % n)], id=f"append-{n}")
        except topicdb.UnavailableError:
            continue
        return


def test_no_client_notices_that_a_site_is_killed(served: Servers) -> None:
    with topicdb.connect(served.urls) as database:
        count = 0
        for round in range(4):
            for _ in range(20):
                append_until_stored(database, count)
                count += 1
            # Now the site that leads, now that to which the client is connected.
            connected = next(name for name in NAMES if served.url(name) == database.path)
            killed = served.leader() if round % 2 == 0 else connected
            served.kill(killed)
            for _ in range(20):
                append_until_stored(database, count)
                count += 1
            assert database.scan("k/#").count() == count
            served.start(killed)
    for url in served.urls:
        with topicdb.connect(url) as database:
            scan = database.scan("k/#", order="time", at_least="acknowledged")
            assert [int(message.value) for message in scan] == list(range(count)), url


def test_an_append_without_an_id_is_sent_again(served: Servers) -> None:
    with topicdb.connect(served.urls) as database:
        database.append([("t", 1, b"1")])
        future = database.append_async([("t", 2, b"2")])
        assert future.result().count == 1
        connected = next(name for name in NAMES if served.url(name) == database.path)
        served.kill(connected)
        assert database.append([("t", 3, b"3")]).count == 1
        assert database.append_async([("t", 4, b"4")]).result().count == 1
        assert [message.value for message in database.scan("t", order="time")] == [
            b"1",
            b"2",
            b"3",
            b"4",
        ]
        assert database.path != served.url(connected)
        assert database.cluster is not None
        told = database.cluster.status()
        assert {site.name: site.clients for site in told.sites} == {
            name: served.url(name) for name in NAMES
        }


def set_until_done(database: topicdb.Database, retention: dict[str, str]) -> None:
    """Sets the retention classes; asks again while no site can tell whether they are set."""
    while True:
        try:
            database.set_retention(retention)
        except topicdb.UnavailableError:
            continue
        return


def test_classes_are_set_while_a_site_is_gone(served: Servers) -> None:
    with topicdb.connect(served.urls) as database:
        for number, killed in enumerate(NAMES):
            served.kill(killed)
            set_until_done(database, {f"k/{n}": "1d" for n in range(number + 1)})
            append_until_stored(database, number)
            stored = {one.retention_class: one.messages for one in database.usage()}
            assert stored[f"k/{number}"] == 1
            served.start(killed)
    for url in served.urls:
        with topicdb.connect(url) as one:
            one.append([("after", None, b"")])
            assert list(one.retention) == ["k/0", "k/1", "k/2"]
            wait_until(lambda: one.scan("k/#").count() == 3)
            found = {of.retention_class: of.messages for of in one.usage()}
            assert [found[f"k/{number}"] for number in range(3)] == [1, 1, 1]


def test_a_client_has_a_snapshot_made(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    with (
        servers(tmp_path, "--shards", 2, "--snapshots", folder) as served,
        topicdb.connect(served.url("b")) as database,
    ):
        database.append([(f"k/{n}", n, b"%d" % n) for n in range(100)])
        made = database.snapshot("monday")
        assert len(made.serials) == 2
        database.append([("k/later", 1, b"")])
    with topicdb.open(folder / "monday") as copy:
        found = [int(message.value) for message in copy.scan("k/#", order="time")]
        assert found == list(range(100))
        copy.append([("k/100", 100, b"100")])


def test_a_client_needs_one_site_that_answers(served: Servers) -> None:
    served.kill("a")
    with topicdb.connect(served.urls) as database:
        assert database.path == served.url("b")
    with pytest.raises(topicdb.UnavailableError, match="none of"):
        topicdb.connect(["grpc://127.0.0.1:1", "grpc://127.0.0.1:2"])
    with pytest.raises(ValueError, match="at least one"):
        topicdb.connect([])


def test_commands_show_what_another_site_has_acknowledged(served: Servers, tmp_path: Path) -> None:
    for n, name in enumerate(NAMES * 3):
        with topicdb.connect(served.url(name)) as database:
            database.append([("t", n, b"%d" % n)])
        for other in NAMES:
            place = served.url(other)
            assert len(output_of("scan", place, "t", "--acknowledged").splitlines()) == n + 1
            newest = json.loads(output_of("last", place, "t", "--acknowledged", "--json"))
            assert newest["value"] == str(n)
            counted = json.loads(output_of("count", place, "t", "--acknowledged", "--json"))
            assert [group["messages"] for group in counted["groups"]] == [n + 1]
        file = tmp_path / f"{n}.parquet"
        place = served.url(NAMES[(n + 1) % 3])
        made = output_of("export", place, file, "--filter", "t", "--acknowledged", "--json")
        assert json.loads(made)["messages"] == n + 1
    assert "by way of its site" in error_of("scan", tmp_path / "a", "--acknowledged")


def test_the_command_shows_the_sites(served: Servers, tmp_path: Path) -> None:
    text = output_of("cluster", "status", served.url("a"))
    assert text.startswith("cluster ")
    for name in NAMES:
        assert served.url(name) in text
    led: list[int] = []
    while sorted(led) != [0, 1]:  # each shard has one leader, once all have elected it
        told = json.loads(output_of("cluster", "status", served.url("b"), "--json"))
        assert told["asked"] == "b"
        assert [site["state"] for site in told["sites"]] == ["up", "up", "up"]
        shards = [one for site in told["sites"] for one in site["shards"]]
        led = [one["shard"] for one in shards if one["state"] == "leading"]
    served.kill("c")
    told = json.loads(output_of("cluster", "status", served.url("b"), "--json"))
    assert {site["name"]: site["state"] for site in told["sites"]} == {
        "a": "up",
        "b": "up",
        "c": "down",
    }
    assert "is a directory" in error_of("cluster", "status", tmp_path)


def test_a_server_of_one_process_has_no_sites(tmp_path: Path) -> None:
    with Process(tmp_path / "db") as server:
        assert "is not replicated" in error_of("cluster", "status", server.url)
        with topicdb.connect(server.url) as database:
            assert database.cluster is None
    with topicdb.open(tmp_path / "other") as local:
        assert local.cluster is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--site", "a"], "name all sites"),
        (["--sites", "a=127.0.0.1:7"], "go with --site"),
        (["--site", "a", "--sites", "b=127.0.0.1:7"], "not among the sites"),
        (["--site", "a", "--sites", "a=127.0.0.1:7", "--durability", "none"], "--durability"),
        (["--site", "a", "--sites", "a=127.0.0.1:7", "--peers-ca", "x.pem"], "--tls-cert"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message in error_of("serve", tmp_path / "db", "--listen", "127.0.0.1:0", *arguments)
    assert not (tmp_path / "db" / "TOPICDB").exists()

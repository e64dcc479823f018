"""Reads of a client of several servers, of which some have not come to what a read must see.

The servers have databases of their own here, so that one stays behind for as long as a test wants.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from brokers import free_port
from served import serving

import topicdb
from topicdb.types import AtLeastLike

Read = Callable[[topicdb.Database, AtLeastLike], list[bytes]]


def subscribed(db: topicdb.Database, at_least: AtLeastLike) -> list[bytes]:
    with db.subscribe("m", start="earliest", timeout=0.2, at_least=at_least) as found:
        return [message.value for message in found]


def tailed(db: topicdb.Database, at_least: AtLeastLike) -> list[bytes]:
    with db.tail("m", timeout=0, at_least=at_least) as found:
        return [message.value for message in found]


def stepped(db: topicdb.Database, at_least: AtLeastLike) -> list[bytes]:
    at = db.scan_iterator("m", at_least=at_least)
    return list(db.next(at, at_least=at_least).batch.values)


def exported(db: topicdb.Database, at_least: AtLeastLike) -> list[bytes]:
    with tempfile.TemporaryDirectory() as place:
        return [b""] * db.export_parquet(f"{place}/m.parquet", "m", at_least=at_least).messages


READS: dict[str, Read] = {
    "scan": lambda db, it: [message.value for message in db.scan("m", at_least=it)],
    "last": lambda db, it: [message.value for message in db.last("m", at_least=it)][-1:],
    "summarize": lambda db, it: [b""] * db.summarize("m", at_least=it)[0].messages,
    "next_of_scan": stepped,
    "export_parquet": exported,
    "tail": tailed,
    "subscribe": subscribed,
}


class Servers:
    """A server that is behind, and one that has more. ``ahead`` is what a read must see."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.databases = [
            stack.enter_context(topicdb.open(directory / name)) for name in ("behind", "ahead")
        ]
        for number, database in enumerate(self.databases):
            for n in range(1 + 4 * number):
                database.append([("m", n, b"%d" % n)])
        self.urls = [stack.enter_context(serving(one)).url for one in self.databases]
        self.ahead = {
            shard["shard"]: shard["serial"] for shard in self.databases[1].stats()["shards"]
        }


def silences(port: int) -> set[int]:
    """Returns after how many milliseconds the connections of this process to a port give up."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.type == socket.SOCK_STREAM and sock.getpeername()[1] == port:
                    found.add(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        except OSError:  # it is no socket, or is closed meanwhile
            continue
    return found


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, tmp_path)


@pytest.mark.parametrize("name", READS)
def test_a_read_goes_where_it_is_seen(two: Servers, name: str) -> None:
    with topicdb.connect(two.urls) as db:
        found = READS[name](db, two.ahead)
        assert (found == [b"4"]) if name == "last" else (len(found) == 5)
        assert db.path == two.urls[0]  # others stay where they are
        assert db.scan("m").count() == 1


@pytest.mark.parametrize("name", READS)
def test_a_server_that_passes_reads_on_passes_on_what_they_must_see(
    two: Servers, name: str
) -> None:
    with (
        topicdb.connect(two.urls) as db,
        serving(db) as server,
        topicdb.connect(server.url) as far,
    ):
        found = READS[name](far, two.ahead)
        assert (found == [b"4"]) if name == "last" else (len(found) == 5)
        with pytest.raises(topicdb.StaleError):
            READS[name](far, topicdb.AtLeast({0: 1 << 40}, timeout=0))


def test_what_is_open_stays_open(two: Servers) -> None:
    with (
        topicdb.connect(two.urls) as db,
        db.subscribe("m", start="latest", timeout=60) as messages,
        db.transaction(key="m") as transaction,
    ):
        assert len(db.scan("m", at_least=two.ahead).to_list()) == 5
        transaction.write("m", 77, b"77")
        transaction.commit()
        assert next(iter(messages)).value == b"77"


def test_servers_that_are_gone_are_passed_over(two: Servers) -> None:
    gone = f"grpc://127.0.0.1:{free_port()}"
    with topicdb.connect([two.urls[0], gone, two.urls[1]]) as db:
        assert db.scan("m", at_least=two.ahead).count() == 5


@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_read_that_nobody_sees_is_stale(two: Servers, timeout: float) -> None:
    never = topicdb.AtLeast({0: 1 << 40}, timeout=timeout)
    gone = f"grpc://127.0.0.1:{free_port()}"
    for urls in ([*two.urls], [*two.urls, gone], [two.urls[0], gone]):
        with topicdb.connect(urls) as db:
            for name in ("scan", "last", "tail", "subscribe"):
                with pytest.raises(topicdb.StaleError, match="has not come to commit"):
                    READS[name](db, never)
            assert db.scan("m").count() == 1


def test_a_read_waits_for_the_first_that_sees(two: Servers) -> None:
    later = {shard: serial + 1 for shard, serial in two.ahead.items()}
    found: list[int] = []
    with topicdb.connect(two.urls) as db:
        with pytest.raises(topicdb.StaleError):
            db.scan("m", at_least=topicdb.AtLeast(later, timeout=0)).to_list()
        scan = db.scan("m", at_least=topicdb.AtLeast(later, timeout=200))
        thread = threading.Thread(target=lambda: found.append(len(scan.to_list())))
        thread.start()
        two.databases[1].append([("m", 100, b"")])
        thread.join()
    assert found == [6]


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at the sockets of a process")
def test_a_machine_that_vanishes_is_given_up_sooner_if_there_is_another_one(two: Servers) -> None:
    ports = [int(url.rpartition(":")[2]) for url in two.urls]
    with topicdb.connect(two.urls), topicdb.connect(two.urls[1]):
        assert [silences(port) for port in ports] == [{3_000}, {20_000}]

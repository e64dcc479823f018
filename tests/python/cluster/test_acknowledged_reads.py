"""Reads that must see what was written at another site, embedded and over the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from served import serving
from sites import NAMES, Sites, sites

import topicdb
import topicdb.duckdb
import topicdb.polars
from topicdb import _core

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
SHARDS = 3


class Cluster:
    """Three sites, and what opens the database at each: by itself, or over the network."""

    def __init__(self, sites: Sites, databases: dict[str, topicdb.Database]) -> None:
        self.sites = sites
        self.databases = databases

    def pairs(self, count: int) -> Iterator[tuple[topicdb.Database, topicdb.Database]]:
        """Yields where to write and where to read, in turn."""
        for n in range(count):
            yield self.databases[NAMES[n % 3]], self.databases[NAMES[(n // 3) % 3]]


@pytest.fixture(scope="module", params=["embedded", "connected"])
def three(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with ExitStack() as stack:
        found = stack.enter_context(sites(tmp_path_factory.mktemp("sites"), shards=SHARDS))
        databases = found.databases
        if request.param == "connected":
            databases = {
                name: stack.enter_context(
                    topicdb.connect(stack.enter_context(serving(database)).url)
                )
                for name, database in databases.items()
            }
        yield Cluster(found, databases)


def test_a_read_sees_the_commits_of_a_receipt(three: Cluster) -> None:
    for n, (writer, reader) in enumerate(three.pairs(60)):
        receipt = writer.append([(f"r/{n}", n, b"%d" % n)])
        assert reader.scan(f"r/{n}", at_least=receipt).count() == 1
        assert len(reader.streams(f"r/{n}", at_least=receipt.serials)) >= 1
        assert len(reader.last(f"r/{n}", at_least=receipt).to_list()) == 1
        with reader.tail(f"r/{n}", timeout=0, at_least=receipt) as tail:
            assert [message.value for message in tail] == [b"%d" % n]
        steps = writer.scan_iterator(f"r/{n}")
        assert len(reader.next(steps, at_least=steps.serials).batch) == 1
        found = 0
        for stream in writer.streams(f"r/{n}"):
            at = writer.iterator(stream, f"r/{n}")
            assert reader.iterator(stream, f"r/{n}", at_least=receipt) == at
            found += len(reader.next(at, at_least=receipt).batch)
        assert found == 1
        parts = writer.slices(f"r/{n}")
        assert reader.scan_slices(parts, f"r/{n}", at_least=receipt).count() == 1


def test_files_and_frames_have_the_commits_of_a_receipt(three: Cluster, tmp_path: Path) -> None:
    for n, (writer, reader) in enumerate(three.pairs(18)):
        receipt = writer.append([(f"f/{n}", n, b"%d" % n)])
        made = reader.export_parquet(tmp_path / f"{n}.parquet", f"f/{n}", at_least=receipt)
        assert made.messages == 1
        receipt = writer.append([(f"f/{n}", n, b"again")])
        assert topicdb.polars.scan(reader, f"f/{n}", at_least=receipt).collect().height == 2
        receipt = writer.append([(f"f/{n}", n, b"once more")])
        assert topicdb.duckdb.scan(reader, f"f/{n}", at_least=receipt).count_rows() == 3


def test_a_read_sees_what_was_acknowledged_elsewhere(three: Cluster) -> None:
    before = three.databases["a"].scan("a/#", at_least="acknowledged").count()
    for n, (writer, reader) in enumerate(three.pairs(60)):
        writer.append([(f"a/{n % 10}", n, b"")])
        assert reader.scan("a/#", at_least="acknowledged").count() == before + n + 1


def test_readers_beside_writers_see_all_that_was_acknowledged(three: Cluster) -> None:
    acknowledged = 0
    lock = threading.Lock()
    wrong: list[str] = []

    def work(name: str) -> None:
        nonlocal acknowledged
        for n in range(25):
            three.databases[name].append([(f"b/{name}", n, b"")])
            with lock:
                acknowledged += 1
                before = acknowledged
            found = three.databases[name].scan("b/#", at_least="acknowledged").count()
            if found < before:
                wrong.append(f"{name} found {found}, and {before} were acknowledged")

    threads = [threading.Thread(target=work, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_subscription_begins_behind_what_it_must_see(three: Cluster) -> None:
    for n, (writer, reader) in enumerate(three.pairs(9)):
        receipt = writer.append([("s/x", n, b"before")])
        with reader.subscribe("s/x", start="latest", timeout=200, at_least=receipt) as found:
            writer.append([("s/x", n, b"after")])
            assert next(iter(found)).value == b"after"


def test_a_commit_that_nobody_makes_is_told(three: Cluster) -> None:
    for database in three.databases.values():
        never = topicdb.AtLeast({0: 1 << 40}, timeout=0.05)
        with pytest.raises(topicdb.StaleError, match=r"shard 0 of .* has not come to commit"):
            database.scan("#", at_least=never).to_list()
        with pytest.raises(ValueError, match=f"there is no shard {SHARDS}"):
            database.scan("#", at_least={SHARDS: 1})


def test_without_a_majority_nobody_knows_what_was_acknowledged(tmp_path: Path) -> None:
    soon = topicdb.AtLeast("acknowledged", timeout=0.3)
    with sites(tmp_path) as found:
        receipt = found.databases["c"].append([("t", 1, b"1")])
        database = found.databases["a"]
        assert database.scan("t", at_least=receipt).count() == 1
        with serving(database) as server, topicdb.connect(server.url) as client:
            for name in ("b", "c"):
                found.stop(name)
            reads: list[Callable[[], object]] = [
                lambda: database.scan("t", at_least=soon).to_list(),
                lambda: database.streams("t", at_least=soon),
                lambda: client.scan("t", at_least=soon).to_list(),
                lambda: client.tail("t", at_least=soon),
            ]
            for read in reads:
                with pytest.raises(topicdb.NoQuorumError, match="no majority of the replicas"):
                    read()
            assert client.scan("t").count() == database.scan("t", at_least=receipt).count() == 1
            found.start("b")
            found.open("b")
            assert client.scan("t", at_least="acknowledged").count() == 1

"""A database on several sites, embedded in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from served import make_certificates
from sites import NAMES, Sites, sites
from support import wait_until

import topicdb
from topicdb import _core
from topicdb.metrics import Collector

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
SHARDS = 3


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with sites(tmp_path_factory.mktemp("sites"), shards=SHARDS) as found:
        yield found


def values(database: topicdb.Database, filter: str) -> list[bytes]:
    return [message.value for message in database.scan(filter, order="time")]


def leader_of(found: Sites, shard: int) -> str:
    """Returns the name of the site that leads a shard, once there is one."""
    names: list[str] = []

    def leads() -> bool:
        leader = found.sites["a"].status().leader_of(shard)
        names[:] = [] if leader is None else [leader.name]
        return bool(names)

    wait_until(leads)
    return names[0]


def test_every_site_writes_and_sees_what_it_has_written(three: Sites) -> None:
    written: list[bytes] = []
    for n in range(30):
        database = three.databases[NAMES[n % 3]]
        receipt = database.append([(f"w/{n}", n, b"%d" % n)])
        assert (receipt.durability, receipt.count) == ("quorum", 1)
        written.append(b"%d" % n)
        assert values(database, f"w/{n}") == [b"%d" % n]
    for database in three.databases.values():
        database.append([("w/last", 99, b"")])
        assert values(database, "w/#")[:30] == written


def test_futures_of_appends_have_receipts(three: Sites) -> None:
    for name, database in three.databases.items():
        futures = [database.append_async([(f"f/{name}", n, b"")]) for n in range(50)]
        serials = [next(iter(future.result().serials.values())) for future in futures]
        assert serials == sorted(serials)
        assert database.scan(f"f/{name}").count() == 50


def test_transactions_at_two_sites_conflict(three: Sites) -> None:
    a, b = three.databases["a"], three.databases["b"]
    a.append([("t/x", 1, b"0")])
    one, other = a.transaction(key="t/x"), b.transaction(key="t/x")
    for transaction in (one, other):
        assert transaction.get("t/x", 1) == b"0"
        transaction.write("t/y", 1, b"1")
        transaction.delete("t/x")
    one.commit()
    with pytest.raises(topicdb.ConflictError) as caught:
        other.commit()
    assert [found[0] for found in caught.value.conflicts] == ["t/x", "t/x"]
    with b.transaction(key="t/x") as transaction:
        assert transaction.get("t/y", 1) == b"1"
        transaction.require_absent("t/y", 1)
        with pytest.raises(topicdb.PreconditionError) as failed:
            transaction.commit()
    assert failed.value.failures == [("t/y", 1, None, b"1")]


def test_what_is_built_on_transactions_moves_between_sites(three: Sites) -> None:
    a, b, c = (three.databases[name] for name in NAMES)
    with a.map("settings") as settings:
        settings["limit"] = b"7"
    with b.map("settings") as settings:
        assert settings["limit"] == b"7"
    a.append([(f"m/{n}", n, b"%d" % n) for n in range(20)])
    seen: list[bytes] = []
    for database in (a, b, c):
        last = database.append([("z", None, b"")])  # so that it has what came before
        assert last.count == 1
        with database.consumer("reader", "m/#", start="earliest") as consumer:
            batch = consumer.poll(7, timeout=60)
            seen += [message.value for message in batch]
            consumer.ack()
    assert len(seen) == len(set(seen)) >= 3


def test_deletes_reach_every_shard(three: Sites) -> None:
    for name, database in three.databases.items():
        database.append([(f"d/{n}", 1, b"") for n in range(30)])
        assert database.delete("d/#").count == 30, name
        assert database.scan("d/#").count() == 0


def test_every_site_has_all_shards_sealed(three: Sites) -> None:
    for name, database in three.databases.items():
        database.append([(f"f/{n}", 1, b"") for n in range(30)])
        database.flush()
        for other, found in three.databases.items():
            fresh = [shard["fresh_blocks"] for shard in found.stats()["shards"]]
            assert fresh == [0] * SHARDS, f"{name} and {other}"


def test_generations_end_from_every_site(three: Sites) -> None:
    for database in three.databases.values():
        database.append([(f"g/{n}", 1, b"") for n in range(10)])
        database.rotate()
        old = [slab for slab in database.slabs() if slab.read_only]
        assert {slab.shard for slab in old} == set(range(SHARDS))
        for slab in old:
            database.drop_slab(slab)
        database.append([("g/last", 1, b"")])


def test_an_id_is_known_at_every_site(three: Sites) -> None:
    for n, database in enumerate(three.databases.values()):
        receipt = database.append([("i", 1, b"once")], id="the-id")
        assert receipt.repeated == (n > 0)
        found = database.find_append("the-id")
        assert found is not None and found.serials == receipt.serials


def test_every_site_knows_who_leads(three: Sites) -> None:
    told = {}
    for name, database in three.databases.items():
        database.append([(f"l/{n}", None, b"") for n in range(20)])
        cluster = database.cluster
        assert cluster is not None
        status = cluster.status()
        assert status == three.sites[name].status() or status.site == name
        assert [site.name for site in status.sites] == list(NAMES)
        assert len(status.id) == 32
        assert [one.shard for one in status.shards] == list(range(SHARDS))
        assert all(one.failure is None and one.lag >= 0 for one in status.shards)
        told[name] = status
    leaders = [told["a"].leader_of(shard) for shard in range(SHARDS)]
    for shard, leader in enumerate(leaders):
        assert leader is not None
        assert told[leader.name].shards[shard].state == "leading"
    assert told["a"].leader_of(99) is None
    assert {status.id for status in told.values()} == {told["a"].id}


def test_replicas_have_metrics(three: Sites) -> None:
    led = 0.0
    while led < SHARDS:  # each shard has one leader, once all have elected it
        led = 0.0
        for database in three.databases.values():
            registry = CollectorRegistry()
            registry.register(Collector(database))
            for shard in map(str, range(SHARDS)):
                found = {
                    name: registry.get_sample_value(f"topicdb_replica_{name}", {"shard": shard})
                    for name in ("leads", "term", "committed", "applied", "lag", "failed")
                }
                assert found["failed"] == 0 and found["term"] and found["committed"]
                assert found["lag"] is not None and found["applied"]
                led += found["leads"] or 0


def await_messages(database: topicdb.Database, expected: dict[str, int]) -> None:
    """Waits until the retention classes of a site have these messages."""

    def have() -> bool:
        found = {one.retention_class: one.messages for one in database.usage() if one.messages}
        return found == expected

    wait_until(have, str(expected))


def test_every_site_changes_the_retention_classes(tmp_path: Path) -> None:
    expected: dict[str, int] = {}
    with sites(tmp_path, shards=SHARDS, retention={"old/#": "1h"}) as found:
        for number, (name, database) in enumerate(found.databases.items(), start=1):
            before = database.retention
            given = {f"{name}/#": "1d", "old/#": "2h"}
            assert database.set_retention(given, dry_run=True).dropped == []
            with pytest.raises(topicdb.SchemaError):
                database.set_retention({"#": "1d", "x/#": "1d"})
            assert database.retention == before
            database.set_retention(given)
            assert list(database.retention) == list(given)
            topics = [f"{root}/{n}" for root in (name, "old", "other") for n in range(20)]
            database.append([(topic, number, b"") for topic in topics])
            expected |= {f"{name}/#": 20, "old/#": 20 * number, "#": 20 * number}
            for one in found.databases.values():  # others may be a moment behind
                await_messages(one, expected)
                assert one.retention == database.retention
    # The directory of a site can be read without the others.
    with topicdb.open(tmp_path / "b", mode="r") as reader:
        assert list(reader.retention) == ["c/#", "old/#"]
        assert reader.verify().ok
        await_messages(reader, expected)


def test_a_snapshot_of_a_site_is_a_local_database(three: Sites, tmp_path: Path) -> None:
    database = three.databases["b"]
    database.append([(f"s/{n}", n, b"%d" % n) for n in range(100)])
    database.delete("s/50")
    with database.map("kept") as kept:
        kept["key"] = b"value"
    made = database.snapshot(tmp_path / "copy")
    assert len(made.serials) == SHARDS
    with pytest.raises(topicdb.ExistsError):
        database.snapshot(tmp_path / "copy")
    database.append([("s/later", 1, b"")])
    with topicdb.open(tmp_path / "copy") as copy:
        assert copy.cluster is None
        expected = [b"%d" % n for n in range(100) if n != 50]
        assert values(copy, "s/#") == expected
        with copy.map("kept") as kept:
            assert kept["key"] == b"value"
        assert copy.verify(deep=True).ok
        assert copy.append([("s/100", 100, b"100")]).durability != "quorum"
        copy.set_retention({"s/#": "1d"})
        copy.rotate()
        assert values(copy, "s/#") == [*expected, b"100"]
    topicdb.restore(tmp_path / "copy", tmp_path / "restored")
    with topicdb.open(tmp_path / "restored", mode="r") as restored:
        assert values(restored, "s/#") == [*expected, b"100"]
    assert three.databases["b"].scan("s/100").count() == 0


def test_sites_talk_with_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certificates")
    tls = {
        "tls_authority": made.root,
        "tls_certificate": made.certificate,
        "tls_key": made.key,
    }
    with sites(tmp_path, tls) as found:
        for name, database in found.databases.items():
            database.append([(f"t/{name}", 1, b"")])
            assert database.scan(f"t/{name}").count() == 1
        with (
            topicdb.Site(  # it knows the addresses, and has no certificate
                tmp_path / "d", name="a", sites=dict.fromkeys(NAMES, ""), listen="127.0.0.1:0"
            ) as stranger,
            pytest.raises(topicdb.NoQuorumError),
        ):
            stranger.set_address("b", f"127.0.0.1:{found.sites['b'].port}")
            stranger.open(timeout="1s")


def test_two_of_three_sites_go_on(tmp_path: Path) -> None:
    with sites(tmp_path) as found:
        found.databases["a"].append([("t", 1, b"1")])
        found.stop("a")
        found.databases["b"].append([("t", 2, b"2")])
        found.start("a")
        found.open("a")
        found.databases["a"].append([("t", 3, b"3")])
        assert values(found.databases["a"], "t") == [b"1", b"2", b"3"]


def test_without_a_majority_nothing_is_written(tmp_path: Path) -> None:
    with sites(tmp_path) as found:
        found.databases["c"].append([("t", 1, b"1")])
        found.stop("a")
        found.stop("c")
        found.start("c", commit_timeout="200ms")
        found.open("c")
        found.stop("b")
        database = found.databases["c"]
        while found.sites["c"].status().leader_of(0) is not None:
            pass  # until the site notices that it hears from no majority
        with pytest.raises(topicdb.NoQuorumError, match="a majority of the replicas must be up"):
            database.append([("t", 2, b"2")])
        with pytest.raises(topicdb.UnavailableError):
            database.transaction(key="t")
        assert values(database, "t") == [b"1"]


def test_a_site_that_is_alone_waits(tmp_path: Path) -> None:
    with topicdb.Site(
        tmp_path / "a", name="a", sites=dict.fromkeys("ab", ""), listen="127.0.0.1:0"
    ) as site:
        with pytest.raises(topicdb.NoQuorumError, match="a majority of the sites must be up"):
            site.open(timeout="100ms")
        assert site.status().id == ""
        assert site.status().shards == []
        assert not (tmp_path / "a" / "TOPICDB").exists()


def test_a_site_of_one(tmp_path: Path) -> None:
    with topicdb.Site(tmp_path / "a", name="a", sites={"a": "127.0.0.1:0"}) as site:
        assert site.name == "a" and site.port > 0
        assert site.path == os.fspath(tmp_path / "a")
        with site.open(structures=["a/+"]) as database:
            database.append([("t", 1, b"1")])
            assert database.schema["structures"] == ["a/+"]
            assert "replicated" in repr(database)
        with pytest.raises(topicdb.ClosedError, match="start the site anew"):
            site.open()
    with pytest.raises(topicdb.ClosedError, match="the site is closed"):
        site.status()
    site.close()
    with topicdb.Site(tmp_path / "a", name="a", sites={"a": "127.0.0.1:0"}) as site:
        database = site.open()
        database.append([("t", 2, b"2")])
        assert values(database, "t") == [b"1", b"2"]
    assert database.closed  # closing a site closes its database


def test_a_forked_child_leaves_the_site_alone(tmp_path: Path) -> None:
    with topicdb.Site(tmp_path / "a", name="a", sites={"a": "127.0.0.1:0"}) as site:
        database = site.open()
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                for call in (site.status, site.close, lambda: database.append([("t", 1, b"")])):
                    with pytest.raises(topicdb.ForkedError):
                        call()
                    refused += 1
            finally:
                os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        database.append([("t", 1, b"")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "d"}, "site 'd' is not among the sites"),
        ({"name": "no name", "sites": {"no name": "127.0.0.1:0"}}, "site 'no name'"),
        ({"sites": {"a": "127.0.0.1:7", "b": "127.0.0.1:7"}}, "have the address 127.0.0.1:7"),
        ({"sites": {"a": "127.0.0.1:port"}}, "a: expected host:port"),
        ({"listen": "127.0.0.1:99999"}, "listen: expected host:port"),
        ({"tls_key": "k.pem"}, "give all three, or none"),
        ({"sites": {"a": "10.0.0.1:1"}, "listen": "0.0.0.0:0"}, "loopback"),
        ({"election_timeout": "1ms"}, "election"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, object], message: str) -> None:
    given = {"name": "a", "sites": {"a": "127.0.0.1:0"}, **options}
    with pytest.raises(ValueError, match=message):
        topicdb.Site(tmp_path / "x", **given)  # type: ignore[arg-type]


def test_a_directory_that_is_no_place_for_a_site(tmp_path: Path) -> None:
    topicdb.open(tmp_path / "local").close()
    with pytest.raises(ValueError, match="is a local database"):
        topicdb.Site(tmp_path / "local", name="a", sites={"a": "127.0.0.1:0"})
    topicdb.Site(tmp_path / "b", name="b", sites={"b": "127.0.0.1:0"}).close()
    with pytest.raises(ValueError, match="b"):
        topicdb.Site(tmp_path / "b", name="a", sites={"a": "127.0.0.1:0"})
    with (
        topicdb.Site(tmp_path / "b", name="b", sites={"b": "127.0.0.1:0"}),
        pytest.raises(topicdb.Error),
    ):
        topicdb.Site(tmp_path / "b", name="b", sites={"b": "127.0.0.1:0"})
    with topicdb.Site(tmp_path / "b", name="b", sites={"b": "127.0.0.1:0"}) as site:
        site.open().append([("t", 1, b"1")])
    with pytest.raises(topicdb.Error, match="replica"):
        topicdb.open(tmp_path / "b")
    with topicdb.open(tmp_path / "b", mode="r") as reader:
        assert values(reader, "t") == [b"1"]


def test_addresses_have_a_port(tmp_path: Path) -> None:
    given = {"a": "127.0.0.1:0", "b": "127.0.0.2", "c": "[::1]:7", "d": "::1"}
    with topicdb.Site(tmp_path / "a", name="a", sites=given) as site:
        with pytest.raises(ValueError, match="no site 'e'"):
            site.set_address("e", "127.0.0.1:1")
        with pytest.raises(ValueError, match="b: expected host:port"):
            site.set_address("b", "127.0.0.1:x")
        assert site.status().sites == []  # nobody has come to an agreement


def test_a_site_that_closes_finishes_what_is_queued(tmp_path: Path) -> None:
    with sites(tmp_path, flush_interval="1h", idle_flush_interval="1h") as found:
        leads = leader_of(found, 0)
        follows = next(name for name in NAMES if name != leads)
        for name in (follows, leads):  # the two that are left are a majority
            database, futures = found.databases[name], []
            for number in range(20):
                transaction = database.transaction()
                transaction.write(f"q/{name}", number, b"")
                futures.append(transaction.commit_async())
                futures.append(database.append_async([(f"r/{name}", number, b"")]))
            database.close()
            assert all(future.result(0).count == 1 for future in futures)
        for name in NAMES:
            found.stop(name)
        for name in NAMES:
            found.start(name)
        found.open(*NAMES)
        assert found.databases["a"].scan("+/+", at_least="acknowledged").count() == 80

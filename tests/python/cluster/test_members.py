"""Sites that join and leave a cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from brokers import free_port
from cli_runs import error_of, output_of
from served import Process, make_certificates, serving
from sites import ELECTION, NAMES, Servers, Sites, sites
from support import wait_until

import topicdb
from topicdb import _core
from topicdb.remote.server import tokens
from topicdb.replicas import Cluster

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def states(cluster: Cluster) -> dict[str, str]:
    return {site.name: site.state for site in cluster.status().sites}


def all_are_members(database: topicdb.Database, *names: str) -> Callable[[], bool]:
    assert database.cluster is not None
    cluster = database.cluster
    return lambda: states(cluster) == dict.fromkeys(names, "member")


def test_a_new_site_takes_the_place_of_a_lost_one(three: Sites) -> None:
    for n in range(20):
        three.databases["a"].append([(f"t/{n}", n, b"%d" % n)])
    three.stop("c")
    shutil.rmtree(three.directory / "c")
    database = three.databases["b"]
    assert database.cluster is not None
    database.cluster.forget("c", timeout="250s")
    assert states(database.cluster) == {"a": "member", "b": "member"}
    joined = three.join("c")
    assert joined.scan("t/#").count() == 20
    wait_until(all_are_members(joined, *NAMES))
    three.stop("a")  # b and the new one are a majority
    joined.append([("t/x", 99, b"")])
    assert joined.scan("t/#").count() == 21


def test_a_site_leaves_and_writes_no_more(three: Sites) -> None:
    cluster = three.sites["a"].cluster
    cluster.leave("c", timeout="250s")
    assert "c" not in states(cluster)
    wait_until(lambda: three.sites["c"].status().left is not None)
    assert "has left the cluster" in (three.sites["c"].status().left or "")
    with pytest.raises(topicdb.ClusterError, match="has left the cluster"):
        three.databases["c"].append([("t", 1, b"")])
    three.stop("c")
    three.databases["a"].append([("t", 1, b"1")])
    assert three.databases["b"].append([("t", 2, b"2")]).durability == "quorum"


def test_what_cannot_be_changes_nothing(three: Sites, tmp_path: Path) -> None:
    cluster = three.sites["a"].cluster
    for change in (cluster.leave, cluster.forget, cluster.step_down):
        with pytest.raises(topicdb.ClusterError, match="no site 'x': its sites are a, b, c"):
            change("x")
    with pytest.raises(topicdb.ClusterError, match="site 'c' is up: have it leave"):
        cluster.forget("c")
    port = three.sites["a"].port
    with pytest.raises(topicdb.ClusterError, match="has a site 'b' already"):
        topicdb.Site(tmp_path / "x", name="b", join=f"127.0.0.1:{port}", address="127.0.0.1:1")
    with pytest.raises(ValueError, match="name those that found the cluster, or give join"):
        topicdb.Site(tmp_path / "y", name="b")
    with pytest.raises(ValueError, match="either founds a cluster"):
        topicdb.Site(tmp_path / "y", name="b", sites={"b": ""}, join="a", address="b:1")
    with pytest.raises(ValueError, match="needs an address"):
        topicdb.Site(tmp_path / "y", name="b", join="127.0.0.1:1")
    assert states(cluster) == dict.fromkeys(NAMES, "member")
    assert not (tmp_path / "y").exists()


def test_a_site_steps_down_and_shards_are_shared_out(three: Sites) -> None:
    cluster = three.sites["b"].cluster
    for name in NAMES:
        three.databases["a"].append([("t", None, b"")])
        cluster.step_down(name)
        leading = [one.shard for one in three.sites[name].status().shards if one.state == "leading"]
        assert leading == []

    def balanced() -> bool:
        try:
            cluster.balance()
        except topicdb.UnavailableError:
            return False
        leaders = [one.leader for one in cluster.status().shards]
        return None not in leaders and len(set(leaders)) == 2

    wait_until(balanced)


def test_whoever_changes_the_sites_of_a_server_administers_everything(
    three: Sites, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.json"
    some = tokens.add(file, {"name": "some", "read": ["#"], "write": ["#"], "admin": ["t/#"]})
    all_of_it = tokens.add(file, {"name": "all", "admin": ["#"]})
    with serving(three.databases["a"], tokens=file, insecure=True) as server:
        with topicdb.connect(server.url, token=some) as database:
            assert database.cluster is not None
            assert states(database.cluster) == dict.fromkeys(NAMES, "member")
            for change in (database.cluster.leave, database.cluster.forget):
                with pytest.raises(topicdb.AccessError, match="may not"):
                    change("c")
            with pytest.raises(topicdb.AccessError, match="may not"):
                database.cluster.balance()
        with topicdb.connect(server.url, token=all_of_it) as database:
            assert database.cluster is not None
            with pytest.raises(topicdb.ClusterError, match="no site 'x'"):
                database.cluster.leave("x")
            database.cluster.step_down("a")
    assert states(three.sites["a"].cluster) == dict.fromkeys(NAMES, "member")


def test_a_local_database_becomes_that_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with topicdb.open(path, shards=2, retention={"short/#": "1h"}) as local:
        local.append([(f"t/{n}", n, b"%d" % n) for n in range(50)])
        with local.map("settings") as settings:
            settings["limit"] = b"7"
        before = local.scan("#").count()
    port = free_port()
    peers = f"127.0.0.1:{port}"
    serve = ("--site", "a", "--sites", f"a={peers}", "--election-timeout", ELECTION)
    with Process(path, *serve, "--convert") as server:
        new = topicdb.Site(
            tmp_path / "b",
            name="b",
            join=peers,
            address=f"127.0.0.1:{free_port()}",
            election_timeout=ELECTION,
            join_timeout="250s",
        )
        with new, new.open(timeout="250s") as joined:
            assert joined.scan("#").count() == before
            with joined.map("settings") as settings:
                assert settings["limit"] == b"7"
            assert joined.append([("t/x", None, b"")]).durability == "quorum"
            with topicdb.connect(server.url) as database:
                assert database.scan("t/#", at_least="acknowledged").count() == 51
    with pytest.raises(topicdb.ReadOnlyError, match="one of several replicas"):
        topicdb.open(path)
    with pytest.raises(topicdb.NotFoundError):
        topicdb.Site(tmp_path / "none", name="n", sites={"n": "127.0.0.1:0"}, convert=True)


def test_sites_with_certificates_join(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certificates")
    tls = {
        "tls_authority": made.root,
        "tls_certificate": made.certificate,
        "tls_key": made.key,
    }
    with sites(tmp_path, tls=tls) as three:
        three.databases["a"].append([("t", 1, b"1")])
        assert three.join("d").scan("t").count() == 1
        # Whoever has no certificate is not let in, and hears of no site.
        with pytest.raises(topicdb.NoQuorumError):
            topicdb.Site(
                tmp_path / "e",
                name="e",
                join=f"127.0.0.1:{three.sites['a'].port}",
                address="127.0.0.1:1",
                join_timeout="1s",
            )


def test_a_site_joins_and_another_leaves_by_command(served: Servers) -> None:
    with topicdb.connect(served.urls) as database:
        for n in range(10):
            database.append([(f"t/{n}", n, b"%d" % n)])
        served.join("d")
        wait_until(all_are_members(database, *NAMES, "d"))
        with topicdb.connect(served.url("d")) as other:
            other.append([("t/d", None, b"")])
            assert other.scan("t/#").count() == 11
        assert "of 3 sites 1 may be lost" in error_of("cluster", "leave", served.url("a"), "b")
        text = output_of("cluster", "leave", served.url("a"), "b", "--yes")
        assert text == "site b has left: a, c, d go on\n"
        code, errors = served.processes.pop("b").ended()
        assert code != 0
        assert "site 'b' has left the cluster. This server ends" in errors
        served.kill("c")
        text = output_of("cluster", "forget", served.url("a"), "c", "--yes")
        assert text == "site c is forgotten: a, d go on\n"
        text = output_of("cluster", "step-down", served.url("d"), "a")
        assert text == "site a leads nothing now\n"
        assert "shards were handed over" in output_of("cluster", "balance", served.url("d"))
        told = json.loads(output_of("cluster", "balance", served.url("d"), "--json"))
        assert list(told) == ["handed_over"]
        with topicdb.connect([served.url("a"), served.url("d")]) as rest:
            rest.append([("t/rest", None, b"")])
            assert rest.scan("t/#").count() == 12


def test_one_site_goes_on_when_the_others_are_lost_for_good(three: Sites) -> None:
    for n in range(20):
        three.databases["a"].append([(f"t/{n}", n, b"%d" % n)])
    wait_until(lambda: three.databases["b"].scan("t/#").count() == 20)
    for name in NAMES:
        three.stop(name)
    directory = three.directory / "b"
    assert topicdb.Site.others(directory) == ["a", "c"]
    assert topicdb.Site.forget_others(directory) == ["a", "c"]
    assert topicdb.Site.forget_others(directory) == []
    three.start("b")
    three.open("b")
    database = three.databases["b"]
    assert database.scan("t/#").count() == 20
    database.append([("t/20", 20, b"20")])
    assert three.join("d").scan("t/#").count() == 21


def test_the_command_asks_before_it_forgets_the_others(three: Sites) -> None:
    three.databases["a"].append([("t", 1, b"1")])
    for name in NAMES:
        three.stop(name)
    path = three.directory / "a"
    refused = error_of("cluster", "forget-others", path)
    assert "sites b, c are forgotten, with all that only they have acknowledged" in refused
    assert "nothing was changed" in refused
    assert topicdb.Site.others(path) == ["b", "c"]
    done = output_of("cluster", "forget-others", path, "--yes")
    assert "sites b, c are forgotten" in done
    again = json.loads(output_of("cluster", "forget-others", path, "--json"))
    assert again == {"path": str(path), "forgotten": []}
    elsewhere = error_of("cluster", "forget-others", three.directory / "none")
    assert "is not the directory of a site" in elsewhere


def test_others_are_not_forgotten_while_one_is_up(served: Servers) -> None:
    path = served.directory / "a"
    refused = error_of("cluster", "forget-others", path, "--yes")
    assert "is up" in refused
    assert topicdb.Site.others(path) == ["b", "c"]

"""Sites compare what they have, and fill what is damaged anew."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from cli_runs import error_of, output_of, run
from served import serving
from sites import NAMES, Servers, Sites
from support import wait_until

import topicdb
from topicdb import _core
from topicdb.cluster import ClusterVerification
from topicdb.remote.server import tokens

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)


def outcomes(found: ClusterVerification) -> dict[str, set[str]]:
    """Returns what was found of the replicas of each site."""
    return {
        name: {one.outcome for one in found.replicas if one.site == name}
        for name in sorted({one.site for one in found.replicas})
    }


def fill(database: topicdb.Database) -> topicdb.Receipt:
    return database.append([(f"t/{n}", n, b"%d" % n) for n in range(200)])


def damage(directory: Path) -> None:
    """Overwrites what says which tables a replica of the first shard has."""
    for manifest in (directory / "shards" / "0000").glob("MANIFEST-*"):
        with manifest.open("r+b") as file:
            file.seek(manifest.stat().st_size // 2)
            file.write(b"damage")


def quarantined(directory: Path) -> list[Path]:
    return list((directory / "quarantine").glob("*/0000"))


def is_quarantined(directory: Path) -> bool:
    return len(quarantined(directory)) == 1


def test_sites_compare_what_they_have(three: Sites) -> None:
    fill(three.databases["a"])
    cluster = three.sites["b"].cluster
    found = cluster.verify()
    assert found.ok
    assert outcomes(found) == {name: {"same"} for name in NAMES}
    assert [one.shard for one in found.replicas] == [0, 0, 0, 1, 1, 1]
    three.stop("c")
    found = cluster.verify()
    assert not found.ok
    assert outcomes(found) == {"a": {"same"}, "b": {"same"}, "c": {"not compared"}}
    assert all("does not answer" in (one.why or "") for one in found.replicas if one.site == "c")


def test_a_damaged_site_is_healed_when_it_starts(three: Sites) -> None:
    receipt = fill(three.databases["a"])
    three.databases["c"].flush()
    three.stop("c")
    damage(three.directory / "c")
    with pytest.raises(topicdb.ClusterError, match="topicdb cluster heal"):
        topicdb.repair(three.directory / "c")
    three.start("c", heal=False)
    with pytest.raises(topicdb.CorruptionError):
        three.sites["c"].open(timeout="250s", **three.options)
    three.sites.pop("c").close()
    assert quarantined(three.directory / "c") == []
    three.start("c")
    three.open("c")
    assert three.databases["c"].scan("t/#", at_least=receipt).count() == 200
    assert [one.state == "healing" for one in three.sites["c"].status().shards] == [False] * 2
    assert len(quarantined(three.directory / "c")) == 1
    assert three.sites["a"].cluster.verify().ok


def test_a_site_is_healed_on_request(three: Sites) -> None:
    receipt = fill(three.databases["a"])
    cluster = three.sites["a"].cluster
    for name in NAMES:
        cluster.heal(name, 0)
        wait_until(partial(is_quarantined, three.directory / name))
        assert three.databases[name].scan("t/#", at_least=receipt).count() == 200
    assert cluster.verify().ok
    with pytest.raises(topicdb.ClusterError, match="no site 'x'"):
        cluster.heal("x", 0)
    with pytest.raises(topicdb.NoQuorumError, match="has not opened shard 7"):
        cluster.heal("a", 7)


def test_only_who_administers_everything_may_do_that_over_the_network(
    three: Sites, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.json"
    some = tokens.add(file, {"name": "some", "read": ["#"], "write": ["#"], "admin": ["t/#"]})
    all_of_it = tokens.add(file, {"name": "all", "admin": ["#"]})
    with serving(three.databases["a"], tokens=file, insecure=True) as server:
        with topicdb.connect(server.url, token=some) as database:
            assert database.cluster is not None
            with pytest.raises(topicdb.AccessError):
                database.cluster.verify()
            with pytest.raises(topicdb.AccessError):
                database.cluster.heal("c", 0)
        with topicdb.connect(server.url, token=all_of_it) as database:
            assert database.cluster is not None
            assert database.cluster.verify().ok


def test_the_commands_compare_and_heal(served: Servers) -> None:
    url = served.url("a")
    with topicdb.connect(url) as database:
        fill(database)
    output_of("cluster", "verify", url)
    output_of("cluster", "heal", url, "c", 0, "--yes")
    wait_until(partial(is_quarantined, served.directory / "c"))
    served.kill("c")
    result = run("cluster", "verify", url, "--json")
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert not found["ok"]
    down = [one["outcome"] for one in found["replicas"] if one["site"] == "c"]
    assert down == ["not compared"] * 2
    assert run("cluster", "verify", url).returncode == 1


def test_a_site_whose_log_is_damaged_joins_anew(served: Servers) -> None:
    with topicdb.connect(served.url("a")) as database:
        receipt = fill(database)
    served.kill("c")
    fence = served.directory / "c" / "site" / "log" / "fence"
    content = bytearray(fence.read_bytes())
    content[20] ^= 4
    fence.write_bytes(content)
    peers = ",".join(f"{name}={address}" for name, address in served.peers.items())
    text = error_of("serve", served.directory / "c", "--site", "c", "--sites", peers)
    assert "must not vote again" in text
    assert "Run `topicdb cluster forget URL SITE` at another site" in text
    assert "in an empty directory with --join" in text
    output_of("cluster", "forget", served.url("a"), "c", "--yes")
    shutil.rmtree(served.directory / "c")
    served.peers.pop("c")
    served.join("c")
    with topicdb.connect(served.url("c")) as database:
        assert database.scan("t/#", at_least=receipt).count() == 200
        cluster = database.cluster
        assert cluster is not None
        wait_until(lambda: all(one.state == "member" for one in cluster.status().sites))
        assert cluster.verify().ok

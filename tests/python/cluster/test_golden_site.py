"""A site that a released version wrote opens, goes on, and is upgraded.

tests/data/make_golden_site.py wrote it, and a manifest beside it that lists its messages.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from cli_runs import output_of
from sites import ELECTION

import topicdb
from data.make_golden_site import content
from topicdb import _core

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
DATA = Path(__file__).resolve().parents[2] / "data" / "v1"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """The directory of a copy of the site."""
    path = tmp_path / "a"
    path.mkdir()
    with tarfile.open(DATA / "site.tar.gz") as archive:
        archive.extractall(path)
    return path


def site_at(path: Path) -> topicdb.Site:
    return topicdb.Site(path, name="a", sites={"a": "127.0.0.1:0"}, election_timeout=ELECTION)


def test_a_site_of_the_first_format_goes_on(golden: Path) -> None:
    expected = json.loads((DATA / "site.json").read_text())
    with site_at(golden) as site, site.open(timeout="250s") as db:
        db.scan("#", at_least="acknowledged").count()  # the log of the site has come here
        assert content(db) == expected
        assert site.status().format == 1
        db.append([("m/new", 1, b"1")])
        db.flush()
        assert db.verify(deep=True).ok
    with site_at(golden) as site, site.open(timeout="250s") as db:
        assert content(db)["messages"] != expected["messages"]
        assert db.scan("m/new").count() == 1


def test_a_site_of_the_first_format_is_upgraded(golden: Path) -> None:
    with site_at(golden) as site, site.open(timeout="250s") as db, topicdb.serve(db) as server:
        assert "format 1" in output_of("cluster", "status", server.url).splitlines()[0]
        newest = site.status().newest_format
        told = output_of("cluster", "upgrade", server.url, "--yes")
        assert told == f"format {newest} is in force now; it was format 1\n"
        assert site.status().format == newest
        assert (
            output_of("cluster", "upgrade", server.url) == f"format {newest} is in force already\n"
        )
        (found,) = json.loads(output_of("cluster", "status", server.url, "--json"))["sites"]
        assert found["newest_format"] == newest
    with site_at(golden) as site, site.open(timeout="250s") as db:
        assert site.status().format == newest
        assert db.cluster is not None
        assert db.cluster.upgrade() == newest

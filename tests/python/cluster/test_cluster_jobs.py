"""Jobs in a database on three sites: embedded ones, and servers that are killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sites import NAMES, Servers, Sites, servers, sites

import topicdb
from topicdb import _core, jobs

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
ROWS = 200


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with sites(tmp_path_factory.mktemp("sites"), shards=3) as found:
        yield found


def stage(place: jobs.Place, job: str, task: str) -> jobs.Staged:
    with jobs.StagedWriter(place, job) as writer:
        writer.append([(f"{task}/{n % 9}", n + 1, b"%d" % n) for n in range(ROWS)])
    return writer.staged


def count(database: topicdb.Database, filter: str) -> int:
    return database.scan(filter, at_least="acknowledged").count()


def test_tasks_stage_at_all_sites(three: Sites) -> None:
    staged = [stage(database, "load", f"l/{name}") for name, database in three.databases.items()]
    assert all(count(database, "l/#") == 0 for database in three.databases.values())
    committed = jobs.commit(three.databases["b"], "load", staged)
    assert (committed.messages, committed.repeated, committed.pending) == (3 * ROWS, False, [])
    assert count(three.databases["b"], "l/#") == 3 * ROWS
    for name, database in three.databases.items():
        assert count(database, "l/#") == 3 * ROWS
        again = jobs.commit(database, "load", staged)
        assert (again.repeated, again.serials) == (True, committed.serials)
        assert {one.sequence for one in jobs.applied(database)} == {"load"}
        assert not list(Path(database.path, "jobs").rglob("*.pages")), name


def test_an_aborted_job_is_gone_at_all_sites(three: Sites) -> None:
    a, b, c = (three.databases[name] for name in NAMES)
    staged = [stage(a, "gone", "g/a"), stage(b, "gone", "g/b")]
    jobs.abort(c, "gone")
    with pytest.raises(topicdb.NotFoundError, match="the job was aborted"):
        jobs.commit(a, "gone", staged)
    assert count(b, "g/#") == 0


def test_a_batch_of_a_sequence_is_stored_once(three: Sites) -> None:
    a, _, c = (three.databases[name] for name in NAMES)
    for number, repeated in ((1, False), (1, True), (2, False)):
        job = f"batch-{number}-{repeated}"
        staged = stage(a, job, f"s/{number}")
        committed = jobs.commit(c, job, [staged], sequence="stream", number=number)
        assert committed.repeated is repeated
    assert count(a, "s/#") == 2 * ROWS


def test_files_are_imported_at_any_site(three: Sites, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / "rows.parquet"
    with topicdb.open(tmp_path / "local.db") as local:
        local.append([(f"i/{n % 9}", n + 1, b"%d" % n) for n in range(ROWS)])
        local.export_parquet(file)
    a, b, c = (three.databases[name] for name in NAMES)
    assert b.import_parquet(file).messages == ROWS
    for database in (a, b, c):
        assert count(database, "i/#") == ROWS
    again = c.import_parquet(file)
    assert again.repeated
    assert count(a, "i/#") == ROWS


def test_the_directory_of_a_site_takes_no_commit(three: Sites) -> None:
    path = three.databases["a"].path
    staged = stage(path, "by-path", "p")
    with pytest.raises(topicdb.ReadOnlyError, match="belongs to a site"):
        jobs.commit(path, "by-path", [staged])
    # A process of this machine may stage there all the same, and the site commits.
    assert jobs.commit(three.databases["a"], "by-path", [staged]).messages == ROWS
    assert count(three.databases["b"], "p/#") == ROWS


def test_a_client_goes_to_another_site(tmp_path: Path) -> None:
    with servers(tmp_path, "--shards", 2) as three, topicdb.connect(three.urls) as database:
        stored = 0
        for round in range(2):
            job = f"job-{round}"
            staged = [stage(database, job, f"{job}/0")]
            killed = kill_connected(three, database)
            staged.append(stage(database, job, f"{job}/1"))
            stored += 2 * ROWS
            assert commit_until_done(database, job, staged).messages == 2 * ROWS
            assert count(database, "#") == stored
            three.start(killed)
        for url in three.urls:
            with topicdb.connect(url) as one:
                assert count(one, "#") == stored
                assert jobs.commit(one, "job-0", []).repeated


def kill_connected(three: Servers, database: topicdb.Database) -> str:
    """Kills the site to which a client is connected, and returns its name."""
    connected = next(name for name in NAMES if three.url(name) == database.path)
    three.kill(connected)
    return connected


def commit_until_done(
    database: topicdb.Database, job: str, staged: list[jobs.Staged]
) -> jobs.Committed:
    """Commits; asks again while no site can tell whether the job is committed."""
    while True:
        try:
            return jobs.commit(database, job, staged)
        except topicdb.UnavailableError:
            continue


def test_all_sites_are_killed_while_a_job_is_committed(tmp_path: Path) -> None:
    with servers(tmp_path, "--shards", 2) as three:
        with topicdb.connect(three.urls) as database:
            staged = stage(database, "job", "t")
            jobs.commit(database, "job", [staged], timeout=0)
        three.kill_all()
        three.start(*NAMES)
        with topicdb.connect(three.urls) as database:
            assert commit_until_done(database, "job", [staged]).repeated
            assert count(database, "#") == ROWS
    assert not [file for file in tmp_path.rglob("*.pages") if os.path.getsize(file)]

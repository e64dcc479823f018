"""Jobs of a served database: tasks stage elsewhere, and their files come by the connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from served import Process, lose_answer, lose_call, serving

import topicdb
from topicdb import jobs

ROWS = [(f"m/{i % 7}", 1_000 + i, b"%d" % i) for i in range(500)]
NAME = "0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    topicdb.open(tmp_path / "db", shards=3, retention={"keep/#": None, "#": None}).close()
    return tmp_path / "db"


@pytest.fixture
def database(path: Path) -> Iterator[topicdb.Database]:
    """The database, which the server has open for writing."""
    with topicdb.open(path) as opened:
        yield opened


@pytest.fixture
def client(database: topicdb.Database) -> Iterator[Any]:
    with serving(database) as server, topicdb.connect(server.url) as connected:
        yield connected


def stage(client: Any, job: str, rows: list[Any], **options: Any) -> jobs.Staged:
    with jobs.StagedWriter(client, job, **options) as writer:
        for start in range(0, len(rows), 100):
            writer.append(rows[start : start + 100])
    return writer.staged


def leftovers(path: Path) -> list[str]:
    return sorted(os.listdir(path / "jobs"))


def test_what_tasks_stage_elsewhere_is_committed_once(
    client: Any, database: topicdb.Database, path: Path
) -> None:
    kept = [(f"keep/{i}", 5, b"k") for i in range(20)]
    staged = [
        stage(client, "j", ROWS),
        stage(client, "j", kept, memory_bytes=1),  # a block for each append
        stage(client, "j", []),
    ]
    attempt = stage(client, "j", ROWS)  # nobody commits this one
    assert database.scan("#").count() == 0
    committed = jobs.commit(client, "j", staged)
    assert (committed.messages, committed.repeated, committed.pending) == (520, False, [])
    assert sorted(database.scan("#")) == sorted([*ROWS, *kept])
    assert leftovers(path) == []
    again = jobs.commit(client, "j", [*staged, attempt])
    assert (again.messages, again.repeated, again.serials) == (520, True, committed.serials)
    assert database.scan("#").count() == 520


def test_a_batch_that_is_repeated_is_stored_once(client: Any, database: topicdb.Database) -> None:
    for attempt in range(3):
        staged = stage(client, f"attempt{attempt}", ROWS)
        committed = jobs.commit(client, f"attempt{attempt}", [staged], sequence="query", number=4)
        assert committed.repeated == (attempt > 0)
    assert database.scan("#").count() == 500
    assert {(one.sequence, one.number) for one in jobs.applied(client)} == {("query", 4)}


def test_keys_choose_the_shard(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "keys", shards=3, shard_by="key") as database,
        serving(database) as server,
        topicdb.connect(server.url) as client,
    ):
        with jobs.StagedWriter(client, "j") as writer:
            writer.append([("a", 1, b"x"), ("a", 2, b"y")], key=["k1", "k2"])
        committed = jobs.commit(client, "j", [writer.staged])
        assert set(committed.serials) == {topicdb.shard_of_key(key, 3) for key in ("k1", "k2")}


def test_what_is_not_committed_is_removed(
    client: Any, database: topicdb.Database, path: Path, tmp_path: Path
) -> None:
    class LostError(Exception):
        pass

    with pytest.raises(LostError), jobs.StagedWriter(client, "j") as writer:
        writer.append(ROWS)
        folder = Path(writer._staging._folder.name)  # type: ignore[attr-defined]
        assert folder.exists()
        raise LostError
    assert not folder.exists()
    stage(client, "j", ROWS)
    jobs.abort(client, "j")
    assert leftovers(path) == []
    with pytest.raises(ValueError, match="job: expected 1 to 128"):
        jobs.StagedWriter(client, "a/b")
    with jobs.StagedWriter(client, "k") as kept:
        rows = [("b", 1, b"y"), ("no/+", 2, b"z")]
        with suppress(topicdb.TopicError):
            kept.append(rows)
    assert kept.staged.messages == 0
    assert leftovers(path) == [] and database.scan("#").count() == 0


def test_a_large_file_comes_in_parts(
    client: Any, database: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicdb.remote.client.staging.CHUNK_BYTES", 10_000)
    rows = [(f"m/{i}", i, os.urandom(50)) for i in range(2_000)]
    jobs.commit(client, "j", [stage(client, "j", rows)])
    assert sorted(database.scan("#")) == sorted(rows)


def test_an_answer_to_a_commit_that_is_lost_is_asked_for_again(
    client: Any, database: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, lose in enumerate((lose_call, lose_answer)):
        job = f"j{number}"
        staged = stage(client, job, ROWS)
        with monkeypatch.context() as patch:
            lose(patch, "stage.commit")
            committed = jobs.commit(client, job, [staged])
        assert committed.messages == 500
        assert committed.repeated == (lose is lose_answer)
        assert database.scan("#").count() == 500 * (number + 1)


def test_a_file_that_was_not_sent_as_a_whole_counts_for_nothing(
    client: Any, database: topicdb.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(topicdb.UnavailableError):
        lose_call(patch, "stage.upload")
        stage(client, "j", ROWS)
    monkeypatch.setattr("topicdb.remote.client.staging.CHUNK_BYTES", 100)
    calls = 0
    send = type(client._connection).call

    def breaks(self: Any, method: str, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += method == "stage.upload"
        if calls > 2:
            raise topicdb.UnavailableError("the connection broke")
        return send(self, method, *args, **options)

    with monkeypatch.context() as patch, pytest.raises(topicdb.UnavailableError):
        patch.setattr(type(client._connection), "call", breaks)
        stage(client, "j", ROWS)
    assert [name for name in os.listdir(path / "jobs/j") if name.endswith(".part")]
    with pytest.raises(topicdb.NotFoundError):
        jobs.commit(client, "j", [jobs.Staged(f"{NAME}.staged", 1, 1, 0)])
    jobs.commit(client, "j", [stage(client, "j", ROWS)])
    assert database.scan("#").count() == 500 and leftovers(path) == []


def test_a_server_that_is_killed_has_all_of_a_job_or_nothing(path: Path) -> None:
    with Process(path) as server, topicdb.connect(server.url) as client:
        staged = stage(client, "j", ROWS)
        server.kill()
        with pytest.raises(topicdb.UnavailableError):
            jobs.commit(client, "j", [staged], timeout=0)
    with Process(path) as server, topicdb.connect(server.url) as client:
        assert client.scan("#").count() == 0
        assert jobs.commit(client, "j", [staged]).messages == 500
        server.kill()
    with Process(path) as server, topicdb.connect(server.url) as client:
        assert client.scan("#").count() == 500
        assert jobs.commit(client, "j", [staged]).repeated


def test_many_commit_a_job_at_once_and_one_stores_it(
    client: Any, database: topicdb.Database
) -> None:
    staged = stage(client, "j", ROWS)
    found: list[jobs.Committed] = []
    committers = [
        threading.Thread(target=lambda: found.append(jobs.commit(client, "j", [staged])))
        for _ in range(4)
    ]
    for committer in committers:
        committer.start()
    for committer in committers:
        committer.join()
    assert sorted(one.repeated for one in found) == [False, True, True, True]
    assert database.scan("#").count() == 500


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["../x", f"{NAME}.staged", 0, b"x", 1], "job: expected"),
        (["a.intent", f"{NAME}.staged", 0, b"x", 1], "job: expected"),
        ([".", f"{NAME}.staged", 0, b"x", 1], "job: expected"),
        ([5, f"{NAME}.staged", 0, b"x", 1], "job: expected"),
        (["j", "../TOPICDB", 0, b"x", 1], "no name of a staged file"),
        (["j", f"{NAME}.staged\n", 0, b"x", 1], "no name of a staged file"),
        (["j", f"{NAME}-0-1.pages/x", 0, b"x", 1], "no name of a staged file"),
        (["j", None, 0, b"x", 1], "no name of a staged file"),
        (["j", f"{NAME}.staged", 0, b"xy", 1], "bytes 0 to 2 are not in a file of 1"),
        (["j", f"{NAME}.staged", -1, b"x", 1], "bytes -1 to 0"),
        (["j", f"{NAME}.staged", 5, b"x", 10], "what stands before byte 5"),
        (["j", f"{NAME}.staged", "0", b"x", 10], "expected two numbers and bytes"),
        (["j", f"{NAME}.staged", 0, "x", 10], "expected two numbers and bytes"),
        (["j"], "stage.upload"),
    ],
    ids=str,
)
def test_what_is_no_staged_file_is_refused(
    client: Any, path: Path, args: list[Any], said: str
) -> None:
    client._connection.call("stage.upload", "j", f"{NAME}.staged", 0, b"ab", 10)
    before = sorted(path.rglob("*"))
    with pytest.raises((ValueError, TypeError), match=said):
        client._connection.call("stage.upload", *args)
    assert sorted(path.rglob("*")) == before


def test_files_of_another_database_are_refused(
    client: Any, database: topicdb.Database, tmp_path: Path
) -> None:
    with (
        topicdb.open(tmp_path / "other", shards=3) as other,
        serving(other) as server,
        topicdb.connect(server.url) as elsewhere,
    ):
        staged = stage(elsewhere, "j", ROWS)
        for file in (tmp_path / "other/jobs/j").iterdir():
            data = file.read_bytes()
            client._connection.call("stage.upload", "j", file.name, 0, data, len(data))
        with pytest.raises(topicdb.CorruptionError, match="staged for another database"):
            jobs.commit(client, "j", [staged])
    assert database.scan("#").count() == 0


def test_a_handle_of_this_process_stages_in_its_directory(
    database: topicdb.Database, path: Path
) -> None:
    staged = stage(database, "j", ROWS)
    assert (path / "jobs/j" / staged.file).exists()
    assert jobs.commit(database, "j", [staged]).messages == 500
    assert database.scan("#").count() == 500

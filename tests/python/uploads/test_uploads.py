"""Tests of uploads to a folder, which stands for an object store."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topicdb
from topicdb.uploads import Uploaded, download, store, upload, uploads

pytest.importorskip("pyarrow.fs", reason="needs topicdb[arrow]")
Rows = list[tuple[str, int, bytes]]

# Uploads, and ends like a process that is killed at the N-th call that changes the store.
CRASH = """
import os, sys, topicdb
from topicdb.uploads import store, upload
left = int(sys.argv[3])
def dying(name):
    method = getattr(store.ObjectStore, name)
    def call(self, *args):
        global left
        if left == 0:
            os._exit(9)
        left -= 1
        return method(self, *args)
    setattr(store.ObjectStore, name, call)
dying("_write")
dying("remove")
with topicdb.open(sys.argv[1]) as db:
    upload(db, sys.argv[2], keep=1)
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "bucket" / "fleet")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=2, retention={"m/1/#": "30d"}) as database:
        append(database, 0)
        yield database


def upload_names(url: str) -> list[str]:
    return [one.name for one in uploads(url)]


def append(database: topicdb.Database, first: int) -> None:
    database.append([(f"m/{i % 5}/x", i, b"%d" % i) for i in range(first, first + 500)])


def rows_at(path: Any) -> Rows:
    with topicdb.open(path, mode="r") as database:
        return sorted((one.topic, one.timestamp, one.value) for one in database.scan())


def rows_in(place: str, tmp_path: Path) -> Rows:
    """Returns the messages of the newest upload."""
    back = tmp_path / "back"
    shutil.rmtree(back, ignore_errors=True)
    download(place, back)
    return rows_at(back)


def files_of(place: str) -> list[Path]:
    return sorted(path for path in Path(place).rglob("*") if path.is_file())


def test_an_upload_and_back(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    made = upload(db, place)
    assert isinstance(made, Uploaded)
    assert made.number == 1
    assert (made.new_files, made.new_bytes) == (made.files, made.bytes)
    assert made.removed_files == 0
    assert rows_in(place, tmp_path) == rows_at(db.path) != []
    with topicdb.open(tmp_path / "back") as back:
        assert back.append([("m/1/y", None, b"")]).count == 1
        assert back.retention == db.retention


@pytest.mark.parametrize("form", ["file://{}", "{}"])
def test_urls_and_folders(db: topicdb.Database, place: str, tmp_path: Path, form: str) -> None:
    upload(db, form.format(place) + "/")
    assert [one.number for one in uploads(form.format(place))] == [1]
    assert rows_in(form.format(place), tmp_path) == rows_at(db.path)


def test_only_new_files_are_written(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    upload(db, place)
    db.rotate()
    append(db, 1_000)
    second = upload(db, place)
    assert second.number == 2
    assert 0 < second.new_files < second.files
    assert len(rows_in(place, tmp_path)) == 1_000
    assert [one.number for one in uploads(place)] == [1, 2]


def test_an_upload_goes_on_beside_appends(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    append(db, 500)  # not flushed
    upload(db, place)
    append(db, 1_000)
    assert len(rows_in(place, tmp_path)) == 1_000
    assert not Path(db.path + ".uploading").exists()


def test_a_dry_run_changes_nothing(db: topicdb.Database, place: str) -> None:
    foreseen = upload(db, place, dry_run=True)
    assert not Path(place).exists()
    made = upload(db, place)
    assert (foreseen.new_files, foreseen.new_bytes) == (made.new_files, made.new_bytes)
    before = files_of(place)
    db.rotate()
    append(db, 1_000)
    foreseen = upload(db, place, keep=1, dry_run=True)
    assert foreseen.removed_files > 0
    assert files_of(place) == before
    made = upload(db, place, keep=1)
    assert made.removed_files >= foreseen.removed_files


def test_earlier_uploads_are_removed_on_request(
    db: topicdb.Database, place: str, tmp_path: Path
) -> None:
    for first in (500, 1_000, 1_500):
        append(db, first)
        upload(db, place)
    before = sum(path.stat().st_size for path in files_of(place))
    made = upload(db, place, keep=2)
    assert [one.number for one in uploads(place)] == [3, 4]
    after = sum(path.stat().st_size for path in files_of(place))
    assert made.removed_bytes > 0
    assert after < before
    named = {file.name for one in uploads(place) for file in one.files}
    assert named == {path.relative_to(place).as_posix() for path in files_of(place)} - {
        one.name for one in uploads(place)
    }
    assert len(rows_in(place, tmp_path)) == 2_000
    with pytest.raises(ValueError, match="keep: at least 1"):
        upload(db, place, keep=0)


def test_another_database_is_refused(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    upload(db, place)
    before = files_of(place)
    with (
        topicdb.open(tmp_path / "other") as other,
        pytest.raises(topicdb.ExistsError, match="another database: choose another place"),
    ):
        upload(other, place)
    assert files_of(place) == before


def test_another_upload_at_the_same_time(
    db: topicdb.Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(db, place)
    (first,) = uploads(place)
    put = store.ObjectStore.put

    def meanwhile(self: store.ObjectStore, name: str, content: Any) -> None:
        put(self, name, content)
        if name.startswith("manifests/"):
            shutil.copy(f"{place}/{first.name}", f"{place}/manifests/{2:012}-ffffffffff")

    monkeypatch.setattr(store.ObjectStore, "put", meanwhile)
    with pytest.raises(topicdb.ConflictError, match="at the same time"):
        upload(db, place)
    assert sorted(path.name for path in Path(place, "manifests").iterdir()) == [
        first.name.removeprefix("manifests/"),
        f"{2:012}-ffffffffff",
    ]


def test_what_cannot_be_uploaded(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no object store is at 'ftp://x/y'"):
        upload(db, "ftp://x/y")
    with topicdb.open(tmp_path / "read") as other:
        path = other.path
    with topicdb.open(path, mode="r") as reading, pytest.raises(topicdb.ReadOnlyError):
        upload(reading, place)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(topicdb.StorageError, match="file"):
        upload(db, blocked / "below")


def test_messages_show_no_keys() -> None:
    url = "s3://key:secret@bucket/folder/?endpoint_override=http://127.0.0.1:1&region=x"
    assert store.ObjectStore(url).url == "s3://bucket/folder"
    with pytest.raises(topicdb.StorageError, match=r"^listing manifests of s3://bucket/folder: "):
        upload_names(url)


def test_what_cannot_be_downloaded(db: topicdb.Database, place: str, tmp_path: Path) -> None:
    with pytest.raises(topicdb.NotFoundError, match="there is no upload at"):
        download(place, tmp_path / "back")
    upload(db, place)
    with pytest.raises(topicdb.ExistsError):
        download(place, db.path)
    damaged = max(Path(place, "files").iterdir(), key=lambda path: path.stat().st_size)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(topicdb.CorruptionError, match=damaged.name):
        download(place, tmp_path / "back")
    damaged.unlink()
    with pytest.raises(topicdb.CorruptionError, match=f"{damaged.name} is missing"):
        download(place, tmp_path / "back")
    assert not list(tmp_path.glob("back*"))
    (manifest,) = Path(place, "manifests").iterdir()
    manifest.write_bytes(b"x")
    with pytest.raises(topicdb.CorruptionError, match=manifest.name):
        uploads(place)


def test_a_file_that_the_store_lost_is_written_again(
    db: topicdb.Database, place: str, tmp_path: Path
) -> None:
    upload(db, place)
    lost = max(Path(place, "files").iterdir(), key=lambda path: path.stat().st_size)
    lost.write_bytes(b"cut short")
    assert upload(db, place).new_files >= 1
    assert rows_in(place, tmp_path) == rows_at(db.path)


@pytest.mark.parametrize("step", [0, 2, 8, 20, 1_000])
def test_a_crash_leaves_the_upload_before(
    db: topicdb.Database, place: str, tmp_path: Path, step: int
) -> None:
    upload(db, place)
    before = rows_at(db.path)
    append(db, 1_000)
    path = db.path
    db.close()
    command = [sys.executable, "-c", CRASH, path, place, str(step)]
    done = subprocess.run(command, check=False)
    assert done.returncode in (9, 0)
    assert (done.returncode == 0) == (step == 1_000)
    if done.returncode == 9:
        assert Path(path + ".uploading").exists()
        assert len(rows_in(place, tmp_path)) in (len(before), 1_000)
    with topicdb.open(path) as again:
        upload(again, place, keep=1)
    assert len(rows_in(place, tmp_path)) == 1_000
    (newest,) = uploads(place)
    assert len(files_of(place)) == len(newest.files) + 1
    assert not Path(path + ".uploading").exists()

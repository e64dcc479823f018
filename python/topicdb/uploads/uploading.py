"""Uploads a database to an object store, and brings it back."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from topicdb import _core
from topicdb.creating import checked_path, directories_for
from topicdb.engines.features import require
from topicdb.uploads.manifests import (
    FILES,
    UploadedFile,
    UploadInfo,
    manifest_names,
    read_manifest,
    write_manifest,
)
from topicdb.uploads.store import ObjectStore

if TYPE_CHECKING:
    from topicdb.database.database import Database

PathLike: TypeAlias = "str | os.PathLike[str]"

# A table file ends with its properties, which say who wrote it when. So its end names its content.
_TABLE = ".sst"
_END_BYTES = 16 << 10
_READ_BYTES = 8 << 20
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The result of an upload; made by ``topicdb.uploads.upload``.

    Attributes:
        url: the place.
        number: the number of the upload there, from 1.
        files: how many files the database has.
        bytes: their size.
        new_files: how many of them were not in the store yet, and were written.
        new_bytes: their size.
        removed_files: how many files of earlier uploads were removed.
        removed_bytes: their size.
    """

    url: str
    number: int
    files: int
    bytes: int
    new_files: int
    new_bytes: int
    removed_files: int = 0
    removed_bytes: int = 0


def upload(
    database: Database, url: PathLike, *, keep: int | None = None, dry_run: bool = False
) -> Uploaded:
    """Copies a database to an object store, as it is at one moment, while it is written.

    Spark reads it there, with ``option("path", url)``. An upload is never changed, and readers see
    the newest one. Another upload to the same place writes only the files that the store lacks.

    The copy has what was acknowledged before the call, and is one moment of all shards, like a
    snapshot. Messages are sealed first. After a crash the upload is there as a whole or not at all;
    files that it has left are used by the next one, or removed by the next one with ``keep``.

    Arguments:
        database: one that is open for writing.
        url: the place: ``s3://bucket/folder`` (or ``s3a://``), ``gs://``, ``hdfs://`` or
            ``file://``, as ``pyarrow.fs.FileSystem.from_uri`` takes them, or the path of a folder.
            A place has the uploads of one database.
        keep: how many uploads stay, at least 1. Earlier ones are removed, with the files that no
            other one has: whoever reads them gets an error. None: all stay.
        dry_run: writes and removes nothing, and says what would be.

    Returns:
        What was written.

    Raises:
        ExistsError: the place has the uploads of another database.
        ConflictError: another upload to the place was made at the same time.
        ReadOnlyError: the database does not have all shards open for writing.
        StorageError: the store, or the file system of the database, failed.
        ValueError: the URL names no store, or ``keep`` is less than 1.
        NotImplementedError: the database is not in a directory of this machine.

    Example:
        >>> from topicdb.uploads import upload
        >>> upload(db, "uploads/fleet").number
        1
        >>> upload(db, "uploads/fleet").new_bytes < 10_000
        True
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep: at least 1 upload has to stay, got {keep}")
    require(database._core, "directory", "upload")
    store = ObjectStore(url)
    with _one_at_a_time, _copy_of(database) as copy:
        return _Upload(store, copy).run(keep, dry_run=dry_run)


def uploads(url: PathLike) -> list[UploadInfo]:
    """Returns the uploads of a place, the oldest first.

    Arguments:
        url: as in ``upload``.

    Returns:
        The uploads; none if there is nothing.

    Raises:
        CorruptionError: a manifest is damaged.
        StorageError: the store failed.
        ValueError: the URL names no store.

    Example:
        >>> from topicdb.uploads import upload, uploads
        >>> made = upload(db, "uploads/again")
        >>> [one.number for one in uploads("uploads/again")]
        [1]
    """
    store = ObjectStore(url)
    return [read_manifest(store, name) for name in manifest_names(store)]


def download(url: PathLike, path: PathLike) -> UploadInfo:
    """Makes a database of the newest upload of a place.

    Arguments:
        url: as in ``upload``.
        path: a directory that does not exist yet.

    Returns:
        The upload.

    Raises:
        NotFoundError: the place has no upload.
        ExistsError: there is something at ``path``.
        CorruptionError: an object is missing or damaged; the text names it. Nothing is left at
            ``path`` then.
        StorageError: the store or the file system failed.

    Example:
        >>> from topicdb.uploads import download, upload
        >>> made = upload(db, "uploads/fleet2")
        >>> download("uploads/fleet2", "back.db").number
        1
    """
    store, target = ObjectStore(url), checked_path(path)
    names = manifest_names(store)
    if not names:
        raise _core.NotFoundError(f"there is no upload at {store.url}")
    found = read_manifest(store, names[-1])
    if os.path.lexists(target):
        raise _core.ExistsError(f"{target} is there already: choose another path")
    partial = target + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    with directories_for(target):
        try:
            for file in found.files:
                _fetch(store, file, os.path.join(partial, file.path))
            os.rename(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return found


class _Upload:
    """One upload of a copy that nobody changes. Not thread-safe."""

    def __init__(self, store: ObjectStore, copy: Path) -> None:
        self._store = store
        self._copy = copy
        self._database = _core.database_id(str(copy))

    def run(self, keep: int | None, *, dry_run: bool) -> Uploaded:
        """Writes what the store lacks, then the manifest, and then removes what has to go."""
        names = manifest_names(self._store)
        before = read_manifest(self._store, names[-1]) if names else None
        if before is not None and before.database != self._database:
            raise _core.ExistsError(
                f"{self._store.url} has uploads of another database: choose another place"
            )
        known = {file.name: file for file in before.files} if before is not None else {}
        there = self._store.list(FILES)
        files, new = self._write_files(known, there, dry_run=dry_run)
        number = 1 if before is None else before.number + 1
        if not dry_run:
            self._check_stored(files)
            names.append(write_manifest(self._store, self._database, number, files))
        removed = self._remove(names, keep, files, dry_run=dry_run)
        return Uploaded(
            self._store.url,
            number,
            len(files),
            sum(file.bytes for file in files),
            len(new),
            sum(new),
            len(removed),
            sum(removed),
        )

    def _write_files(
        self, known: dict[str, UploadedFile], there: dict[str, int], *, dry_run: bool
    ) -> tuple[list[UploadedFile], list[int]]:
        """Returns all files of the database, and the sizes of those that the store lacked."""
        files, new = [], []
        for path in sorted(self._copy.rglob("*")):
            if not path.is_file() or path.name == "handles.lock":
                continue
            relative = path.relative_to(self._copy).as_posix()
            size, name = path.stat().st_size, _object_name(path, relative)
            old = known.get(name)
            if there.get(name) != size:
                new.append(size)
                old = None
                if not dry_run:
                    with path.open("rb") as content:
                        self._store.put(name, content)
            crc32 = _crc32(path) if old is None and not dry_run else 0
            files.append(old or UploadedFile(relative, name, size, crc32))
        return files, new

    def _check_stored(self, files: list[UploadedFile]) -> None:
        there = self._store.list(FILES)
        for file in files:
            if there.get(file.name) != file.bytes:
                raise _core.StorageError(
                    f"{self._store.url}: {file.name} has {there.get(file.name, 0)} bytes after it "
                    f"was written, and not {file.bytes}: is it written by somebody else, too?"
                )

    def _remove(
        self, names: list[str], keep: int | None, files: list[UploadedFile], *, dry_run: bool
    ) -> list[int]:
        """Removes earlier uploads, and returns the sizes of the files that go.

        Manifests go first: one that is there has all of its files.
        """
        if keep is None:
            return []
        stays = max(keep - 1, 0) if dry_run else keep
        kept = names[len(names) - stays :] if stays else []
        needed = {file.name for file in files}
        for name in kept:
            needed.update(file.name for file in read_manifest(self._store, name).files)
        going = {name: size for name, size in self._store.list(FILES).items() if name not in needed}
        if not dry_run:
            for name in [*(name for name in names if name not in kept), *going]:
                self._store.remove(name)
        return list(going.values())


@contextmanager
def _copy_of(database: Database) -> Iterator[Path]:
    """Makes a snapshot beside the database, for as long as the block lasts.

    It has hard links to the files of the database, which take no time and no space.
    """
    path = database.path.rstrip("/") + ".uploading"
    shutil.rmtree(path, ignore_errors=True)  # what a crash has left
    database.flush()
    database.snapshot(path)
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _object_name(path: Path, relative: str) -> str:
    """Returns the name of the object with a file: another content has another name."""
    size = path.stat().st_size
    digest = hashlib.sha256(f"{relative}\0{size}\0".encode())
    with path.open("rb") as file:
        if path.suffix == _TABLE:
            file.seek(max(size - _END_BYTES, 0))
        while content := file.read(_READ_BYTES):
            digest.update(content)
    return f"{FILES}/{digest.hexdigest()[:32]}-{path.name}"


def _crc32(path: Path) -> int:
    crc32 = 0
    with path.open("rb") as file:
        while content := file.read(_READ_BYTES):
            crc32 = zlib.crc32(content, crc32)
    return crc32


def _fetch(store: ObjectStore, file: UploadedFile, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    store.fetch(file.name, path)
    if os.path.getsize(path) != file.bytes or _crc32(Path(path)) != file.crc32:
        raise _core.CorruptionError(
            f"{store.url}: {file.name} ({file.path}) is damaged: it is not what was uploaded"
        )

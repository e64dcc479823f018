"""The manifests of uploads: what there is in an object store, and which is the newest."""

from __future__ import annotations

import io
import secrets
import time
from dataclasses import dataclass, field

from topicdb import _core
from topicdb.uploads.store import ObjectStore

FOLDER = "manifests"
FILES = "files"
_DIGITS = 12
_RANDOM_BYTES = 4


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of an uploaded database.

    Attributes:
        path: in the directory of the database.
        name: of the object that has its content.
        bytes: the size of the content.
        crc32: the CRC-32 of the content.
    """

    path: str
    name: str
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class UploadInfo:
    """An upload that is in an object store; made by ``topicdb.uploads.uploads``.

    Attributes:
        number: the number of the upload, from 1.
        name: the name of its manifest in the place.
        made_at: when it was made, in microseconds since 1970.
        database: the id of the database.
        files: its files.
    """

    number: int
    name: str
    made_at: int
    database: bytes
    files: list[UploadedFile] = field(repr=False)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)


def manifest_names(store: ObjectStore) -> list[str]:
    """Returns the names of the manifests of a place, the oldest first."""
    return sorted(name for name in store.list(FOLDER) if not name.endswith(".partial"))


def read_manifest(store: ObjectStore, name: str) -> UploadInfo:
    """Returns the upload with this manifest. Raises CorruptionError if it is damaged."""
    database, number, made_at, files = _core.decode_upload(store.get(name), f"{store.url}/{name}")
    return UploadInfo(number, name, made_at, database, [UploadedFile(*file) for file in files])


def write_manifest(
    store: ObjectStore, database: bytes, number: int, files: list[UploadedFile]
) -> str:
    """Makes these files an upload, and returns the name of its manifest.

    Names sort by number. Two that upload at the same time get the same number, and different names:
    the greater name is the newer upload. Raises ConflictError if that is not this one, and leaves
    no manifest then.
    """
    name = f"{FOLDER}/{number:0{_DIGITS}}-{secrets.token_hex(_RANDOM_BYTES)}"
    rows = [(file.path, file.name, file.bytes, file.crc32) for file in files]
    content = _core.encode_upload(database, number, time.time_ns() // 1_000, rows)
    store.put(name, io.BytesIO(content))
    newest = manifest_names(store)[-1]
    if newest > name:
        store.remove(name)
        raise _core.ConflictError(
            f"{store.url}: another upload, {newest}, was made at the same time; nothing of this "
            "one is seen: upload again, from one process at a time"
        )
    return name

"""The place of an upload: a folder of an object store, or of a file system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from topicdb import _core
from topicdb.frames.extras import library

# Hadoop and Spark call the same stores so.
_SAME = {"s3a://": "s3://", "s3n://": "s3://"}
_PARTIAL = ".partial"
_COPY_BYTES = 8 << 20


class ObjectStore:
    """Writes, lists and removes objects of one place. Whoever uploads owns it. Not thread-safe.

    An object is a file below the place, named by its path there. It appears whole or not at all:
    object stores do so by themselves, and in file systems it is renamed into place.

    Every method raises StorageError, which names the object, if the store fails.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        """Takes a URL that pyarrow.fs.FileSystem.from_uri knows, or the path of a folder.

        Raises ValueError for any other URL, and ModuleNotFoundError without pyarrow.
        """
        given = os.fspath(url)
        self.url = _shown(given)
        self._fs = library("pyarrow.fs", "an upload", extra="arrow")
        if "://" not in given:
            self._files, self._root = self._fs.LocalFileSystem(), os.path.abspath(given)
        else:
            try:
                self._files, self._root = self._fs.FileSystem.from_uri(_plain(given))
            except (ValueError, OSError, NotImplementedError) as error:
                raise ValueError(f"url: no object store is at {self.url!r}: {error}") from None
        self._root = self._root.rstrip("/")
        self._is_store = self._files.type_name in {"s3", "gcs", "abfs"}

    def list(self, folder: str) -> dict[str, int]:
        """Returns the size of each object of a folder, by name; nothing without the folder."""
        chosen = self._fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        with self._faults("listing", folder):
            found = self._files.get_file_info(chosen)
        is_file = self._fs.FileType.File
        return {f"{folder}/{one.base_name}": one.size for one in found if one.type == is_file}

    def get(self, name: str) -> bytes:
        """Returns the content of an object. Raises CorruptionError if there is none."""
        with self._faults("reading", name), self._files.open_input_stream(self._path(name)) as file:
            content: bytes = file.read()
        return content

    def fetch(self, name: str, path: str) -> None:
        """Copies an object to a new file."""
        with (
            self._faults("reading", name),
            self._files.open_input_stream(self._path(name)) as source,
            open(path, "xb") as target,
        ):
            shutil.copyfileobj(source, target, _COPY_BYTES)

    def put(self, name: str, content: IO[bytes]) -> None:
        """Makes an object, or replaces it."""
        path = self._path(name)
        with self._faults("writing", name):
            if self._is_store:
                self._write(path, content)
                return
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
            self._write(path + _PARTIAL, content)
            self._files.move(path + _PARTIAL, path)

    def remove(self, name: str) -> None:
        """Removes an object. It is no error if it is gone."""
        with self._faults("removing", name):
            try:
                self._files.delete_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _write(self, path: str, content: IO[bytes]) -> None:
        with self._files.open_output_stream(path) as target:
            shutil.copyfileobj(content, target, _COPY_BYTES)

    @contextmanager
    def _faults(self, doing: str, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise _core.CorruptionError(f"{self.url}: {name} is missing: {error}") from None
        except OSError as error:
            raise _core.StorageError(f"{doing} {name} of {self.url}: {error}") from None


def _shown(url: str) -> str:
    """Returns a URL for messages: without options and without keys, which are secret."""
    if "://" not in url:
        return url.rstrip("/")
    scheme, rest = url.partition("?")[0].split("://", 1)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}".rstrip("/")


def _plain(url: str) -> str:
    for begin, same in _SAME.items():
        if url.startswith(begin):
            return same + url.removeprefix(begin)
    return url

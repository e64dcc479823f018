"""Where the reads of a test find its database: its directory, a server, or an upload."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from s3_server import BUCKET, S3Server
from served import serving

import topicdb
import topicdb.spark
from topicdb.spark import Remote
from topicdb.uploads import upload

NATIVE = "topicdb"
"""The format of the connector in Java."""
PYTHON = "topicdb-python"
"""That of the source in Python."""

both = pytest.mark.usefixtures("place")
"""Marks a test whose reads go over a directory, and once more over a server."""


class Places:
    """Gives the options of reads, by server or by upload. A test's fixture owns it.

    A server reads the directory as another process would, so a test may open it for writing.
    """

    def __init__(self, kind: str, store: S3Server | None = None) -> None:
        self._kind = kind
        self._store = store
        self._servers: dict[str, str] = {}
        self._open = ExitStack()

    def options(self, path: str) -> dict[str, str]:
        """Returns the options that name a database."""
        if self._kind == "remote":
            return {"remote": self.address(path)}
        return {"path": self.upload(path)}

    def upload(self, path: str) -> str:
        """Returns the URL of an upload of a database as it is now."""
        place = self._open.enter_context(tempfile.TemporaryDirectory())
        target, url = place, f"file://{place}"
        if self._store is not None:
            folder = os.path.basename(place)
            target, url = self._store.url(folder), f"s3a://{BUCKET}/{folder}"
        try:
            with topicdb.open(path) as database:
                upload(database, target)
        except topicdb.LockedError:
            pytest.skip("another process writes the database, and would have to upload it")
        return url

    def address(self, path: str) -> str:
        """Returns the address of the server of a database."""
        if path not in self._servers:
            database = self._open.enter_context(topicdb.open(path, mode="r"))
            self._servers[path] = self._open.enter_context(serving(database)).url
        return self._servers[path]

    def close(self) -> None:
        """Closes all servers."""
        self._open.close()


def has_grpc() -> bool:
    """Returns whether the JAR was built with gRPC: not if Maven Central could not be reached."""
    with zipfile.ZipFile(topicdb.spark.jar()) as jar:
        return "io/topicdb/spark/grpc/GrpcCalls.class" in jar.namelist()


def skip_without_grpc() -> None:
    """Skips the test if the JAR was built without gRPC."""
    if not has_grpc():
        pytest.skip("the JAR was built without gRPC")


_places: list[Places] = []


def places(kind: str, store: S3Server | None = None) -> Iterator[None]:
    """Lets reads go over servers or uploads while it is suspended; ``kind`` says which.

    Uploads are in ``store``, or in a folder.
    """
    if kind == "local":
        yield
        return
    _places.append(Places(kind, store))
    try:
        yield
    finally:
        _places.pop().close()


def options_of(path: str) -> dict[str, str]:
    """Returns the options that name the database of a read."""
    return _places[-1].options(path) if _places else {"path": path}


def arguments_of(path: str) -> dict[str, Any]:
    """Returns the arguments of functions that name the database of a read."""
    return {"remote": Remote(_places[-1].address(path))} if _places else {"path": path}

"""Servers for tests: in this process, or in a process of their own that can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

import topicdb
from topicdb.remote.client.connection import Connection

START_S = 250


@dataclass(frozen=True)
class Certificates:
    """PEM files: certificate and key of a server at localhost, and the root that signed them."""

    certificate: Path
    key: Path
    root: Path


def make_certificates(directory: Path) -> Certificates:
    """Makes an authority and a certificate that it has issued, and writes both to ``directory``."""
    directory.mkdir()
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    made = Certificates(directory / "server.pem", directory / "key.pem", directory / "root.pem")
    made.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(made.key))
    authority.cert_pem.write_to_path(str(made.root))
    return made


@contextmanager
def serving(database: topicdb.Database, **options: Any) -> Iterator[Any]:
    """Serves a database from this process; at the end of the block every call must have ended."""
    server = topicdb.serve(database, **options)
    try:
        yield server
    finally:
        assert server.shutdown(20), "a call has not ended"


def lose_answer(patch: pytest.MonkeyPatch, method: str) -> None:
    """Lets the answer to the next call of ``method`` be lost after the server has done it."""
    _lose(patch, method, is_done=True)


def lose_call(patch: pytest.MonkeyPatch, method: str) -> None:
    """Lets the next call of ``method`` be lost before the server has it."""
    _lose(patch, method, is_done=False)


def _lose(patch: pytest.MonkeyPatch, method: str, *, is_done: bool) -> None:
    call = Connection.call
    lost: list[str] = []

    def lose(self: Connection, called: str, *args: Any, **options: Any) -> Any:
        is_lost = called == method and not lost
        if is_lost:
            lost.append(called)
        answer = None if is_lost and not is_done else call(self, called, *args, **options)
        if is_lost:
            raise topicdb.UnavailableError("the connection broke")
        return answer

    patch.setattr(Connection, "call", lose)


class Process:
    """``topicdb serve`` in a process of its own, with ``environment`` beside that of the test."""

    def __init__(
        self, path: Path, *arguments: object, environment: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "topicdb.cli", "serve", str(path), *map(str, arguments)]
        if "--listen" not in arguments:
            command += ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"grpc\S*", line)
        if found is None:
            raise AssertionError(f"no server: {line}{self.process.communicate(timeout=START_S)[1]}")
        self.url = found[0]

    def kill(self) -> None:
        """Kills the server with SIGKILL."""
        self.process.kill()
        self.process.communicate(timeout=START_S)

    def stop(self) -> tuple[int, str]:
        """Sends SIGTERM, and returns the exit code and what the server wrote to stderr."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Waits until the server ends, and returns what ``stop`` does."""
        _, errors = self.process.communicate(timeout=START_S)
        return self.process.returncode, errors

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.kill()

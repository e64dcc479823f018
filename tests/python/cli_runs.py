"""Runs the installed command ``topicdb`` for its tests, and reads what a run has stored."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import pytest
from support import CHILD_TIMEOUT_S

import topicdb

COMMAND = str(Path(sys.executable).with_name("topicdb"))
# The command, showing progress from the beginning.
IMPATIENT = [
    sys.executable,
    "-c",
    "from topicdb.cli import main, progress; progress.AFTER_S = 0.0; main()",
]


Result: TypeAlias = "subprocess.CompletedProcess[str]"


def run(*arguments: object, stdin: str | bytes = b"") -> Result:
    """Runs the command to its end in a process of its own, as users do."""
    result = subprocess.run(
        [COMMAND, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=CHILD_TIMEOUT_S,
    )
    return subprocess.CompletedProcess(
        result.args, result.returncode, result.stdout.decode(), result.stderr.decode()
    )


def run_here(*arguments: object, stdin: str | bytes = b"") -> Result:
    """Runs the command in this process, which starts no interpreter: for tests with many cases."""
    from topicdb.cli.app import app

    data = stdin.encode() if isinstance(stdin, str) else stdin
    words = [str(argument) for argument in arguments]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.buffer.write(data)
        file.seek(0)
        with (
            mock.patch("sys.stdin", file),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as exit,
        ):
            app(words, prog_name="topicdb")
    assert isinstance(exit.value.code, int)
    texts = (stream.buffer.getvalue().decode() for stream in flushed(out, err))
    return subprocess.CompletedProcess(words, exit.value.code, *texts)


def flushed(*streams: io.TextIOWrapper) -> Iterator[Any]:
    for stream in streams:
        stream.flush()
        yield stream


def output_of(*arguments: object, stdin: str | bytes = b"") -> str:
    """Returns what a run printed; the run must succeed and write nothing to stderr."""
    result = run(*arguments, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def error_of(*arguments: object, stdin: str | bytes = b"") -> str:
    """Returns the error of a run in this process, which must fail with code 1."""
    return error_in(run_here(*arguments, stdin=stdin))


def error_in(result: Result, code: int = 1) -> str:
    """Returns the error on stderr of a run, which must fail with ``code`` and print nothing."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    prefix = "topicdb: error: "
    assert result.stderr.startswith(prefix)
    assert result.stderr.count("\n") == 1, "one line, no traceback"
    return result.stderr.removeprefix(prefix).rstrip("\n")


def usage_error(*arguments: object) -> str:
    """Returns the usage error of a run, without the box that is drawn around it."""
    result = run_here(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    return " ".join(result.stderr.replace("│", " ").split())


def answered(command: list[str], answer: str) -> str:
    """Returns what a run at a terminal shows; the run must ask once, and gets ``answer``."""
    person, terminal = os.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        is_asked = False
        try:
            while chunk := _read_terminal(person):
                shown += chunk
                if not is_asked and b"[y/N]" in shown:
                    is_asked = True
                    os.write(person, answer.encode() + b"\n")
        finally:
            os.close(person)
        process.wait(CHILD_TIMEOUT_S)
    assert is_asked, shown.decode()
    return " ".join(shown.decode().split())


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # EIO: no process has the other end any more
        return b""


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a run that the block may talk with; the end of the block kills it if it still runs."""
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def json_lines(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def stored(path: Path, filter: str = "#") -> list[topicdb.Message]:
    with topicdb.open(path, mode="r") as database:
        return database.scan(filter, order="time").to_list()

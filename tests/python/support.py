"""Helpers of several test files: child processes, waiting, and topics of a given shard."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

from model.model import shard_of

Layout: TypeAlias = Literal["columnar", "skipstream"]
LAYOUTS: tuple[Layout, ...] = ("columnar", "skipstream")
LAYOUTS_IN_TURN: list[tuple[Layout, ...]] = [*((layout,) for layout in LAYOUTS), LAYOUTS]

# How long a test waits for something. Even on a loaded machine with one core it comes long before:
# only a failure takes this long. A test's time limit is longer, so that the failure says what is
# missing.
PATIENCE_S = 250.0
# A child that takes longer than this hangs.
CHILD_TIMEOUT_S = 600


def topic_in_shard(shard: int, shards: int, prefix: str = "topic") -> str:
    """Returns a topic that lives in ``shard``."""
    return next(t for t in (f"{prefix}/{i}" for i in range(10_000)) if shard_of(t, shards) == shard)


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    """Returns when ``condition()`` is true; raises AssertionError after ``PATIENCE_S``."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what or condition}"
        time.sleep(0.005)


def run_child(code: str, *arguments: object, directory: Path | None = None) -> str:
    """Runs Python code to its end in a process of its own and returns what it printed.

    Raises AssertionError, with what the child wrote to stderr, if the child failed.
    """
    result = subprocess.run(
        _command(code, arguments),
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        cwd=directory,
    )
    assert result.returncode == 0, f"child exited with {result.returncode}:\n{result.stderr}"
    return result.stdout


class Child:
    """A Python process that a test talks with, line by line; the end of the block kills it."""

    def __init__(self, code: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            _command(code, arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read_line(self) -> str:
        """Returns the next line of its output without the newline, or "" at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def expect(self, line: str) -> None:
        """Reads a line; raises AssertionError with the child's stderr if it is not ``line``."""
        got = self.read_line()
        if got != line:
            self.kill()
            assert self._process.stderr is not None
            raise AssertionError(f"expected {line!r}, got {got!r}:\n{self._process.stderr.read()}")

    def send(self, line: str = "") -> None:
        """Writes a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def interrupt(self) -> None:
        """Sends SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kills the child with SIGKILL, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    def finish(self) -> tuple[int, str, str]:
        """Waits for its end, and returns the exit code, the output not yet read, and stderr."""
        # communicate() would lose what readline() has read ahead.
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        out, err = self._process.stdout.read(), self._process.stderr.read()
        return self._process.wait(CHILD_TIMEOUT_S), out, err

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # raised if something is still buffered for the process
                pipe.close()


def fork_and_run(check: Callable[[], object]) -> str:
    """Runs ``check()`` in a forked child of this process, and returns the text that it returned.

    Raises AssertionError if the child was killed or ``check()`` raised.
    """
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside other threads. RocksDB has some: tests are about that.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:  # in the child: never returns into pytest
        code = 1
        try:
            os.close(read_end)
            os.write(write_end, str(check()).encode())
            code = 0
        except BaseException as error:
            os.write(write_end, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the forked child ended with status {status}: {text}"
    return text


def newest(database: Any, topic: str, timestamp: int = 0) -> bytes | None:
    """Returns the value of a topic and time: the last written one if the layout keeps several."""
    with database.transaction(key=topic) as tx:
        value: bytes | None = tx.get(topic, timestamp)
    return value


@contextmanager
def nothing_written(database: Any) -> Iterator[None]:
    """Checks that the block changes neither what is stored nor the serials."""
    before = (database.scan("#").to_list(), [s["serial"] for s in database.stats()["shards"]])
    slabs = database.slabs()
    structures = database.structures()
    yield
    after = (database.scan("#").to_list(), [s["serial"] for s in database.stats()["shards"]])
    assert after == before
    assert database.slabs() == slabs
    assert database.structures() == structures


def _command(code: str, arguments: tuple[object, ...]) -> list[str]:
    source = textwrap.dedent(code)
    return [sys.executable, "-W", "error", "-u", "-c", source, *map(_text, arguments)]


def _text(argument: object) -> str:
    return os.fspath(argument) if isinstance(argument, Path) else str(argument)


_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def may_mount(mount: Path) -> bool:
    """Returns whether a child can mount a file system of its own at ``mount``."""
    command = f"mount -t tmpfs none {shlex.quote(str(mount))}"
    try:
        return subprocess.run([*_NAMESPACE, command], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def run_mounted(
    mount: Path, options: str, code: str, *, then: str = "true", after: str = ""
) -> str:
    """Runs ``code``, ``then`` and ``after`` where a tmpfs is at ``mount``; returns the output."""
    where = shlex.quote(str(mount))
    commands = [f"mount -t tmpfs -o {options} none {where}"]
    for part in (code, after):
        if part:
            script = mount.parent / f"part{len(commands)}.py"
            script.write_text(textwrap.dedent(part))
            commands += [f"{shlex.quote(sys.executable)} -W error {script} {where}", then]
    result = subprocess.run(
        [*_NAMESPACE, " && ".join(commands)],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout

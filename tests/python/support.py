"""What several test files need: child processes, and topics for a wanted shard."""

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

# What a test waits for comes long before, also on a loaded machine with one core: only a failure
# takes this long. It is less than a test's time limit, so that the failure says what did not come.
PATIENCE_S = 250.0
# A child that takes longer hangs.
CHILD_TIMEOUT_S = 600


def topic_in_shard(shard: int, shards: int, prefix: str = "topic") -> str:
    """A topic that lives in ``shard``."""
    return next(t for t in (f"{prefix}/{i}" for i in range(10_000)) if shard_of(t, shards) == shard)


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    """Returns when the condition is true; AssertionError if that takes longer than a test waits."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what or condition}"
        time.sleep(0.005)


def run_child(code: str, *arguments: object, directory: Path | None = None) -> str:
    """Runs Python code to its end in a process of its own and gives what it printed.

    AssertionError with what it wrote to stderr if it failed.
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
    """A Python process to talk with, line by line; killed at the end if it still runs."""

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
        """The next line it prints, without its newline; empty at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def expect(self, line: str) -> None:
        """Waits for a line and checks it; on another one shows what the child had to say."""
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
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    def finish(self) -> tuple[int, str, str]:
        """Waits for its end: exit code, what it printed that nobody has read, stderr."""
        # Not communicate(): that would lose what readline() has read ahead.
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
            with suppress(BrokenPipeError):  # what was still buffered for a process that is gone
                pipe.close()


def fork_and_run(check: Callable[[], object]) -> str:
    """Runs ``check()`` in a forked child of this very process; gives the text that it returned.

    AssertionError if the child was killed or raised.
    """
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking beside threads. RocksDB has some; that is what is tested.
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
    """The value of a topic and time; the last one written where the layout keeps all."""
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
    """Whether a child can have a file system of its own there."""
    command = f"mount -t tmpfs none {shlex.quote(str(mount))}"
    try:
        return subprocess.run([*_NAMESPACE, command], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def run_mounted(
    mount: Path, options: str, code: str, *, then: str = "true", after: str = ""
) -> str:
    """Runs code in a child that has a tmpfs at ``mount``; then a command, and more code."""
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

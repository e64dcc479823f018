"""Spark processes that tests start, look at and kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyspark
import pytest

DRIVER = Path(__file__).with_name("spark_driver.py")
EXECUTOR = "CoarseGrainedExecutorBackend"  # in the command of each executor
GONE_SECONDS = 250


class Driver:
    """Runs ``spark_driver.py``; ``close`` kills it and all that it has started."""

    def __init__(
        self,
        home: Path,
        master: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = (home / "driver.log").open("a+")
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), master, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "SPARK_HOME": str(home), **(environment or {})},
            start_new_session=True,  # the JVM is in the same process group
        )

    def await_line(self, start: str) -> list[str]:
        """Returns the lines up to the first that begins with ``start``, which is the last one."""
        assert self._process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith(start):
            line = self._process.stdout.readline()
            if not line:
                self._log.seek(0)
                raise AssertionError(f"no {start!r}; got {lines}:\n{self._log.read()[-4000:]}")
            lines.append(line.rstrip("\n"))
        return lines

    def finish(self) -> list[str]:
        """Returns the lines that the driver prints until its end; it must exit with code 0."""
        assert self._process.stdout is not None
        lines = self._process.stdout.read().splitlines()
        self._log.seek(0)
        assert self._process.wait(GONE_SECONDS) == 0, f"{lines}:\n{self._log.read()[-4000:]}"
        return lines

    def processes(self, part: str) -> list[int]:
        """Returns the processes below the driver that have ``part`` in their command line."""
        return [pid for pid in _descendants(self._process.pid) if part in _command(pid)]

    def kill(self) -> None:
        """Kills the driver and its JVM with SIGKILL, and waits until all they started is gone."""
        started = _descendants(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        until = time.monotonic() + GONE_SECONDS
        while any(_command(pid) for pid in started):
            assert time.monotonic() < until, [_command(pid) for pid in started]
            time.sleep(0.05)

    def close(self) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@contextmanager
def driver(
    home: Path, master: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> Iterator[Driver]:
    started = Driver(home, master, *arguments, environment=environment)
    try:
        yield started
    finally:
        started.close()


def spark_home(place: Path) -> Path:
    """Makes a SPARK_HOME in ``place``, so that no files are written to the installed package."""
    installed = Path(pyspark.__file__).parent
    place.mkdir()
    for name in ("bin", "jars", "python"):
        if (installed / name).exists():
            (place / name).symlink_to(installed / name)
    return place


def java_that_does_not_see(hidden: Path, place: Path) -> Path:
    """Makes a JAVA_HOME in ``place`` whose JVMs see an empty folder where ``hidden`` is.

    Each has a mount namespace of its own, and its own folder for temporary files, as on a host of
    its own. The test is skipped where the system allows no such namespaces.
    """
    namespace = ["unshare", "--map-root-user", "--mount"]
    tried = subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", hidden], check=False)
    if tried.returncode != 0:
        pytest.skip("this system allows no mount namespaces")
    real = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],
        check=True,
        capture_output=True,
        text=True,
    )
    home = re.search(r"java\.home = (\S+)", real.stderr)
    assert home is not None
    scratch = place / "scratch"
    java = place / "bin" / "java"
    java.parent.mkdir(parents=True)
    scratch.mkdir()
    script = (
        f"mount -t tmpfs none {hidden} && mount -t tmpfs none {scratch} && "
        f'TMPDIR={scratch} exec {home[1]}/bin/java -Djava.io.tmpdir={scratch} "$@"'
    )
    java.write_text(f"#!/bin/sh\nexec {' '.join(namespace)} sh -c '{script}' java \"$@\"\n")
    java.chmod(0o755)
    return place


@contextmanager
def standalone(home: Path, hosts: list[str]) -> Iterator[str]:
    """Starts a cluster with a worker on each of ``hosts``, and yields its master's address."""
    with (home / "cluster.log").open("w+") as log:
        processes = [_daemon(home, "master.Master", log, "--host", "127.0.0.1", "--port", "0")]
        try:
            address = _await_text(log, "Starting Spark master at ")
            for host in hosts:
                where = ("--host", host, "--cores", "1", "--memory", "1g")
                directory = ("--work-dir", str(home / f"work-{host}"))
                processes.append(_daemon(home, "worker.Worker", log, *where, *directory, address))
            for host in hosts:
                _await_text(log, f"Registering worker {host}")
            yield address
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _daemon(home: Path, name: str, log: IO[str], *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    return subprocess.Popen(
        [*command, "--webui-port", "0", *arguments],
        stdout=log,
        stderr=log,
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"},
    )


def _await_text(log: IO[str], start: str) -> str:
    """Waits until ``start`` is logged.

    Returns the word after it if ``start`` ends with a blank, or else ``start``.
    """
    until = time.monotonic() + GONE_SECONDS
    while True:
        log.seek(0)
        text = log.read()
        if start in text:
            return text.split(start, 1)[1].split()[0] if start.endswith(" ") else start
        assert time.monotonic() < until, text
        time.sleep(0.1)


def _descendants(root: int) -> list[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            # The name is in parentheses and may have blanks; the parent is two fields after it.
            stat = Path(f"/proc/{int(entry)}/stat").read_text().rpartition(")")[2]
            parents[int(entry)] = int(stat.split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""

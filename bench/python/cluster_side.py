"""What is measured of a cluster: three servers in processes of their own, and a client of them."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads import Row

NAMES = ("a", "b", "c")
START_S = 120


class Client(ABC):
    """A client that knows the addresses of all three servers."""

    @abstractmethod
    def append_batches(self, batches: Sequence[Any]) -> None:
        """Appends what ``ClusterSide.prepare`` has made.

        Each batch is sent once the one before it is acknowledged.
        """

    @abstractmethod
    def append_each(self, batch: Any, window: int) -> None:
        """Appends each message by itself, with at most ``window`` that are not acknowledged."""

    @abstractmethod
    def append_once(self, row: Row, id: str) -> bool:
        """Appends one message, and returns whether that was acknowledged. It may be repeated."""

    @abstractmethod
    def rows(self, count: int) -> list[Row]:
        """Returns what is stored; ``count`` is how many messages are expected."""

    @abstractmethod
    def close(self) -> None: ...


class ClusterSide(ABC):
    """A cluster of three servers on this machine, in a directory of its own. Close it."""

    name: str
    is_smallest_in_batches: bool  # whether messages take least on disk if they come in batches

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.processes: dict[str, subprocess.Popen[str]] = {}

    @abstractmethod
    def start(self, *names: str) -> None:
        """Starts these servers, and returns when they take appends."""

    @abstractmethod
    def leader(self) -> str:
        """Returns the name of the server that leads; waits until one does."""

    @abstractmethod
    def settle(self) -> None:
        """Returns once all servers have everything, and have done what appends leave for later."""

    @abstractmethod
    def client(self, first: str) -> Client:
        """Returns a client that is connected to this server, and knows the others."""

    @abstractmethod
    def prepare(self, rows: list[Row]) -> Any:
        """Returns messages in the form in which the client takes them; that is not measured."""

    def place(self, name: str) -> Path:
        """Returns the directory of a server."""
        return self.directory / name

    @abstractmethod
    def log(self, name: str) -> Path:
        """Returns where a server keeps the log of the consensus."""

    def cpu_s(self) -> float:
        """Returns the CPU seconds that the servers have used so far."""
        return sum(_cpu_s(process.pid) for process in self.processes.values())

    def kill(self, name: str) -> None:
        """Kills a server with SIGKILL."""
        self._end(self.processes.pop(name), signal.SIGKILL)

    def close(self) -> None:
        """Ends all servers, each of which may finish what it does."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            self._end(process, signal.SIGTERM)
        self.processes.clear()

    @staticmethod
    def _end(process: subprocess.Popen[str], how: signal.Signals) -> None:
        process.send_signal(how)
        process.communicate(timeout=START_S)


def _cpu_s(process: int) -> float:
    """Returns the CPU seconds of all threads of a process, by its clock (clock_getcpuclockid)."""
    return time.clock_gettime((~process << 3) | 2)


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine on which nobody listens."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports: list[int] = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_until(is_so: Any, what: str) -> None:
    """Asks again and again until it is so; stops the program if that takes too long."""
    end = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {START_S} s")
        time.sleep(0.02)

"""Brokers that tests start on free ports, kill and start again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from support import PATIENCE_S, wait_until

MOSQUITTO = shutil.which(  # Debian installs it where only root's PATH looks
    "mosquitto", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
)

KAFKA_UNAVAILABLE = 75  # the exit code of scripts/kafka.sh if Kafka is not to be had
KAFKA_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"  # any 16 bytes


def free_port() -> int:
    """Returns a port that nobody listens on, below those that the kernel gives to connections.

    While a broker is killed, something else could take a port that the kernel gives to connections:
    another test, or a client that tries to connect again and is connected to itself.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def unsent_bytes(port: int) -> int:
    """Returns how many bytes the listener of this port has written that the clients do not have."""
    local_address, queues = 1, 4  # numbers of fields, which hold hexadecimal digits
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(fields[queues].split(":")[0], 16)
        for fields in lines
        if int(fields[local_address].split(":")[1], 16) == port
    )


class Broker:
    """A process that listens on a port and writes to a log file; the end of the block kills it."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready: Callable[[], bool] | None = None) -> None:
        """Starts the process, and returns when ``ready()`` is true.

        Without ``ready`` it returns when the port accepts connections.
        """
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not (ready or (lambda: accepts(self.port)))():
            assert self._process.poll() is None, f"it ended:\n{self._log.read_text()}"
            assert time.monotonic() < deadline, f"it does not answer:\n{self._log.read_text()}"
            time.sleep(0.01)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """Kills the process with SIGKILL, even if it is stopped, and waits until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def hang(self) -> None:
        """Stops the process with SIGSTOP, and returns when it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill_when_sent(self) -> None:
        """Kills the process with SIGKILL when the kernel has sent all that the process has written.

        A killed process may have left bytes unread. Then Linux throws away what the process has
        written and the kernel has not yet sent: small packets wait until earlier ones are
        acknowledged, many packets wait for a larger window. The broker may have confirmed the
        messages in them to their publishers.
        """
        self.hang()
        wait_until(lambda: unsent_bytes(self.port) == 0)
        self.kill()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()


def mosquitto(directory: Path, *lines: str) -> Broker:
    """Returns a Mosquitto that keeps sessions in ``directory``; the caller starts it."""
    assert MOSQUITTO is not None
    port = free_port()
    directory.mkdir(exist_ok=True)
    config = directory / "mosquitto.conf"
    config.write_text(
        "\n".join(
            [
                f"listener {port} 127.0.0.1",
                "allow_anonymous true",
                "persistence true",
                f"persistence_location {directory}/",
                # Without these limits the broker writes a message to the subscriber's socket before
                # it confirms it to the publisher; otherwise it might hold it in memory only.
                "max_inflight_messages 0",
                "max_queued_messages 0",
                # As root it would become a user who may not write to this directory.
                *(["user root"] if os.getuid() == 0 else []),
                *lines,
                "",
            ]
        )
    )
    return Broker([MOSQUITTO, "-c", str(config)], port, directory / "mosquitto.log")


class UnavailableError(Exception):
    """Something that a test needs is missing on this machine: the test is to be skipped."""


def kafka_jars(purpose: str = "broker") -> str:
    """Returns the folder with the jars of a Kafka broker, or of what Spark needs to read from one.

    ``purpose`` is "broker" or "spark". Raises UnavailableError if they are not to be had.
    """
    script = Path(__file__).resolve().parents[2] / "scripts" / "kafka.sh"
    if not script.exists():
        raise UnavailableError("scripts/kafka.sh is not beside the tests")
    found = subprocess.run(
        [script, purpose], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
    )
    if found.returncode == KAFKA_UNAVAILABLE:
        raise UnavailableError(f"the jars of Kafka cannot be had: {found.stderr.strip()[-500:]}")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if found is None:
        raise UnavailableError("there is no java")
    return found


def kafka(directory: Path) -> Broker:
    """Returns a Kafka of one node that stores in ``directory``; the caller starts it.

    The node is both controller and broker. Raises UnavailableError if there is no Java or no Kafka.
    """
    port, controller_port = free_port(), free_port()
    directory.mkdir(exist_ok=True)
    config = directory / "server.properties"
    config.write_text(
        f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/logs
num.partitions=3
offsets.topic.replication.factor=1
# One that was killed is soon forgotten, so that it may come back.
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1000
"""
    )
    jvm = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    jvm += ["-cp", f"{kafka_jars()}/*"]
    subprocess.run(
        [*jvm, "kafka.tools.StorageTool", "format", "-t", KAFKA_CLUSTER, "-c", str(config)],
        check=True,
        capture_output=True,
    )
    return Broker([*jvm, "kafka.Kafka", str(config)], port, directory / "kafka.log")

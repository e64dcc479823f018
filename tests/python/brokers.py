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

MOSQUITTO = shutil.which(  # Debian puts it where only root looks
    "mosquitto", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
)

KAFKA_UNAVAILABLE = 75  # what scripts/kafka.sh exits with
KAFKA_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"  # any 16 bytes


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to connections.

    One of those could be taken while its broker is killed: by another test, or by a client that
    tries to connect again, and is connected to itself.
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
    """What was written to connections of this port's listener and has not come to the other end."""
    local_address, queues = 1, 4  # of the fields of a line, in hexadecimal digits
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(fields[queues].split(":")[0], 16)
        for fields in lines
        if int(fields[local_address].split(":")[1], 16) == port
    )


class Broker:
    """A process that listens on a port, to be killed at the end; what it says goes to a file."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready: Callable[[], bool] | None = None) -> None:
        """Returns when it is ready: when it accepts connections, if nothing else is said."""
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
        """kill -9, also of one that is stopped; waits until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_when_sent(self) -> None:
        """kill -9 at any moment of what the process does, but not of what the kernel does for it.

        If there is something that a killed process has not read, Linux throws away what it has
        written and not yet sent: small packets wait for those before to be acknowledged, many wait
        for a larger window. A broker may have confirmed these to their publishers.
        """
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
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
    """A Mosquitto that keeps sessions in ``directory``; not started."""
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
                # The subscriber's messages are written to its socket, and not only in the broker's
                # memory, before the publisher's are confirmed.
                "max_inflight_messages 0",
                "max_queued_messages 0",
                # As root it would become somebody who may not write here.
                *(["user root"] if os.getuid() == 0 else []),
                *lines,
                "",
            ]
        )
    )
    return Broker([MOSQUITTO, "-c", str(config)], port, directory / "mosquitto.log")


class UnavailableError(Exception):
    """What a test needs is not to be had on this machine: it is to be skipped."""


def kafka_jars(purpose: str = "broker") -> str:
    """The folder with the jars of a Kafka broker, or those of ``spark`` to read from one.

    Raises UnavailableError.
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
    """A Kafka of one node, controller and broker, that stores in ``directory``; not started.

    Raises UnavailableError.
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

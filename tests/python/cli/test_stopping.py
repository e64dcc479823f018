"""Commands that run until a signal ends them do end, whichever thread gets the signal."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from brokers import MOSQUITTO, mosquitto
from cli_runs import COMMAND
from served import Process
from support import CHILD_TIMEOUT_S, wait_until

import topicdb
from topicdb.cli.stopping import Stopping, stopped_by_signals
from topicdb.waiting import wait_for

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
SIGNALS = [signal.SIGTERM, signal.SIGINT]
TGKILL = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine)


def threads_of(pid: int) -> list[int]:
    """Returns the threads of a process except the main thread."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]


def send_to_thread(pid: int, thread: int, number: int) -> bool:
    """Sends a signal to one thread, as the kernel may; returns False if the thread is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(TGKILL, pid, thread, number) == 0:
        return True
    assert ctypes.get_errno() == errno.ESRCH, os.strerror(ctypes.get_errno())
    return False


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def by_kill(pid: int, number: int) -> None:
    os.kill(pid, number)


def by_a_thread(pid: int, number: int) -> None:
    """Sends the signal to a thread that is not the main thread, if there is one."""
    if TGKILL is None:
        pytest.skip("the number of the system call is not known here")
    # On one core a command that watches has no other thread, and some threads come and go.
    assert any(send_to_thread(pid, each, number) for each in [*reversed(threads_of(pid)), pid])


def while_stopped(pid: int, number: int) -> None:
    """Sends the signal while the process is stopped; then all its threads wake up."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == "T")
    os.kill(pid, number)
    os.kill(pid, signal.SIGCONT)


def behind_stop(pid: int, number: int) -> None:
    """Sends the signal when the process has just been woken up."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == "T")
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, number)


WAYS = [by_kill, by_a_thread, while_stopped, behind_stop]
Way = Callable[[int, int], None]


@contextmanager
def busy_clients(url: str, count: int) -> Iterator[None]:
    """Runs ``count`` clients that append and scan until the server is gone."""
    begun = threading.Barrier(count + 1)

    def work(number: int) -> None:
        with suppress(topicdb.Error), topicdb.connect(url) as db:
            db.append([(f"a/{number}", None, b"x")])
            begun.wait(CHILD_TIMEOUT_S)
            while True:
                db.append([(f"a/{number}", None, b"x" * 100) for _ in range(100)])
                db.scan(f"a/{number}").count()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begun.wait(CHILD_TIMEOUT_S)
    try:
        yield
    finally:
        for thread in threads:
            thread.join(CHILD_TIMEOUT_S)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_server_with_busy_clients_ends(tmp_path: Path, way: Way, number: int) -> None:
    with Process(tmp_path / "db", "--grace", "0.1") as server:
        with busy_clients(server.url, 4):
            way(server.process.pid, number)
            _, errors = server.process.communicate(timeout=CHILD_TIMEOUT_S)
        # Whether a call was still running at the end of the grace period does not matter here.
        assert (server.process.returncode, errors) in (
            (0, ""),
            (1, "topicdb: some calls did not end in time\n"),
        )
    with topicdb.open(tmp_path / "db") as database:
        assert database.verify().ok


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process
        finally:
            process.kill()


@needs_mosquitto
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_bridge_ends(tmp_path: Path, way: Way) -> None:
    with (
        mosquitto(tmp_path / "mosquitto") as broker,
        running(
            "bridge", tmp_path / "db", "--broker", f"127.0.0.1:{broker.port}", "--json"
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        way(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert process.returncode == 0, errors


@needs_mosquitto
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_replay_ends(tmp_path: Path, way: Way) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("a", second * 1_000_000, b"") for second in range(1_000)])
    with (
        mosquitto(tmp_path / "mosquitto") as broker,
        running(
            *("replay", "run", tmp_path / "db", "--broker", f"127.0.0.1:{broker.port}"),
            *("--json", "--rate", "1"),
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        way(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert process.returncode == 130 and "go on with --start" in errors


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_status_that_is_watched_ends(tmp_path: Path, way: Way) -> None:
    topicdb.open(tmp_path / "db").close()
    with running("replay", "status", tmp_path / "db", "--watch", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        way(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert (process.returncode, errors) == (0, "")


def test_an_ingest_whose_pipe_is_quiet_ends(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("a", 1, b"")])
    with running("ingest", tmp_path / "db", "-") as process:
        assert process.stdin is not None
        process.stdin.write('{"topic":"t","timestamp":1}\n')
        process.stdin.flush()

        def is_stored() -> bool:
            with topicdb.open(tmp_path / "db", mode="r") as db:
                return db.scan("t").count() == 1

        wait_until(is_stored)
        by_a_thread(process.pid, signal.SIGINT)
        assert process.wait(CHILD_TIMEOUT_S) == 130  # the pipe stays open and quiet
        assert process.stderr is not None and "1 messages stored" in process.stderr.read()


# Parts of the machinery that ends commands


def test_what_is_set_stays_set() -> None:
    stopping = Stopping()
    assert not stopping.is_set() and not stopping.wait(0.0) and not stopping.wait(0.01)
    threading.Timer(0.05, stopping.set).start()
    assert stopping.wait(CHILD_TIMEOUT_S) and stopping.is_set() and stopping.wait()
    stopping.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_other_signals_end_no_waiting(number: int) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda which, frame: came.append(which))
    handlers = [signal.getsignal(one) for one in SIGNALS]
    try:
        with stopped_by_signals() as stopped:
            signal.raise_signal(signal.SIGUSR1)
            assert not stopped.wait(0.05) and came == [signal.SIGUSR1]
            signal.raise_signal(number)
            assert stopped.wait(CHILD_TIMEOUT_S)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [signal.getsignal(one) for one in SIGNALS] == handlers
    assert signal.set_wakeup_fd(-1) == -1


def test_a_full_pipe_loses_nothing() -> None:
    with stopped_by_signals() as stopped:
        with suppress(BlockingIOError):
            while True:
                os.write(stopped.write_end, bytes([signal.SIGUSR1]) * 4_096)
        signal.raise_signal(signal.SIGTERM)
        assert stopped.wait(CHILD_TIMEOUT_S)


def test_outside_of_the_main_thread_a_program_ends_it() -> None:
    told: list[bool] = []

    def work() -> None:
        with stopped_by_signals() as stopped:
            told.append(stopped.wait(0.01))
            stopped.set()
            told.append(stopped.wait())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(CHILD_TIMEOUT_S)
    assert told == [False, True]


def test_a_handler_runs_though_another_thread_got_the_signal() -> None:
    if TGKILL is None:
        pytest.skip("the number of the system call is not known here")
    changed, came = threading.Condition(), threading.Event()
    is_waiting, is_over = threading.Event(), threading.Event()

    def other() -> None:
        is_waiting.wait(CHILD_TIMEOUT_S)
        send_to_thread(os.getpid(), threading.get_native_id(), signal.SIGUSR1)
        is_over.wait(CHILD_TIMEOUT_S)

    before = signal.signal(signal.SIGUSR1, lambda which, frame: came.set())
    thread = threading.Thread(target=other)
    thread.start()
    try:
        with changed:
            threading.Timer(0.1, is_waiting.set).start()
            assert wait_for(changed, came.is_set, CHILD_TIMEOUT_S)
            assert not wait_for(changed, lambda: False, 0.01)
    finally:
        is_over.set()
        thread.join(CHILD_TIMEOUT_S)
        signal.signal(signal.SIGUSR1, before)

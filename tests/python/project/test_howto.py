"""Follows the pages of docs/start and docs/howto as a reader does, from top to bottom.

Each page runs in an empty directory, in a process of its own: its Python, and the shell commands
that are fenced with a note:

- ``sh run``: runs to its end, which is successful.
- ``sh background``: a terminal of its own; it runs until the page ends.
- ``sh eventually``: is repeated until it prints something.

The broker, the server and the target that a page names by the usual ports have free ones here.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from brokers import MOSQUITTO, free_port, mosquitto
from support import run_child

ROOT = Path(__file__).resolve().parents[3]
FENCE = re.compile(
    r"^```(python|sh run|sh background|sh eventually) *\n(.*?)^``` *$", re.MULTILINE | re.DOTALL
)
BROKER_PORT, OTHER_PORTS = "1883", ["1884", "8815"]

# What runs a page: its shell blocks are calls of ``shell`` at the lines where the page has them.
FOLLOW = """
    import os, signal, subprocess, sys, time

    page, broker_log, patience_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    terminals = []

    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def wait_until(condition, what):
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.01)

    def start(text):
        log = open(f"terminal{len(terminals)}.log", "w")
        one = subprocess.Popen(["bash", "-c", "exec " + text], stdout=log, stderr=log)
        terminals.append(one)
        def is_ready():
            said = read(log.name)
            assert one.poll() is None, f"{text}: it ended: {said}"
            if "topicdb bridge" in text:  # it prints nothing; the broker tells of it
                return "Sending SUBACK to topicdb-bridge" in read(broker_log)
            return said
        wait_until(is_ready, text)

    def shell(kind, text):
        if kind == "background":
            start(text)
            return
        command = ["bash", "-euo", "pipefail", "-c", text]
        if kind == "run":
            subprocess.run(command, check=True)
            return
        wait_until(lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, text)

    try:
        with open("followed.py", encoding="utf-8") as file:
            exec(compile(file.read(), page, "exec"), {"__name__": "__main__", "shell": shell})
    finally:
        for terminal in terminals:
            terminal.send_signal(signal.SIGTERM)
        for terminal in terminals:
            terminal.wait()
"""


def followed(page: str) -> str:
    """Returns the Python of a page, with calls of ``shell``, at the lines that the page has."""
    lines: list[str] = []
    for block in FENCE.finditer(page):
        first = page.count("\n", 0, block.start(2))
        lines += [""] * (first - len(lines))
        language, _, kind = block[1].partition(" ")
        lines += (
            block[2].splitlines() if language == "python" else [f"shell({kind!r}, {block[2]!r})"]
        )
    return "\n".join(lines) + "\n" if lines else ""


PAGES = {
    str(path.relative_to(ROOT)): followed(path.read_text(encoding="utf-8"))
    for folder in ("start", "howto")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
}


CASES = [
    pytest.param(page, marks=[pytest.mark.spark] if "pyspark" in text else [])
    for page, text in PAGES.items()
    if text
]


@contextmanager
def a_broker(directory: Path, text: str) -> Iterator[dict[str, str]]:
    """Yields the ports that stand for those that a page names."""
    ports = {port: str(free_port()) for port in OTHER_PORTS}
    if BROKER_PORT not in text:
        yield ports
        return
    if MOSQUITTO is None:
        pytest.skip("Mosquitto is not installed")
    with mosquitto(directory / "broker", "log_type all") as broker:
        yield {**ports, BROKER_PORT: str(broker.port)}


@pytest.fixture(autouse=True)
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets shells find ``topicdb`` and ``python3`` of this environment, and Mosquitto."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("topicdb", "-m topicdb.cli"), ("python3", "")):  # Spark runs python3
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(programs), os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    )


@pytest.mark.parametrize("page", CASES)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    text = PAGES[page]
    for program in ("openssl", "sqlite3"):
        if re.search(rf"shell\(.*\b{program} ", text) and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    place = tmp_path / "reader"
    place.mkdir()
    with a_broker(tmp_path, text) as ports:
        for named, free in ports.items():
            text = re.sub(rf"\b{named}\b", free, text)
        (place / "followed.py").write_text(text, encoding="utf-8")
        run_child(FOLLOW, page, tmp_path / "broker" / "mosquitto.log", 60, directory=place)


def test_blocks_stand_where_the_page_has_them() -> None:
    page = (
        "# Title\n```python\na = 1\n```\n```sh run\nls\n```\n"
        "```sh\nrm\n```\n```python no-run\nb\n```\n"
    )
    assert followed(page) == "\n\na = 1\n\n\nshell('run', 'ls\\n')\n"

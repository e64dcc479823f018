"""Serves a database in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(database: Path) -> Iterator[tuple[str, int]]:
    """Runs `topicdb serve` for the length of the block; gives its address and its process id."""
    command = [sys.executable, "-m", "topicdb.cli", "serve", str(database)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"grpc\S+", process.stdout.readline())
            assert found is not None, "the server has not begun"
            yield found[0], process.pid
        finally:
            process.terminate()

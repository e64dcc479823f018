"""Runs a program under ``shim.c``, and checks its trace against the files that it left."""

from __future__ import annotations

import ctypes
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from crash.filesystem import FileSystem, Names
from crash.programs import Program, load
from crash.trace import Operation, read_trace

SHIM = Path(__file__).with_name("shim.c")
RECORDING_TIMEOUT_S = 300

Mark = Callable[[dict[str, Any]], None]


def build_shim(source: Path = SHIM) -> Path:
    """Compiles a library to preload, once for each version of its source; returns its path.

    Raises RuntimeError if the compiler fails.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"crash-shim-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    library = directory / f"{source.stem}-{digest}.so"
    if not library.exists():
        made = directory / f"{os.getpid()}.so"
        compiler = os.environ.get("CC", "cc")
        options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
        command = [compiler, *options, "-o", str(made), str(source), "-ldl", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        made.rename(library)
    return library


def scratch_directory() -> Path:
    """Returns a directory in which to make states: in memory if there is such a place."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def record(program: str, seed: int, trace: Path) -> list[Operation]:
    """Runs ``program`` ("module:name") once in a process of its own; returns its operations.

    Writes the trace to ``trace``. Raises RuntimeError if the program fails, or if the trace does
    not lead to the files that it left.
    """
    with tempfile.TemporaryDirectory(dir=scratch_directory()) as scratch:
        root = Path(os.path.realpath(scratch)) / "root"
        root.mkdir()
        trace.unlink(missing_ok=True)
        loaded = load(program)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(build_shim()),
            "CRASH_ROOT": str(root),
            "CRASH_TRACE": str(trace),
            "CRASH_IGNORE": ":".join(loaded.ignore),
            "CRASH_CLOCK_S": str(loaded.clock_ahead_s),
        }
        done = subprocess.run(
            [sys.executable, "-m", "crash.recording", program, str(seed), str(root)],
            env={**environment, "PYTHONPATH": os.pathsep.join([str(SHIM.parents[1]), *sys.path])},
            capture_output=True,
            text=True,
            timeout=RECORDING_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        operations = read_trace(trace)
        _check_complete(operations, root, loaded)
        return operations


def _check_complete(operations: Sequence[Operation], root: Path, program: Program) -> None:
    """Raises RuntimeError unless the trace leads to the files that are there.

    Otherwise some call went past the shim.
    """
    system = FileSystem(Names.JOURNAL)
    for operation in operations:
        system.apply(operation)
    modelled = dict(system.files())
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not any(fnmatch.fnmatch(path.name, one) for one in program.ignore)
    }
    wrong = [name for name in {*modelled, *found} if modelled.get(name) != found.get(name)]
    if wrong:
        raise RuntimeError(f"the trace is not complete: it has other contents of {sorted(wrong)}")


@cache
def _shim_mark() -> Callable[[bytes, int], None]:
    library = ctypes.CDLL(None)
    function = library.crash_mark
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    function.restype = None
    found: Callable[[bytes, int], None] = function
    return found


def mark(content: dict[str, Any]) -> None:
    """Puts a mark into the trace of this process. REQUIRES: the shim is preloaded."""
    text = json.dumps(content).encode()
    _shim_mark()(text, len(text))


if __name__ == "__main__":
    load(sys.argv[1]).run(Path(sys.argv[3]), int(sys.argv[2]), mark)

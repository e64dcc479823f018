"""Runs one promise of the suite as a test, and lets tests import the example of an engine."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from topicdb.conformance import NotCheckedError, Promise, Subject, promises

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # for examples.memory_engine


# The tests make a thousand databases, which takes far less time where fsync costs nothing.
MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


WITHOUT_A_SHARD = frozenset(
    one.name for one in promises() if one.name.startswith("missing.") and one.needs
)
"""The names of promises about engines that open without a shard."""


def check(
    promise: Promise,
    subject: Subject,
    allowed: frozenset[str],
    unable: frozenset[str] = frozenset(),
) -> None:
    """Checks a promise; skips the test if the engine lacks what it needs.

    - ``allowed``: the features that the engine may lack.
    - ``unable``: the names of promises that the subject cannot be asked for.

    Any other reason not to check fails, so that no promise is left out silently.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="topicdb-test-", dir=MEMORY_DISK) as directory:
            promise.check(subject, Path(directory))
    except NotCheckedError as reason:
        if promise.name not in unable and not promise.needs & allowed:
            raise
        pytest.skip(str(reason))

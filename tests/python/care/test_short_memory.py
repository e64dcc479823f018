"""A process that gets no more memory or threads: calls fail, and those that follow go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Layout, run_child

CHILD = """
    import re, resource, sys, topicdb

    def limit_to(mib):
        with open("/proc/self/status") as status:
            used = int(re.search(r"VmSize:\\s+(\\d+)", status.read())[1]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (used + (mib << 20), resource.RLIM_INFINITY))

    def lift():
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    path, layout = sys.argv[1:]
"""
LARGE = """
    with topicdb.open(path, layout=layout, maintenance_interval=None) as db:
        value = b"x" * (100 << 20)
        stored = 0
        limit_to(150)  # the message fits, but not a batch with it, too
        try:
            db.append([("a", 1, value)])
            stored = 1
        except (topicdb.StorageError, MemoryError) as error:
            assert isinstance(error, MemoryError) or "memory" in str(error), error
        lift()
        db.append([("a", 2, b"x")])
        assert db.scan("#").count() == stored + 1
"""
NO_THREAD = """
    with topicdb.open(path, layout=layout, maintenance_interval=None, seal_bytes=1_000) as db:
        db.append([("a", 0, b"x")])
        stored = 1
        limit_to(6)  # a thread needs a stack of 8 MiB
        for number in range(1, 6):  # from the second on there is something to seal
            try:
                db.append([("a", number, b"x" * 600)])
                stored += 1
            except (topicdb.StorageError, MemoryError) as error:
                assert isinstance(error, MemoryError) or "memory" in str(error), error
        lift()
        db.append([("a", 6, b"x")])
        assert db.scan("#").count() == stored + 1
        db.flush()
"""


@pytest.mark.parametrize("what", [LARGE, NO_THREAD], ids=["large", "no-thread"])
def test_later_appends_do_not_wait_for_ever(tmp_path: Path, layout: Layout, what: str) -> None:
    run_child(CHILD + what, tmp_path / "db", layout)

"""Ctrl-C ends long calls with KeyboardInterrupt and leaves the database in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import LAYOUTS, Child

import topicdb

ROWS = 200_000

# The signal arrives while `work()` is called again and again. If a call swallowed the signal, the
# program would never end.
LOOP = """
    import contextlib, sys, topicdb
    with contextlib.suppress(ImportError):
        import pyarrow  # not within work(): an import that is interrupted fails in its own ways
    db = topicdb.open(sys.argv[1], structures=["t/+/+"])

    def endless(number=0):
        while True:
            yield f"new/{number}", number, b"x"
            number += 1

    def work():
        {work}

    try:
        print("working")
        while True:
            work()
    except KeyboardInterrupt:
        print("interrupted", db.scan("t/p0/0").count())
        db.append([("after", 1, b"")])
        db.close()
"""
WORK = {
    "scan": "db.scan('#').count()",
    "rows": "list(db.scan('#'))",
    "time_order": "db.scan('#', order='time').count()",
    "scan_without_matches": "db.scan('t/p0/1').count()",
    "next_without_matches": "db.next(db.iterator(db.streams('t/+/+')[0], 't/p0/1'))",
    "append": "db.append([('t/p9/9', i, b'x') for i in range(1000)])",
    "append_endless_rows": "db.append(endless())",
    "arrow": "db.scan('#').to_arrow()",
}


@pytest.fixture(scope="module", params=LAYOUTS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with messages of t/p0/0 and t/p1/1 in turn: a scan of t/p0/1 reads all in vain."""
    path = tmp_path_factory.mktemp("signals") / "filled.db"
    with topicdb.open(path, structures=["t/+/+"], layout=request.param) as db:
        db.append([(f"t/p{i % 2}/{i % 2}", i, b"x") for i in range(ROWS)])
    return path


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_ctrl_c(filled: Path, work: str) -> None:
    if "to_arrow" in work:
        pytest.importorskip("pyarrow")
    with Child(LOOP.replace("{work}", work), filled) as child:
        child.expect("working")
        child.interrupt()
        code, out, stderr = child.finish()
    assert (code, out) == (0, f"interrupted {ROWS // 2}\n"), stderr
    with topicdb.open(filled) as db:
        assert db.delete("after").count == 1
        assert db.scan("new/#").count() == 0, "an interrupted append writes nothing"
        assert db.scan("t/p9/9").count() % 1_000 == 0

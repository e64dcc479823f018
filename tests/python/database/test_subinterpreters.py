"""An import of topicdb in a second interpreter of a process is refused and does no harm."""

from __future__ import annotations

import pytest
from support import run_child

PROGRAM = """
    import sys
    {before}
    try:
        import _interpreters as interpreters  # 3.13
    except ImportError:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
    outcome = interpreters.run_string(other, '''
    try:
        import topicdb
    except ImportError as error:
        assert "subinterpreters" in str(error), error
        print("refused", flush=True)
    ''')
    assert outcome is None, outcome
    interpreters.destroy(other)
    import tempfile, topicdb
    with topicdb.open(tempfile.mkdtemp() + "/db") as db:
        db.append([("a", 1, b"x")])
        print(db.scan("#").count())
"""


# What imports an editable package starts a process, which no subinterpreter may.
@pytest.mark.installed
@pytest.mark.parametrize("before", ["pass", "import topicdb"], ids=["first", "after the main one"])
def test_a_clean_import_error(before: str) -> None:
    assert run_child(PROGRAM.replace("{before}", before)).split() == ["refused", "1"]

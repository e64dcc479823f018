"""Lets databases mix layouts below tests that know nothing of it.

Each append first begins a generation of another layout, so the messages of a test are spread over
generations of all layouts. A test can run like this if it counts no generations and no serials.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support import LAYOUTS

import topicdb

MIXED = "mixed"


def mix_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixes the layouts of the databases that this process writes, for as long as the patch."""
    appends: Counter[str] = Counter()  # by path

    def begin_another(db: topicdb.Database) -> None:
        if db.closed or db.schema["timestamp_bytes"] == 0:  # that has one layout only
            return
        appends[str(db.path)] += 1
        db.rotate(layout=LAYOUTS[appends[str(db.path)] % len(LAYOUTS)])

    def mixed(method: Any) -> Any:
        def append(db: topicdb.Database, *arguments: Any, **options: Any) -> Any:
            begin_another(db)
            return method(db, *arguments, **options)

        return append

    for name in ("append", "append_async"):
        monkeypatch.setattr(topicdb.Database, name, mixed(getattr(topicdb.Database, name)))

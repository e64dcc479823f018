"""An engine for TopicDB in plain Python: messages in dicts, and optionally a journal in a file.

It shows what a third party has to write (docs/internals/engines.md), and that nothing of TopicDB's
own storage is needed for it. It is meant to be read; every read looks at all messages.

    python -m topicdb.conformance examples.memory_engine:open_memory
    python -m topicdb.conformance examples.memory_engine:open_journal

>>> import topicdb
>>> with topicdb.Database.over(open_memory("anywhere")) as db:      # doctest: +SKIP
...     db.append([("site/1/pump", None, b"900")])
"""

from examples.memory_engine.engine import MemoryEngine
from examples.memory_engine.journal import JournalEngine

SHARDS = 2


def open_memory(path: str) -> MemoryEngine:
    """Opens an engine that forgets everything when it is closed."""
    return MemoryEngine(path, SHARDS)


def open_journal(path: str) -> JournalEngine:
    """Opens the engine whose journal is the file at ``path``, which it makes if there is none."""
    return JournalEngine(path, SHARDS)

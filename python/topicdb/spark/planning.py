"""Explains what a read through ``format("topicdb")`` would take."""

from __future__ import annotations

from topicdb.frames.selection import Selection
from topicdb.spark.batch import plan
from topicdb.spark.options import batch_options


def explain(path: str | None = None, **options: str) -> str:
    """Plans a batch read with these options of ``format("topicdb")``, and says what it chose.

    For a Python data source, Spark's own ``explain`` shows only the name. To see the effect of
    predicates, give the options that say the same: ``topicFilter``, ``startingTimestamp``,
    ``endingTimestamp``.

    >>> print(topicdb.spark.explain("fleet.db", topicFilter="site/1/#"))    # doctest: +SKIP
    """
    parsed = batch_options(options if path is None else {"path": path, **options})
    selection = Selection(parsed.filters, parsed.start, parsed.end)
    planned = plan(parsed, selection)
    slices = planned.slices
    filters = "every topic" if parsed.filters is None else ", ".join(parsed.filters)
    start = "" if parsed.start is None else str(parsed.start)
    end = "" if parsed.end is None else str(parsed.end)
    lines = [
        ("database", str(parsed.place)),
        ("filters", filters),
        ("timestamps", f"{start}..{end}"),
        ("slabs", f"{len({slice[:3] for slice in slices})} of {planned.slabs}"),
        ("tasks", str(len(planned.tasks))),
        ("messages", f"about {sum(slice.messages for slice in slices)}"),
        ("bytes", f"about {sum(slice.bytes for slice in slices)}"),
    ]
    return "\n".join(f"{name:10} {text}" for name, text in lines)

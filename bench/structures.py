"""Measures how well topic structures are learned: streams by templates, rows read by rows returned.

python bench/structures.py [--trees sparkplug,homie] [--order device|random] [--filters 1000]
                           [--layout columnar] [--json FILE]

For each tree the benchmark appends the topics, rotates the database, appends the topics ten more
times and drops the slabs from before the rotation. Then it makes random filters of the tree's
templates: each level that varies stays a ``+`` or takes the word of a topic, and a third of the
filters are cut and end in ``#``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from workloads import trees
from workloads.rows import SEED, Random

import topicdb

BATCH_ROWS = 10_000
REPEATS = 10
BUDGET = 4_096
STREAMS_MAX = 1.5  # streams for each true template
READ_MAX = 4.0  # rows read for each row returned
VALUE = b'{"value":21.5,"unit":"C","quality":"good","source":"bench"}'
COLUMNS = (
    ("tree", "<13"), ("topics", ">7"), ("templates", ">9"), ("base", ">7"), ("before", ">7"),
    ("after", ">6"), ("hinted", ">6"), ("read/returned", ">13"), ("us a topic", ">10"),
    ("rotate ms", ">9"), ("ok", ">4"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", default=",".join(trees.MAKERS))
    parser.add_argument("--order", choices=("device", "random"), default="random")
    parser.add_argument("--layout", choices=("columnar", "skipstream"), default="columnar")
    parser.add_argument("--filters", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(" ".join(f"{name:{form}}" for name, form in COLUMNS))
    results = []
    for name in options.trees.split(","):
        result = measure(trees.make(name), options.order, options.layout, options.filters)
        results.append(result)
        print(" ".join(f"{show(result[key]):{form}}" for key, form in COLUMNS), flush=True)
    reached = sum(result["ok"] for result in results)
    print(
        f"\n{reached} of {len(results)} trees: streams <= {STREAMS_MAX} x templates after one "
        f"rotation, <= {BUDGET} before it,\nrows read <= {READ_MAX} x those returned; seed {SEED}"
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def measure(tree: trees.Tree, order: str, layout: Any, filters: int) -> dict[str, Any]:
    """Measures one tree, and returns a value for each of ``COLUMNS``."""
    topics = tree.topics if order == "device" else tree.shuffled()
    templates = tree.templates
    with database(layout, learning="base") as base:
        append(base, topics)
        base_streams = len(base.streams())
    with database(layout, structures=templates) as hinted:
        append(hinted, topics)
        hinted_streams = len(hinted.streams())
    with database(layout, streams_max=BUDGET) as db:
        began = time.process_time()
        append(db, topics)
        us_a_topic = (time.process_time() - began) / len(topics) * 1e6
        before = len(db.streams())
        began = time.perf_counter()
        db.rotate()
        rotate_ms = (time.perf_counter() - began) * 1e3
        for repeat in range(REPEATS):
            append(db, topics, first=repeat * len(topics))
        for slab in db.slabs():
            if slab.read_only:
                db.drop_slab(slab)
        db.flush()
        after = len(db.streams())
        read, returned = read_ratio(db, random_filters(tree, filters))
    return {
        "tree": tree.name,
        "topics": len(topics),
        "templates": len(templates),
        "base": base_streams,
        "before": before,
        "after": after,
        "hinted": hinted_streams,
        "read/returned": read / returned,
        "us a topic": us_a_topic,
        "rotate ms": rotate_ms,
        "ok": after <= STREAMS_MAX * len(templates)
        and hinted_streams <= STREAMS_MAX * len(templates)
        and before <= BUDGET
        and read <= READ_MAX * returned,
    }


class database:  # noqa: N801 - used as a function
    """A new database in a temporary directory, which the end of the block removes."""

    def __init__(self, layout: Any, **options: Any) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="topicdb-structures-")
        self._database = topicdb.open(f"{self._directory.name}/db", layout=layout, **options)

    def __enter__(self) -> topicdb.Database:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._directory.cleanup()


def append(db: topicdb.Database, topics: list[str], first: int = 0) -> None:
    for begin in range(0, len(topics), BATCH_ROWS):
        batch = topics[begin : begin + BATCH_ROWS]
        db.append([(topic, first + begin + i, VALUE) for i, topic in enumerate(batch)])


def random_filters(tree: trees.Tree, count: int) -> Iterator[str]:
    """Makes ``count`` filters, each of a random template of the tree and a random topic of it."""
    topics_of: dict[str, list[str]] = {}
    for topic, template in tree.template_of.items():
        topics_of.setdefault(template, []).append(topic)
    random = Random(SEED, f"filters {tree.name}")
    for pick, which, cut, *stays in zip(
        random.integers(1 << 30, count),
        random.integers(1 << 30, count),
        random.integers(1 << 30, count),
        *(random.integers(2, count) for _ in range(20)),
        strict=True,
    ):
        template = tree.templates[pick % len(tree.templates)]
        topics = topics_of[template]
        words = topics[which % len(topics)].split("/")
        levels = [
            word if level != "+" or stay else "+"
            for level, word, stay in zip(template.split("/"), words, stays, strict=False)
        ]
        if cut % 3 == 0:
            levels = [*levels[: 1 + cut // 3 % len(levels)], "#"]
        yield "/".join(levels)


def read_ratio(db: topicdb.Database, filters: Iterator[str]) -> tuple[int, int]:
    """Returns how many rows the filters read, and how many of these they returned."""
    read = returned = 0
    for text in filters:
        found = db.explain(text)
        read += found["rows_examined"]
        returned += found["rows_matched"]
    return read, returned


if __name__ == "__main__":
    main()

"""The process that ``promises.keeping`` kills: it appends, and prints what was acknowledged."""

from __future__ import annotations

import json
import sys

from topicdb.conformance.subject import Subject


def main(reference: str, path: str) -> None:
    """Opens the engine and appends to it, until it is killed or nobody listens any more."""
    with Subject.named(reference).opened(path) as engine:
        for number in range(100_000):
            topics = [f"killed/{n}" for n in range(10)]
            rows = [(topic, number, f"{topic}:{number}".encode()) for topic in topics]
            receipt = engine.append_rows(rows, "disk" if number % 7 == 0 else "os")
            print(json.dumps([number, receipt.serials]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

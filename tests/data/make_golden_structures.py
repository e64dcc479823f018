"""Writes structures.zip and .json: a shared stream, a sample, structures learned from one.

    python tests/data/make_golden_structures.py tests/data/v1

Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack

OPTIONS = {"streams_max": 16, "thresholds": [3, 2], "structures": ["hint/+/x"]}


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "structures.db"
        with topicdb.open(path, **OPTIONS) as db:  # type: ignore[arg-type]
            db.append(
                [(f"tele/dev{i}/{word}", i, b"") for i in range(9) for word in ("STATE", "LWT")]
            )
            db.rotate()
            db.append([(f"tele/dev{i}/STATE", 100 + i, b"") for i in range(3)])
            db.append([("/".join("abcdefgh"[:n] * n), 200 + n, b"") for n in range(1, 9)])
            db.append([(f"many/{'x/' * n}{n}", 300 + n, b"") for n in range(30)])
            expected: dict[str, list[Any]] = {
                "messages": sorted([m.topic, m.timestamp] for m in db.scan()),
                "streams": sorted([s.generation, s.structure] for s in db.streams()),
            }
        pack(path, target / "structures.zip")
        # What the sample of the current generation teaches.
        with topicdb.open(path, streams_max=64) as db:
            db.rotate()
            db.append([(f"tele/dev{i}/STATE", 400 + i, b"") for i in range(20, 23)])
            db.append([(f"many/{'x/' * n}{n}", 500 + n, b"") for n in range(30, 33)])
            expected["learned"] = sorted(s.structure for s in db.streams() if s.generation == 3)
    (target / "structures.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Writes the golden databases of the columnar layout: columnar*.zip, and columnar.json beside them.

    python tests/data/make_golden_columnar.py tests/data/v1

Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import Writer, expectations, pack, write_messages
from model.model import Schema

SCHEMAS = {
    "columnar": Schema(
        shards=2, thresholds=(3, 2), structures=("hint/+/x/#",), retention=("alarm/#", "$SYS/#")
    ),
    "columnar-killed": Schema(shards=2, thresholds=(2,)),
}


def write_sealed(writer: Writer) -> None:
    """Sealed blocks of LZ4 pages and, in closed generations, of Zstandard ones; fresh ones; rows
    that are deleted in both; messages that are equal in topic and time."""
    write_messages(writer)
    writer.db.flush()
    for batch in range(3):
        writer.append([(f"more/{i % 5}/x", 50 - i, b"%d" % batch * i) for i in range(20)])
    writer.append([("more/1/x", 7, b"one"), ("more/1/x", 7, b"two"), ("gone/x", 1, b"")])
    writer.delete("gone/#")
    writer.delete("site/7/#")


def write_fresh(writer: Writer) -> None:
    """Fresh blocks that are in the log alone, several classes of topics in one commit."""
    for batch in range(5):
        writer.append([(f"w/{i}/{batch}", batch, b"%d" % i) for i in range(7)])
    writer.delete("w/3/#")


WRITERS = {"columnar": write_sealed, "columnar-killed": write_fresh}


def main(target: Path) -> None:
    manifest: dict[str, Any] = {"topicdb": topicdb.__version__, "databases": {}}
    with tempfile.TemporaryDirectory() as directory:
        for name, schema in SCHEMAS.items():
            path = Path(directory) / f"{name}.db"
            # Pages of a few messages.
            writer = Writer(path, schema, seal_bytes=16_384)
            WRITERS[name](writer)
            manifest["databases"][name] = expectations(writer)
            copy = path.with_suffix(".copy")
            shutil.copytree(path, copy)  # as kill -9 would leave it
            writer.db.close()
            pack(copy, target / f"{name}.zip")
    text = json.dumps(manifest, ensure_ascii=True, separators=(",", ":"))
    (target / "columnar.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

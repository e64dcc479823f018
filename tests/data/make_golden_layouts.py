"""Writes layouts.zip and .json: a database whose generations have several layouts.

    python tests/data/make_golden_layouts.py tests/data/v1

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

SCHEMA = Schema(
    shards=2, thresholds=(3, 2), structures=("hint/+/x/#",), retention=("alarm/#", "$SYS/#")
)


def write_mixed(writer: Writer) -> None:
    """A class that names a layout, and generations that got one by hand.

    Messages equal in topic and time are in logs, in states, and in both; some are deleted. Some
    are sealed, some are in files, and the last ones are in the log alone.
    """
    write_messages(writer)
    writer.set_layouts({"alarm/#": "skipstream", "$SYS/#": None, "#": None})
    writer.append([("alarm/1", 1, b"replaced"), ("alarm/1", 1, b"state"), ("alarm/2", 8, b"")])
    writer.rotate("#", "skipstream")
    repeated = [(f"site/{i}/{('temp', 'wind', 'rain')[i % 3]}", 5_000 + i) for i in range(12)]
    writer.append([(topic, time, b"replaced") for topic, time in repeated])
    writer.append([(topic, time, b"first state") for topic, time in repeated[::2]])
    writer.delete("site/7/#")
    writer.db.flush()
    writer.rotate("#", "skipstream")
    writer.append([(topic, time, b"second state") for topic, time in repeated[::3]])
    writer.rotate("#", "columnar")
    for batch in range(2):
        writer.append([(topic, time, b"log %d" % batch) for topic, time in repeated[:4]])
    writer.delete("site/8/#")
    writer.append([("alarm/2", 8, b"again")])


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "layouts.db"
        # Pages of a few messages, and the algorithm of structures that the model knows.
        writer = Writer(path, SCHEMA, seal_bytes=16_384, learning="base")
        write_mixed(writer)
        expected = expectations(writer)
        for item, (_, slab) in zip(
            expected["slabs"], sorted(writer.model.slabs.items()), strict=True
        ):
            item["layout"] = slab.layout
        copy = path.with_suffix(".copy")
        shutil.copytree(path, copy)  # as kill -9 would leave it
        writer.db.close()
        with topicdb.open(path, mode="r") as db:  # what was set is in the schema of later handles
            expected["schema"] = db.schema
        pack(copy, target / "layouts.zip")
    manifest: dict[str, Any] = {
        "topicdb": topicdb.__version__,
        "databases": {"layouts": expected},
    }
    text = json.dumps(manifest, ensure_ascii=True, separators=(",", ":"))
    (target / "layouts.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

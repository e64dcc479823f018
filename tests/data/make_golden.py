"""Writes the golden databases that tests/python/database/test_golden.py reads from then on.

    python tests/data/make_golden.py tests/data/v1

Run once for each released format, with the release that writes it; never again after that. What is
expected of a database is worked out by the reference model, not read back from it.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from model.model import Model, Schema
from model.topics import matches

# Not part of the format, and it names directories of the machine.
LEFT_OUT = ("LOG", "LOG.old.*")
SCAN_FILTERS = ["#", "site/+/temp", "site/3/#", "+/3/+", "$SYS/#", "alarm/#", "é/+", "deep/#"]

SCHEMAS = {
    "messages": Schema(
        shards=2,
        thresholds=(3, 2),
        structures=("hint/+/x/#",),
        retention=("alarm/#", "$SYS/#"),
        layout="skipstream",
    ),
    "map": Schema(shards=1, thresholds=(0,), timestamp_bytes=0, layout="skipstream"),
    "killed": Schema(shards=2, thresholds=(2,), layout="skipstream"),
}


class Writer:
    """A database and the model of it, written together."""

    def __init__(self, path: Path, schema: Schema, **options: Any) -> None:
        self.model = Model(schema)
        self.db = topicdb.open(
            path,
            **options,
            layout=schema.layout,  # type: ignore[arg-type]
            shards=schema.shards,
            thresholds=schema.thresholds,
            structures=schema.structures,
            retention=dict.fromkeys(schema.retention, "7d"),
            timestamp_bytes=schema.timestamp_bytes,  # type: ignore[arg-type]
        )

    def append(self, rows: list[tuple[str, int, bytes]]) -> None:
        self.model.append(rows, self.db.append(rows).serials)

    def delete(self, filter: str) -> None:
        for slab in self.model.slabs.values():
            for place in [p for p, e in slab.entries.items() if matches(filter, e.topic)]:
                del slab.entries[place]
        self.db.delete(filter)

    def set_layouts(self, layouts: dict[str, Any]) -> None:
        """Lets classes, which are all that there are, name a layout; they keep 7 days."""
        self.db.set_retention(
            {name: topicdb.Retention("7d", layout=layout) for name, layout in layouts.items()}
        )
        self.model.set_layouts(layouts)

    def rotate(self, retention_class: str | None = None, layout: Any = None) -> None:
        self.db.rotate(retention_class, layout=layout)
        self.model.rotate(retention_class, layout)


def write_messages(writer: Writer) -> None:
    """Two generations and three classes, files and log, overwritten messages, strange topics."""
    kinds = ("temp", "wind", "rain")
    for batch in range(6):
        writer.append(
            [
                (f"site/{i}/{kinds[i % 3]}", 1_000 * batch + i, b"%d.%d" % (batch, i))
                for i in range(12)
            ]
        )
        writer.append([(f"alarm/{batch}", batch, b"on"), (f"$SYS/{batch}/up", batch, b"1")])
        if batch == 2:
            writer.db.flush()
            writer.rotate()
    writer.append(
        [("site/3/temp", 5_003, b"overwritten"), ("hint/a/x/1/2", 7, b""), ("hint/b/x", 7, b"")]
    )
    writer.append(
        [("é/😀", 2**63 - 1, b"last"), ("é/\x01", 0, b"first"), ("//", 5, bytes(range(256)))]
    )
    writer.append(
        [("deep/" + "/".join(map(str, range(100))), 5, b"deep"), ("x" * 65_535, 5, b"long")]
    )
    writer.rotate("alarm/#")
    writer.append([("alarm/new", 9, b"off")])


def write_map(writer: Writer) -> None:
    """A map of topics."""
    writer.append([(f"session/{i}/state", 0, b"up") for i in range(20)])
    writer.append([(f"session/{i}/state", 0, b"down") for i in range(0, 20, 3)])


def write_killed(writer: Writer) -> None:
    """Messages that are in the log alone."""
    for batch in range(5):
        writer.append([(f"w/{i}/{batch}", batch, b"%d" % i) for i in range(7)])


WRITERS = {"messages": write_messages, "map": write_map, "killed": write_killed}


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def expectations(writer: Writer) -> dict[str, Any]:
    """What a reader must find; streams with their messages in order and an iterator into each."""
    model, db = writer.model, writer.db
    found = {*db.streams("#"), *db.streams("$SYS/#")}
    streams = []
    for ref in sorted(model.streams(), key=lambda ref: (ref.slab, ref.key.structure)):
        [stream] = [
            s
            for s in found
            if ((s.shard, s.retention_class, s.generation), s.structure)
            == (ref.slab, ref.key.structure)
        ]
        entries = model.stream_entries(ref)
        filter = "/".join(ref.key.levels)
        page = db.next(db.iterator(stream, filter), max(1, len(entries) // 2))
        streams.append(
            {
                "slab": ref.slab,
                "structure": ref.key.structure,
                "stream": text(bytes(stream)),
                "messages": [(e.topic, e.timestamp, text(e.value)) for e in entries],
                "iterator": text(bytes(page.iterator)),
                "read": len(page.batch),
            }
        )
    return {
        "schema": db.schema,
        "slabs": [
            {"slab": slab_id, "read_only": slab.read_only, "messages": slab.written}
            for slab_id, slab in sorted(model.slabs.items())
        ],
        "streams": streams,
        "scans": {
            filter: sorted(
                (e.topic, e.timestamp, text(e.value))
                for entries in model.scan(filter).values()
                for e in entries
            )
            for filter in SCAN_FILTERS
        },
    }


def pack(directory: Path, archive: Path) -> None:
    """All files of a database in one archive: no line end, no mode and no time can change them."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(p for p in directory.rglob("*") if p.is_file()):
            if not any(path.match(pattern) for pattern in LEFT_OUT):
                name = path.relative_to(directory).as_posix()
                target.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)


def main(target: Path) -> None:
    """Writes all databases and the manifest into a new directory."""
    target.mkdir(parents=True)
    manifest: dict[str, Any] = {"topicdb": topicdb.__version__, "databases": {}}
    with tempfile.TemporaryDirectory() as directory:
        for name, schema in SCHEMAS.items():
            path = Path(directory) / f"{name}.db"
            writer = Writer(path, schema)
            WRITERS[name](writer)
            manifest["databases"][name] = expectations(writer)
            if name == "killed":  # as kill -9 would leave it: the log is not in files yet
                shutil.copytree(path, path.with_suffix(".copy"))
            writer.db.close()
            pack(path.with_suffix(".copy") if name == "killed" else path, target / f"{name}.zip")
    text_ = json.dumps(manifest, ensure_ascii=True, separators=(",", ":"))
    (target / "manifest.json").write_text(text_ + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

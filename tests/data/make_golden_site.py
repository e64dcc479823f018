"""Writes site.tar.gz and .json: a site of a cluster with format 1, as killed while it was open.

    python tests/data/make_golden_site.py tests/data/v1

The site has founded its cluster alone. The newest messages are in the log of the consensus only.
Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import LEFT_OUT

ROWS = 40  # of a round


def append(db: topicdb.Database, number: int) -> None:
    """Appends one round of messages, and does one of each thing that has records of its own."""
    db.append(
        [(f"m/c{n % 7}/rpm", 1_000 * number + n, b"%d.%d" % (number, n)) for n in range(ROWS)]
    )
    db.append([("m/id", 1_000 * number, b"once")], id=f"append-{number}")
    with db.transaction(key="m/state") as tx:
        tx.write("m/state", number, b"%d" % number)
        tx.commit()
    db.delete("m/c3/#", start=1_000 * number, end=1_000 * number + 10)


def content(db: topicdb.Database) -> dict[str, Any]:
    """Returns what the messages are, in the order of streams."""
    rows = [[one.topic, one.timestamp, one.value.decode()] for one in db.scan("#")]
    return {"messages": rows, "last": [one.value.decode() for one in db.last("m/#")]}


def pack(directory: Path, archive: Path) -> None:
    """Puts all files and links of a directory into an archive, without modes, owners and times."""
    with tarfile.open(archive, "w:gz", compresslevel=9) as target:
        for path in sorted(directory.rglob("*")):
            if any(path.match(pattern) for pattern in LEFT_OUT):
                continue
            entry = tarfile.TarInfo(path.relative_to(directory).as_posix())
            if path.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                target.addfile(entry)
            elif path.is_file():
                data = path.read_bytes()
                entry.size = len(data)
                target.addfile(entry, io.BytesIO(data))
            elif path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                target.addfile(entry)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        site = topicdb.Site(path, name="a", sites={"a": "127.0.0.1:0"})
        with site, site.open(shards=2) as db:
            append(db, 0)
            db.set_retention({"m/hot/#": "7d"})
            append(db, 1)
            db.flush()
            append(db, 2)
            expected = content(db)
            shutil.copytree(path, Path(directory) / "copy", symlinks=True)
        pack(Path(directory) / "copy", target / "site.tar.gz")
    (target / "site.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Damage on disk leads to a named error or to the right data, never to wrong or missing data."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topicdb
from topicdb import CorruptionError, NotFoundError, SchemaError

STORED: dict[str, Any] = {
    "shards": 2,
    "timestamp_bytes": 8,
    "structures": ["a/+"],
    "thresholds": [5, 1],
    "retention": {"a/#": "1h", "#": None},
}


def descriptor(path: Path) -> Path:
    """Returns the file that makes a directory a database; docs/internals/format.md draws it."""
    return path / "TOPICDB"


def test_a_newer_format_is_refused(db_path: Path) -> None:
    topicdb.open(db_path).close()
    data = bytearray(descriptor(db_path).read_bytes())
    assert struct.unpack_from("<H", data, 8) == (1,)
    struct.pack_into("<H", data, 8, 3)
    struct.pack_into("<I", data, 16, zlib.crc32(data[:16] + data[20:]))
    descriptor(db_path).write_bytes(data)
    for mode in ("r", "rw"):
        with pytest.raises(SchemaError, match=r"format 3.*newer"):
            topicdb.open(db_path, mode=mode)


def test_every_flipped_bit_of_the_descriptor_is_found(db_path: Path) -> None:
    topicdb.open(db_path, **STORED).close()
    data = descriptor(db_path).read_bytes()
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        descriptor(db_path).write_bytes(flipped)
        with pytest.raises(CorruptionError, match="TOPICDB"):
            topicdb.open(db_path, mode="r")
    descriptor(db_path).write_bytes(data)
    topicdb.open(db_path).close()


def test_a_cut_or_longer_descriptor_is_found(db_path: Path) -> None:
    topicdb.open(db_path).close()
    data = descriptor(db_path).read_bytes()
    for wrong in (*(data[:length] for length in range(len(data))), data + b"\0", data * 2):
        descriptor(db_path).write_bytes(wrong)
        with pytest.raises(CorruptionError, match="TOPICDB"):
            topicdb.open(db_path)


def test_a_missing_descriptor_is_found(db_path: Path) -> None:
    topicdb.open(db_path).close()
    descriptor(db_path).unlink()
    with pytest.raises(CorruptionError):
        topicdb.open(db_path)


SMALL_FILE_BYTES = 64

CUT_SHORT = {
    "lock": ["CREATING.lock"],
    "marker_begun": ["CREATING.lock", "CREATING.tmp"],
    "marker": ["CREATING", "CREATING.lock"],
    "shards": ["CREATING", "CREATING.lock", "shards/0000.lock", "shards/0000/CURRENT"],
    "descriptor_begun": ["CREATING", "CREATING.lock", "TOPICDB.tmp", "shards/0000/CURRENT"],
}


@pytest.mark.parametrize("files", CUT_SHORT.values(), ids=CUT_SHORT)
def test_a_creation_that_was_cut_short_is_started_anew(db_path: Path, files: list[str]) -> None:
    for name in files:
        (db_path / name).parent.mkdir(parents=True, exist_ok=True)
        (db_path / name).write_bytes(b"")
    with pytest.raises(NotFoundError):
        topicdb.open(db_path, mode="r")
    with topicdb.open(db_path, shards=2) as db:
        db.append([("a", 1, b"")])
    with topicdb.open(db_path, mode="r") as db:
        assert db.scan().count() == 1


def shard_directories(path: Path) -> list[Path]:
    return sorted(p.parent for p in path.rglob("CURRENT"))


def test_a_missing_shard_is_found(db_path: Path) -> None:
    with topicdb.open(db_path, shards=2) as db:
        db.append([(f"t/{i}", 1, b"") for i in range(20)])
    moved = shard_directories(db_path)[1]
    moved.rename(db_path.parent / "elsewhere")
    for mode in ("r", "rw"):
        with pytest.raises(CorruptionError, match="shard"):
            topicdb.open(db_path, mode=mode)
    with topicdb.open(db_path, only_shards=[0]) as db:
        assert db.scan().count() > 0, "what is undamaged stays readable"


def test_exchanged_shards_are_found(db_path: Path) -> None:
    topicdb.open(db_path, shards=2).close()
    first, second = shard_directories(db_path)
    first.rename(db_path / "x")
    second.rename(first)
    (db_path / "x").rename(second)
    with pytest.raises(CorruptionError, match="another"):
        topicdb.open(db_path)


def test_a_shard_of_another_database_is_found(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        topicdb.open(tmp_path / name).close()
    [one] = shard_directories(tmp_path / "one.db")
    [two] = shard_directories(tmp_path / "two.db")
    one.rename(tmp_path / "old")
    two.rename(one)
    with pytest.raises(CorruptionError, match="another"):
        topicdb.open(tmp_path / "one.db")


def fill_tables(path: Path) -> list[Path]:
    """Creates a database whose messages are in table files, and returns those files."""
    with topicdb.open(path) as db:
        db.append([(f"t/{i % 7}", i, b"%08d" % i * 10) for i in range(5_000)])
        db.flush()
    tables = sorted(path.rglob("*.sst"))
    assert tables
    return tables


def read_all(path: Path) -> list[Any]:
    with topicdb.open(path, mode="r") as db:
        return db.scan().to_list()


def test_a_missing_table_file_is_found(db_path: Path) -> None:
    for table in fill_tables(db_path):
        data = table.read_bytes()
        table.unlink()
        with pytest.raises(CorruptionError):
            read_all(db_path)
        table.write_bytes(data)
    assert len(read_all(db_path)) == 5_000


def test_flipped_bits_in_table_files_never_give_wrong_data(db_path: Path) -> None:
    tables = fill_tables(db_path)
    expected = read_all(db_path)
    for table in tables:
        data = table.read_bytes()
        found = 0
        for place in range(0, len(data), max(1, len(data) // 12)):
            table.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
            try:
                assert read_all(db_path) == expected
            except CorruptionError:
                found += 1
        table.write_bytes(data)
        assert found > 0
    assert read_all(db_path) == expected


@pytest.mark.parametrize("order", ["stream", "time", "none"])
def test_a_read_that_failed_gives_nothing_more(db_path: Path, order: Any) -> None:
    """If a failed read gave more, its reader would not see that the damaged block is missing."""
    with topicdb.open(db_path, seal_bytes=100_000) as db:
        for commit in range(10):
            rows = [(f"t/{i % 7}", commit * 1_000 + i, b"%08d" % i * 10) for i in range(1_000)]
            db.append(rows)
        db.flush()
    failed = 0
    for table in sorted(db_path.rglob("*.sst")):
        data = table.read_bytes()
        for place in range(0, len(data), max(1, len(data) // 12)):
            table.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
            with suppress(CorruptionError), topicdb.open(db_path, mode="r") as db:
                stream = pa.RecordBatchReader.from_stream(db.scan(order=order))
                try:
                    for _ in stream:
                        pass
                except OSError:
                    failed += 1
                    for _ in range(3):
                        with pytest.raises(OSError, match=r"\w"):
                            stream.read_next_batch()
        table.write_bytes(data)
    assert failed > 0


def fill_sealed(path: Path) -> list[Path]:
    """Creates a small database with sealed and fresh blocks, and returns the files that matter."""
    with topicdb.open(path, seal_bytes=1, retention={"b/#": None}) as db:
        for commit in range(3):
            db.append([(f"{'ab'[i % 2]}/{i % 3}", i, b"%d.%d" % (commit, i)) for i in range(40)])
            db.flush()
        db.delete("a/1", end=20)
        db.flush()
    assert not any(log.stat().st_size for log in path.rglob("*.log"))
    return [*path.rglob("*.sst"), *path.rglob("MANIFEST-*"), *path.rglob("CURRENT")]


def check_every_flip(path: Path, step: int) -> None:
    """Flips a bit of every ``step``-th byte, of every byte in small files, and reads each time."""
    files = fill_sealed(path)
    expected = read_all(path)
    assert len(expected) == 120 - 9
    outcomes = {"found": 0, "unaffected": 0}
    unnamed: list[str] = []
    flips = 0
    for file in sorted(files):
        data = file.read_bytes()
        first = flips % step  # other places in each file
        is_small = len(data) < SMALL_FILE_BYTES
        for place in range(len(data)) if is_small else range(first, len(data), step):
            file.write_bytes(
                data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
            )
            try:
                assert read_all(path) == expected, f"byte {place} of {file}"
                outcomes["unaffected"] += 1
            except CorruptionError as error:
                outcomes["found"] += 1
                if "0000" not in str(error):
                    unnamed.append(str(error))
            flips += 1
        file.write_bytes(data)
    assert read_all(path) == expected
    assert unnamed == [], "each error names the directory of the shard, or a file in it"
    assert sum(outcomes.values()) == flips
    assert outcomes["found"] > flips / 10


def test_flipped_bits_in_a_sealed_database(db_path: Path) -> None:
    check_every_flip(db_path, step=251)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_byte_flipped_in_a_sealed_database(db_path: Path) -> None:
    check_every_flip(db_path, step=1)

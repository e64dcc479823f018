"""TopicDB and its peers behind one interface, so that each does the same work.

All of them hand every batch to the operating system before an append returns, and none fsyncs.
Where the peer has keys, a key is the topic and the timestamp (8 bytes, big-endian).
"""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import duckdb
import lmdb
import pyarrow as pa
import pyarrow.parquet as pq
import rocksdict
from workloads.rows import SCHEMA, Row, table_rows

import topicdb

TIME_BYTES = 8
LMDB_MAP_BYTES = 1 << 34  # address space; the file grows as it is written


class Store(ABC):
    """One database in one directory."""

    name: str

    @abstractmethod
    def __init__(self, path: Path) -> None: ...

    @abstractmethod
    def append_rows(self, rows: list[Row]) -> None: ...

    def append_table(self, table: pa.Table) -> None:
        """Appends a table. Peers without Arrow get its rows: making them is part of the time."""
        self.append_rows(table_rows(table))

    @abstractmethod
    def scan_rows(self) -> Iterable[Row]: ...

    def scan_table(self) -> pa.Table:
        """Returns all messages. Peers without Arrow pay for making a table of their rows."""
        topics, times, values = zip(*self.scan_rows(), strict=True)
        return pa.Table.from_arrays(
            [
                pa.array(topics, pa.string()),
                pa.array(times, pa.int64()).cast(SCHEMA.field("timestamp").type),
                pa.array(values, pa.binary()),
            ],
            schema=SCHEMA,
        )

    def flush(self) -> None:  # noqa: B027 - most leave nothing
        """Finishes the work that the store leaves to the background, if it leaves any."""

    @abstractmethod
    def close(self) -> None: ...


def wait_for_sealing(database: topicdb.Database) -> None:
    """Returns once the sealer has nothing more to do by itself."""
    while any(shard["is_sealing"] for shard in database.stats()["shards"]):
        time.sleep(0.01)


class TopicDb(Store):
    name = "TopicDB"
    layout: Literal["columnar", "skipstream"] = "columnar"

    def __init__(self, path: Path) -> None:
        self.database = topicdb.open(path, durability="os", layout=self.layout)

    def append_rows(self, rows: list[Row]) -> None:
        self.database.append(rows)

    def append_table(self, table: pa.Table) -> None:
        self.database.append(table)

    def scan_rows(self) -> Iterable[Row]:
        return self.database.scan()

    def scan_table(self) -> pa.Table:
        return self.database.scan().to_arrow()

    def flush(self) -> None:
        self.database.flush()

    def close(self) -> None:
        self.database.close()


class Skipstream(TopicDb):
    """TopicDB's other layout, for state: a key for a message and one for each varying level."""

    name = "skipstream"
    layout = "skipstream"


class RocksDict(Store):
    name = "rocksdict"

    def __init__(self, path: Path) -> None:
        self._db = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))

    def append_rows(self, rows: list[Row]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for topic, timestamp, value in rows:
            batch.put(encode_key(topic, timestamp), value)
        self._db.write(batch)

    def scan_rows(self) -> Iterable[Row]:
        items: Any = self._db.items()  # typed for keys and values of every kind; these are raw
        for key, value in items:
            yield key[:-TIME_BYTES].decode(), int.from_bytes(key[-TIME_BYTES:], "big"), value

    def flush(self) -> None:
        self._db.flush()

    def close(self) -> None:
        self._db.close()


class Lmdb(Store):
    name = "LMDB"

    def __init__(self, path: Path) -> None:
        self._environment = lmdb.open(str(path), map_size=LMDB_MAP_BYTES, sync=False)

    def append_rows(self, rows: list[Row]) -> None:
        with self._environment.begin(write=True) as transaction:
            for topic, timestamp, value in rows:
                transaction.put(encode_key(topic, timestamp), value)

    def scan_rows(self) -> Iterable[Row]:
        with self._environment.begin() as transaction:
            for key, value in transaction.cursor():
                yield key[:-TIME_BYTES].decode(), int.from_bytes(key[-TIME_BYTES:], "big"), value

    def close(self) -> None:
        self._environment.close()


class Sqlite(Store):
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self._connection = sqlite3.connect(path / "messages.db", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=OFF",
            "CREATE TABLE message (topic TEXT, timestamp INTEGER, value BLOB)",
            "CREATE INDEX by_topic ON message (topic, timestamp)",
        ):
            self._connection.execute(statement)

    def append_rows(self, rows: list[Row]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO message VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def scan_rows(self) -> Iterable[Row]:
        return self._connection.execute("SELECT topic, timestamp, value FROM message")

    def close(self) -> None:
        self._connection.close()


class DuckDb(Store):
    """One zstd Parquet file for each batch, so that each can be read as soon as it is appended."""

    name = "DuckDB"

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self._path = path
        self._files = 0
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")

    def append_rows(self, rows: list[Row]) -> None:
        topics, times, values = zip(*rows, strict=True)
        columns = [
            pa.array(topics, pa.string()),
            pa.array(times, pa.int64()).cast(SCHEMA.field("timestamp").type),
            pa.array(values, pa.binary()),
        ]
        self.append_table(pa.Table.from_arrays(columns, schema=SCHEMA))

    def append_table(self, table: pa.Table) -> None:
        name = self._path / f"{self._files:06}.parquet"
        pq.write_table(table, name, compression="zstd")
        self._files += 1

    def query(self, where: str, values: list[Any]) -> pa.Table:
        """Returns the messages for which the SQL condition holds."""
        sql = f"SELECT topic, timestamp, value FROM read_parquet(?) WHERE {where}"
        files = str(self._path / "*.parquet")
        return self._connection.sql(sql, params=[files, *values]).to_arrow_table()

    def scan_table(self) -> pa.Table:
        return self.query("true", [])

    def scan_rows(self) -> Iterable[Row]:
        sql = "SELECT topic, epoch_us(timestamp), value FROM read_parquet(?)"
        rows: list[Row] = self._connection.execute(sql, [str(self._path / "*.parquet")]).fetchall()
        return rows

    def close(self) -> None:
        self._connection.close()


STORES: tuple[type[Store], ...] = (TopicDb, Skipstream, RocksDict, Lmdb, Sqlite, DuckDb)


def encode_key(topic: str, timestamp: int) -> bytes:
    return topic.encode() + timestamp.to_bytes(TIME_BYTES, "big")


def disk_bytes(path: Path) -> int:
    """Returns the disk space of the files. It is not the sum of sizes: LMDB's file is sparse."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())

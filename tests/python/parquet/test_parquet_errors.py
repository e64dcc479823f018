"""Files that cannot be imported give an error that says why, and nothing changes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from parquet_rows import NOT_SYSTEM, Row, names, pa, pq, write
from support import Child, run_child

import topicdb
from topicdb import parquet
from topicdb.replay import Envelope


class TestImportFails:
    GOOD: Sequence[Row] = [("a", 1, b"x"), ("b", 2, b"y"), ("c", 3, b"z")]
    COLUMNS: ClassVar[dict[str, tuple[dict[str, Any], str]]] = {
        "no topic": ({"topic": None}, "column 'topic' is missing; there are: timestamp, value"),
        "no timestamp": ({"timestamp": None}, "column 'timestamp' is missing"),
        "no value": ({"value": None}, "column 'value' is missing"),
        "topic bytes": ({"topic": [b"a"] * 3}, "column 'topic': expected string, got binary"),
        "topic int": ({"topic": [1, 2, 3]}, "column 'topic': expected string, got int64"),
        "value int": ({"value": [1, 2, 3]}, "column 'value': expected binary or string, got int64"),
        "no zone": (
            {"timestamp": pa.array([1, 2, 3], pa.timestamp("us"))},
            "column 'timestamp': expected a timestamp with a time zone",
        ),
        "time text": ({"timestamp": ["1", "2", "3"]}, "column 'timestamp': expected a timestamp"),
    }
    CELLS: ClassVar[dict[str, tuple[dict[str, Any], str]]] = {
        "null topic": ({"topic": ["a", None, "c"]}, "row 1: column 'topic' is null"),
        "null time": (
            {"timestamp": pa.array([1, 2, None], pa.timestamp("us", "UTC"))},
            "row 2: column 'timestamp' is null",
        ),
        "null value": ({"value": [b"x", b"", None]}, "row 2: column 'value' is null"),
        "wildcard": ({"topic": ["a", "b/#", "c"]}, "row 1: column 'topic': topic 'b/#'"),
        "no level": ({"topic": ["a", "b", ""]}, "row 2: column 'topic': "),
        "own topic": ({"topic": ["$topicdb/x", "b", "c"]}, "row 0: column 'topic': "),
        "negative": (
            {"timestamp": pa.array([1, 2, -3])},
            "row 2: column 'timestamp': timestamp -3",
        ),
        "fraction": (
            {"timestamp": pa.array([1000, 1001, 0], pa.timestamp("ns", "UTC"))},
            r"row 1: column 'timestamp': 1001 of timestamp\[ns, tz=UTC\] is no whole",
        ),
        "too late": (
            {"timestamp": pa.array([1, 2**62, 0], pa.timestamp("ms", "UTC"))},
            "row 1: column 'timestamp': ",
        ),
    }

    @pytest.mark.parametrize(
        ("name", "value"), [("qos", -1), ("message_expiry_s", -1), ("subscription_ids", [-1])]
    )
    def test_properties_that_cannot_be(
        self, tmp_path: Path, db: topicdb.Database, name: str, value: object
    ) -> None:
        with topicdb.open(tmp_path / "from") as source:
            source.append([("a", 1, Envelope(b"v", qos=1).encode())] * 3, raw=True)
            source.export_parquet(tmp_path / "good.parquet", properties=True)
        table = pq.read_table(tmp_path / "good.parquet")
        rows = table.to_pylist()
        rows[2][name] = value
        file = tmp_path / "bad.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
        with pytest.raises(ValueError, match=rf"bad\.parquet: row 2: {name}") as caught:
            db.import_parquet(file)
        assert type(caught.value) is ValueError
        assert db.scan().count() == 0

    @pytest.mark.parametrize("case", [*COLUMNS, *CELLS])
    def test_bad_files(self, tmp_path: Path, db: topicdb.Database, case: str) -> None:
        columns, message = {**self.COLUMNS, **self.CELLS}[case]
        good = write(tmp_path / "good.parquet", self.GOOD)
        bad = write(tmp_path / "bad.parquet", self.GOOD, **columns)
        kind = topicdb.TopicError if "'topic': " in message and "row" in message else ValueError
        with pytest.raises(kind, match=f"bad.parquet: {message}"):
            db.import_parquet([good, bad])
        assert db.scan().count() == 0
        assert names(tmp_path / "test.db" / "jobs") == []
        db.import_parquet(good)
        assert sorted(db.scan()) == self.GOOD

    def test_rows_are_counted_through_the_file(self, tmp_path: Path, db: topicdb.Database) -> None:
        rows = [(f"a/{i}", i, b"") for i in range(150_000)]
        rows[140_000] = ("a/+", 1, b"")
        path = tmp_path / "in.parquet"
        pq.write_table(pq.read_table(write(path, rows)), path, row_group_size=100_000)
        with pytest.raises(topicdb.TopicError, match=r"in\.parquet: row 140000: column 'topic'"):
            db.import_parquet(path)
        assert db.scan().count() == 0

    @pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
    def test_topics_that_are_not_utf_8(
        self, tmp_path: Path, db: topicdb.Database, kind: str
    ) -> None:
        wide = kind == "large_string"
        bytes_ = pa.array([b"a", b"\xff\xfe", b"c"], pa.large_binary() if wide else pa.binary())
        text = pa.large_string() if wide else pa.string()
        topics = pa.Array.from_buffers(text, 3, bytes_.buffers())
        if kind == "dictionary":
            topics = topics.dictionary_encode()
        path = write(tmp_path / "in.parquet", self.GOOD, topic=topics)
        with pytest.raises(topicdb.TopicError, match=r"row 1: column 'topic': .*UTF-8"):
            db.import_parquet(path)

    def test_damage(self, tmp_path: Path, db: topicdb.Database) -> None:
        chance = random.Random(5)
        rows = sorted((f"a/{i}", i, chance.randbytes(40)) for i in range(2_000))
        path = tmp_path / "in.parquet"
        with topicdb.open(tmp_path / "source") as source:
            source.append(rows)
            source.export_parquet(path)
        whole = path.read_bytes()
        found = 0
        for _ in range(40):
            place = chance.randrange(len(whole))
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            error = raised_by(lambda: db.import_parquet(path, repeat=True))
            if error is None:  # the byte does not matter
                assert sorted(db.scan()) == rows
                db.delete("#")
                continue
            assert isinstance(error, (topicdb.Error, ValueError)) and "in.parquet" in str(error)
            assert db.scan().count() == 0
            found += isinstance(error, topicdb.CorruptionError)
        assert found > 30
        for size in (0, 3, 100, len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(topicdb.CorruptionError, match=r"in\.parquet: no Parquet file"):
                db.import_parquet(path)

    @pytest.mark.parametrize(
        ("change", "kind", "message"),
        [
            ({"version": 3}, topicdb.SchemaError, "a newer TopicDB wrote it; upgrade"),
            ({"filter": "a#"}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"start": -1}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"layout": "rows"}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"more": 1}, topicdb.CorruptionError, "says of its export is damaged"),
            ({"end": 1}, ValueError, "row 0: column 'timestamp': .* outside the range"),
        ],
        ids=str,
    )
    def test_what_a_file_says_of_itself(
        self,
        tmp_path: Path,
        db: topicdb.Database,
        exported: Path,
        change: dict[str, Any],
        kind: type[Exception],
        message: str,
    ) -> None:
        table = pq.read_table(exported)
        about = {**json.loads(table.schema.metadata[b"topicdb"]), **change}
        path = tmp_path / "in.parquet"
        pq.write_table(table.replace_schema_metadata({"topicdb": json.dumps(about)}), path)
        with pytest.raises(kind, match=f"in.parquet: .*{message}"):
            db.import_parquet(path)
        pq.write_table(table.replace_schema_metadata({"topicdb": "{"}), path)
        with pytest.raises(topicdb.CorruptionError, match="damaged"):
            db.import_parquet(path)

    def test_a_database_without_times(self, tmp_path: Path, exported: Path) -> None:
        options: dict[str, Any] = {"layout": "skipstream", "timestamp_bytes": 0}
        with topicdb.open(tmp_path / "state", **options) as state:
            with pytest.raises(topicdb.SchemaError, match=r"rows\.parquet: .*timestamp_bytes=0"):
                state.import_parquet(exported)
            path = write(tmp_path / "in.parquet", [("a", 0, b"x"), ("a", 1, b"")])
            with pytest.raises(ValueError, match=r"row 1: column 'timestamp': .*no time but 0"):
                state.import_parquet(path)
            state.append([("a", 0, b"1"), ("a", 0, b"2")])
            state.export_parquet(tmp_path / "state.parquet")
        with topicdb.open(tmp_path / "copy") as copy:
            copy.import_parquet(tmp_path / "state.parquet")
            assert copy.scan().to_list() == [("a", 0, b"2")]

    def test_files_that_are_not_there(self, tmp_path: Path, db: topicdb.Database) -> None:
        with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
            db.import_parquet(tmp_path / "none.parquet")
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match=r"has no \.parquet files.*empty"):
            db.import_parquet(tmp_path / "empty")
        with pytest.raises(ValueError, match="no file is given"):
            db.import_parquet([])
        db.append([(f"a/{i}", i, b"") for i in range(10)])
        done = db.export_parquet(tmp_path / "out", rows_per_file=3)
        Path(done.files[-1]).unlink()
        with pytest.raises(FileNotFoundError, match="part-00003-of-00004"):
            db.import_parquet(tmp_path / "out")
        assert db.import_parquet(done.files[:3]).messages == 9

    def test_what_in_a_directory_is_no_part(self, tmp_path: Path, db: topicdb.Database) -> None:
        db.append(self.GOOD)
        out = tmp_path / "out"
        db.export_parquet(out)
        for name in ("_SUCCESS", ".hidden.parquet", "_metadata.parquet", "notes.txt"):
            (out / name).touch()
        assert db.import_parquet(out).messages == 3

    def test_handles_that_do_not_write(self, tmp_path: Path, exported: Path) -> None:
        with topicdb.open(tmp_path / "db", quota_bytes=1) as db:
            db.flush()
            with pytest.raises(topicdb.QuotaError, match="quota is 1: delete or drop"):
                db.import_parquet(exported)
            with (
                topicdb.open(tmp_path / "db", mode="r") as reader,
                pytest.raises(topicdb.ReadOnlyError),
            ):
                reader.import_parquet(exported)
        with pytest.raises(topicdb.ClosedError):
            db.import_parquet(exported)
        assert names(tmp_path / "db" / "jobs") == []

    def test_beside_a_writer(self, tmp_path: Path, exported: Path) -> None:
        code = """
            import sys, topicdb
            with topicdb.open(sys.argv[1]) as db:
                print("open")
                input()
                print(db.scan("#").count())
                input()
        """
        with Child(code, tmp_path / "db") as writer:
            writer.expect("open")
            with pytest.raises(topicdb.LockedError):
                topicdb.open(tmp_path / "db")
            done = parquet.import_into(tmp_path / "db", exported)
            assert (done.repeated, done.pending) == (False, [])
            assert parquet.import_into(tmp_path / "db", exported).repeated
            writer.send()
            writer.expect(str(len(NOT_SYSTEM)))
        with pytest.raises(topicdb.NotFoundError):
            parquet.import_into(tmp_path / "none", exported)

    def test_without_pyarrow(self, tmp_path: Path) -> None:
        code = """
            import sys
            sys.modules["pyarrow"] = None
            import topicdb
            with topicdb.open(sys.argv[1]) as db:
                for call in db.export_parquet, db.import_parquet:
                    try:
                        call("x.parquet")
                    except ModuleNotFoundError as error:
                        print(error)
        """
        assert run_child(code, tmp_path / "db").splitlines() == [
            'export_parquet needs pyarrow; run: pip install "topicdb[arrow]"',
            'import_parquet needs pyarrow; run: pip install "topicdb[arrow]"',
        ]


def raised_by(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None

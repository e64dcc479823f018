"""Bad input gives the documented error, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support import nothing_written

import topicdb
from topicdb import (
    ClosedError,
    ConflictError,
    CorruptionError,
    Database,
    Error,
    ExistsError,
    ForkedError,
    LockedError,
    MissingShardError,
    NotFoundError,
    PreconditionError,
    QuotaError,
    ReadOnlyError,
    SchemaError,
    StorageError,
    TopicError,
)

pa = pytest.importorskip("pyarrow")

BUILT_IN = {
    TopicError: ValueError,
    SchemaError: ValueError,
    NotFoundError: KeyError,
    LockedError: OSError,
    ReadOnlyError: OSError,
    CorruptionError: OSError,
    StorageError: OSError,
    ClosedError: RuntimeError,
    ForkedError: RuntimeError,
    topicdb.CommitTimeoutError: TimeoutError,
    ConflictError: RuntimeError,
    PreconditionError: RuntimeError,
    QuotaError: OSError,
    ExistsError: FileExistsError,
    MissingShardError: OSError,
    topicdb.AccessError: PermissionError,
    topicdb.CodecError: ValueError,
    topicdb.LossError: RuntimeError,
    topicdb.ReplayError: RuntimeError,
    topicdb.UnavailableError: ConnectionError,
    topicdb.NoQuorumError: ConnectionError,
    topicdb.UnknownOutcomeError: ConnectionError,
    topicdb.StaleError: TimeoutError,
    topicdb.ClusterError: ValueError,
}
BAD_ROWS: dict[str, tuple[Any, type[Exception]]] = {
    "no_tuple": (5, TypeError),
    "none": (None, TypeError),
    "text": ("a", TypeError),
    "too_short": (("a", 1), TypeError),
    "too_long": (("a", 1, b"", b""), TypeError),
    "topic_none": ((None, 1, b""), TypeError),
    "topic_bytes": ((b"a", 1, b""), TypeError),
    "topic_empty": (("", 1, b""), TopicError),
    "topic_wildcard": (("a/#", 1, b""), TopicError),
    "topic_nul": (("a\0", 1, b""), TopicError),
    "topic_surrogate": (("\ud800", 1, b""), TopicError),
    "topic_too_long": (("x" * 65_536, 1, b""), TopicError),
    "time_negative": (("a", -1, b""), ValueError),
    "time_huge": (("a", 2**63, b""), ValueError),
    "time_very_huge": (("a", 2**64, b""), ValueError),
    "time_float": (("a", 1.0, b""), TypeError),
    "time_bool": (("a", True, b""), TypeError),
    "time_text": (("a", "soon", b""), ValueError),
    "value_text": (("a", 1, "text"), TypeError),
    "value_none": (("a", 1, None), TypeError),
    "value_int": (("a", 1, 7), TypeError),
    "value_not_contiguous": (("a", 1, memoryview(b"abcd")[::2]), (ValueError, TypeError)),  # type: ignore[dict-item]
}
GOOD = [("new/topic", 1, b"x"), ("another/new/topic", None, b"y")]


class CallersError(Exception):
    """An error of the caller, whose constructor does not take a text."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


class ExplodingTime:
    """A timestamp that raises an error when it is converted to an integer."""

    def __index__(self) -> int:
        raise CallersError(1, 2)


@pytest.fixture
def filled(db_path: Path) -> Any:
    with topicdb.open(db_path, shards=3, thresholds=[2, 1]) as db:
        db.append([(f"t/{i}", i, b"v") for i in range(20)])
        yield db


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("row", "error"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_one_bad_row_and_nothing_is_written(
    filled: Database, row: Any, error: type[Exception], place: int
) -> None:
    with nothing_written(filled), pytest.raises(error, match=rf"row {place}\b"):
        filled.append([*GOOD[:place], row, *GOOD[place:]])
    filled.append(GOOD)
    assert filled.scan("#").count() == 22


def test_no_rows_at_all(filled: Database) -> None:
    for wrong in (5, None, object()):
        with nothing_written(filled), pytest.raises(TypeError):
            filled.append(wrong)  # type: ignore[arg-type]


def test_errors_of_the_caller_pass_through(filled: Database) -> None:
    def rows() -> Any:
        yield GOOD[0]
        raise CallersError(1, 2)

    for source in (rows(), [GOOD[0], ("a", ExplodingTime(), b"")]):
        with nothing_written(filled), pytest.raises(CallersError):
            filled.append(source)


def test_durability_must_be_known(filled: Database, tmp_path: Path) -> None:
    with nothing_written(filled), pytest.raises(ValueError, match="durability"):
        filled.append(GOOD, durability="safe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="durability"):
        topicdb.open(tmp_path / "new.db", durability="safe")  # type: ignore[arg-type]
    assert not (tmp_path / "new.db").exists()


ARROW_GOOD = {
    "topic": pa.array(["a", "b"]),
    "timestamp": pa.array([1, 2], pa.int64()),
    "value": pa.array([b"x", b"y"]),
}
BAD_COLUMNS: dict[str, tuple[str, Any, type[Exception]]] = {
    "topic_int": ("topic", pa.array([1, 2]), ValueError),
    "topic_binary": ("topic", pa.array([b"a", b"b"]), ValueError),
    "topic_null": ("topic", pa.array(["a", None]), ValueError),
    "topic_invalid": ("topic", pa.array(["a", "b/#"]), TopicError),
    "topic_no_utf8": ("topic", pa.array([b"a", b"\xff\xff"]).view(pa.string()), TopicError),
    "timestamp_float": ("timestamp", pa.array([1.0, 2.0]), ValueError),
    "timestamp_int32": ("timestamp", pa.array([1, 2], pa.int32()), ValueError),
    "timestamp_text": ("timestamp", pa.array(["1", "2"]), ValueError),
    "timestamp_no_zone": ("timestamp", pa.array([1, 2], pa.timestamp("us")), ValueError),
    "timestamp_negative": ("timestamp", pa.array([1, -1], pa.int64()), ValueError),
    "timestamp_overflow": (
        "timestamp",
        pa.array([1, 2**62], pa.timestamp("s", tz="UTC")),
        ValueError,
    ),
    "timestamp_date": ("timestamp", pa.array([1, 2], pa.date32()), ValueError),
    "value_int": ("value", pa.array([1, 2]), ValueError),
    "value_null": ("value", pa.array([b"x", None]), ValueError),
    "value_list": ("value", pa.array([[b"x"], [b"y"]]), ValueError),
}


@pytest.mark.parametrize(("column", "data", "error"), BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_a_bad_arrow_column_is_named(
    filled: Database, column: str, data: Any, error: type[Exception]
) -> None:
    table = pa.table({**ARROW_GOOD, column: data})
    with nothing_written(filled), pytest.raises(error, match=rf"{column}|row 1"):
        filled.append(table)


@pytest.mark.parametrize("column", ["topic", "value"])
def test_a_missing_arrow_column_is_named(filled: Database, column: str) -> None:
    table = pa.table(ARROW_GOOD).drop_columns([column])
    with nothing_written(filled), pytest.raises(ValueError, match=column):
        filled.append(table)


def test_an_unknown_or_repeated_arrow_column_is_named(filled: Database) -> None:
    table = pa.table(ARROW_GOOD)
    with nothing_written(filled), pytest.raises(ValueError, match="colour"):
        filled.append(table.append_column("colour", ARROW_GOOD["value"]))
    with nothing_written(filled), pytest.raises(ValueError, match="value"):
        filled.append(table.append_column("value", ARROW_GOOD["value"]))


def test_an_array_is_no_table(filled: Database) -> None:
    with nothing_written(filled), pytest.raises(ValueError, match="columns"):
        filled.append(pa.array(["a"]))


def test_a_bad_row_in_a_later_chunk_writes_nothing(filled: Database) -> None:
    bad = pa.table({**ARROW_GOOD, "topic": ["fine", "not/+/fine"]})
    with nothing_written(filled), pytest.raises(TopicError, match=r"not/\+/fine"):
        filled.append(pa.concat_tables([pa.table(ARROW_GOOD), bad]))


def test_an_arrow_stream_that_fails_writes_nothing(filled: Database) -> None:
    def batches() -> Any:
        yield pa.record_batch(ARROW_GOOD)
        raise OSError("the source broke")

    batch = pa.record_batch(ARROW_GOOD)
    reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
    with nothing_written(filled), pytest.raises(Exception, match="the source broke"):
        filled.append(reader)


# Opening


def test_a_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    for mode in ("r", "rw"):
        with pytest.raises(CorruptionError, match="file"):
            topicdb.open(path, mode=mode)
    assert path.read_bytes() == b"hello"


def test_another_programs_directory_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for mode in ("r", "rw"):
        with pytest.raises(CorruptionError, match=r"notes\.txt|TOPICDB"):
            topicdb.open(tmp_path, mode=mode)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_directory_becomes_a_database(tmp_path: Path) -> None:
    with topicdb.open(tmp_path) as db:
        db.append([("a", 1, b"")])


@pytest.mark.parametrize("path", ["missing.db", "missing/parents/x.db"])
def test_readers_create_nothing(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFoundError, match=r"missing"):
        topicdb.open(tmp_path / path, mode="r")
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "x.db", tmp_path / ("x" * 300)):
        with pytest.raises(Error) as caught:
            topicdb.open(path)
        assert str(path) in str(caught.value)


def test_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"NUL|null"):
        topicdb.open(f"{tmp_path}/a\0b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "", None, "ro"])
def test_the_mode_must_be_known(db_path: Path, mode: Any) -> None:
    with pytest.raises(ValueError, match="mode"):
        topicdb.open(db_path, mode=mode)
    assert not db_path.exists()


WRONG_SCHEMAS: dict[str, tuple[str, Any]] = {
    "no_shards": ("shards", 0),
    "too_many_shards": ("shards", 1_025),
    "negative_shards": ("shards", -1),
    "layout": ("layout", "columns"),
    "timestamp_bytes": ("timestamp_bytes", 4),
    "thresholds_empty": ("thresholds", []),
    "threshold_negative": ("thresholds", [-1]),
    "structures_no_filter": ("structures", ["a/#/b"]),
    "structures_empty": ("structures", [""]),
    "retention_no_filter": ("retention", {"a/b+": "1h"}),
    "retention_no_age": ("retention", {"a/#": "soon"}),
    "retention_zero": ("retention", {"a/#": "0s"}),
    "retention_negative": ("retention", {"a/#": timedelta(-1)}),
    "retention_after_catch_all": ("retention", {"#": "1h", "a/#": "1h"}),
}


@pytest.mark.parametrize(("option", "value"), WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS)
def test_a_malformed_schema_creates_nothing(db_path: Path, option: str, value: Any) -> None:
    with pytest.raises(SchemaError, match=option):
        topicdb.open(db_path, **{option: value})
    assert not db_path.exists()


STORED: dict[str, Any] = {
    "shards": 2,
    "timestamp_bytes": 8,
    "structures": ["a/+"],
    "thresholds": [5, 1],
    "retention": {"a/#": "1h", "#": None},
}
DISAGREEING: list[tuple[str, Any]] = [
    ("shards", 1),
    ("shard_by", "key"),
    ("timestamp_bytes", 0),
    ("structures", []),
    ("structures", ["b/+"]),
    ("thresholds", [5]),
    ("thresholds", [5, 2]),
    ("retention", {"a/#": "2h", "#": None}),
    ("retention", {"#": None}),
    ("retention", {}),
]


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize(("option", "value"), DISAGREEING, ids=str)
def test_a_schema_that_disagrees_is_named(
    db_path: Path, option: str, value: Any, mode: Any
) -> None:
    topicdb.open(db_path, **STORED).close()
    with pytest.raises(SchemaError, match=rf"{option}.*{db_path.name}"):
        topicdb.open(db_path, mode=mode, **{option: value})
    with topicdb.open(db_path, mode=mode, **STORED) as db:
        assert db.schema["thresholds"] == [5, 1]


def test_retention_durations_agree_by_length(db_path: Path) -> None:
    topicdb.open(db_path, retention={"a/#": "24h"}).close()
    topicdb.open(db_path, retention={"a/#": "1d"}).close()
    topicdb.open(db_path, retention={"a/#": timedelta(days=1)}).close()


@pytest.mark.parametrize("only_shards", [[], [2], [0, 0], [-1]], ids=str)
def test_only_shards_must_be_there(db_path: Path, only_shards: list[int]) -> None:
    topicdb.open(db_path, shards=2).close()
    with pytest.raises(ValueError, match="only_shards"):
        topicdb.open(db_path, only_shards=only_shards)


# Use of what is there


def test_unknown_retention_class_and_slab(db: Database) -> None:
    with pytest.raises(NotFoundError, match="nothing/#"):
        db.rotate("nothing/#")
    db.rotate()
    old, current = db.slabs()
    with pytest.raises(ValueError, match="current"):
        db.drop_slab(current)
    db.drop_slab(old)
    with pytest.raises(NotFoundError, match="generation 1"):
        db.drop_slab(old)
    assert len(db.slabs()) == 1


def test_readers_do_not_write(db_path: Path) -> None:
    with topicdb.open(db_path, retention={"#": "1h"}) as db:
        db.append([("a", 1, b"")])
        db.rotate()
    with topicdb.open(db_path, mode="r") as reader:
        for write in (
            lambda: reader.append([("a", 2, b"")]),
            lambda: reader.append(pa.table(ARROW_GOOD)),
            lambda: reader.append_async([("a", 2, b"")]),
            lambda: reader.delete("#"),
            lambda: reader.transaction(),
            lambda: reader.map("m"),
            lambda: reader.rotate(),
            lambda: reader.drop_slab(reader.slabs()[0]),
            lambda: reader.expire(2**56),
        ):
            with pytest.raises(ReadOnlyError, match=r"mode='r'"):
                write()
        reader.flush()
        assert reader.scan().count() == 1


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.__name__)
def test_each_error_is_also_the_built_in_it_resembles(kind: type[Exception]) -> None:
    assert issubclass(kind, Error) and issubclass(kind, BUILT_IN[kind])
    assert kind.__module__ == "topicdb"
    assert str(kind("what to do")) == "what to do", "no quotes, not even in a KeyError"


def test_the_list_of_errors_is_complete() -> None:
    exported = {v for v in vars(topicdb).values() if isinstance(v, type) and issubclass(v, Error)}
    assert exported == {*BUILT_IN, Error}


def test_unexpected_arguments_are_type_errors(db: Database) -> None:
    uses: list[Callable[[], Any]] = [
        lambda: db.scan(5),  # type: ignore[arg-type]
        lambda: db.streams(5),  # type: ignore[arg-type]
        lambda: db.scan("#", streams=["a"]).to_list(),  # type: ignore[list-item]
        lambda: db.next("iterator"),  # type: ignore[call-overload]
        lambda: db.iterator("stream"),  # type: ignore[arg-type]
        lambda: topicdb.Iterator.from_bytes("text"),  # type: ignore[arg-type]
        lambda: topicdb.open(5),  # type: ignore[arg-type]
    ]
    for use in uses:
        with pytest.raises(TypeError):
            use()


def test_order_must_be_known(db: Database) -> None:
    with pytest.raises(ValueError, match="order"):
        db.scan("#", order="newest")  # type: ignore[arg-type]

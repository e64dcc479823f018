"""Export of databases whose generations have several layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from parquet_rows import in_file, series, stored
from support import LAYOUTS

import topicdb
from topicdb.parquet import files as parquet_files


@pytest.mark.parametrize("filter", ["#", None, ["t/1", "t/#"]], ids=str)
def test_of_several_layouts(tmp_path: Path, filter: Any) -> None:
    """A file of a mixed database may have several messages of one topic and time."""
    path = tmp_path / "out.parquet"
    with (
        topicdb.open(tmp_path / "a.db", layout="skipstream", shards=2) as source,
        topicdb.open(tmp_path / "b.db") as copy,
    ):
        for turn in range(5):
            source.append([(f"t/{i}", i, b"%d" % turn) for i in range(9)])
            source.rotate(layout=LAYOUTS[turn % 2])
        expected = [(f"t/{i}", i, value) for i in range(9) for value in (b"1", b"3", b"4")]
        source.export_parquet(path, filter)
        assert copy.import_parquet(path).messages == len(expected)
        assert stored(copy, {row[0] for row in expected}) == series(expected)


def test_of_states_alone(tmp_path: Path) -> None:
    """What is exported decides, not what else the database has."""
    path = tmp_path / "out.parquet"
    with (
        topicdb.open(tmp_path / "a.db", retention={"s/#": "layout:skipstream"}) as source,
        topicdb.open(tmp_path / "b.db", layout="skipstream") as copy,
    ):
        source.append([("s/1", 1, b"old"), ("s/1", 1, b"new"), ("a", 1, b"1"), ("a", 1, b"2")])
        source.export_parquet(path, ["s/#"])
        copy.import_parquet(path)
        assert stored(copy, ["s/1"]) == {"s/1": [(1, b"new")]}


def test_a_generation_that_begins_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that reads the log begins again where a generation keeps none."""
    path = tmp_path / "out.parquet"
    plan = parquet_files._plan
    with topicdb.open(tmp_path / "a.db") as source:
        source.append([("a", 1, b"1"), ("a", 1, b"2")])

        def planned(*arguments: Any) -> Any:
            found = plan(*arguments)
            source.rotate(layout="skipstream")
            source.append([("a", 2, b"3")])
            return found

        monkeypatch.setattr(parquet_files, "_plan", planned)
        source.export_parquet(path, None)
    assert in_file(path) == [("a", 1, b"1"), ("a", 1, b"2"), ("a", 2, b"3")]

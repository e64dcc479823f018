"""The progress bar of reads."""

from __future__ import annotations

import sys

import pytest

import topicdb
from topicdb.frames.progress import with_progress

CONVERSIONS = ["to_arrow", "to_pandas", "to_polars", "to_pylist"]


@pytest.fixture
def filled(db: topicdb.Database) -> topicdb.Database:
    db.append([(f"site/{n % 3}/pump", n, b"%d" % n) for n in range(3_000)])
    return db


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_a_bar_shows_how_many_messages_came(
    filled: topicdb.Database, convert: str, capfd: pytest.CaptureFixture[str]
) -> None:
    scan = filled.scan("#")
    assert len(getattr(scan, convert)()) == 3_000
    assert capfd.readouterr().err == ""
    assert len(getattr(scan, convert)(progress=True)) == 3_000
    assert "3.00k/3.00k" in capfd.readouterr().err


def test_the_bar_ends_at_what_was_found(
    filled: topicdb.Database, capfd: pytest.CaptureFixture[str]
) -> None:
    found = filled.scan("site/1/pump").to_pylist(progress=True)
    last = capfd.readouterr().err.rstrip().rpartition("\r")[2]
    assert len(found) == 1_000
    assert "1.00k/1.00k" in last
    assert filled.scan("nobody").to_pylist(progress=True) == []


def test_a_bar_without_a_total(filled: topicdb.Database, capfd: pytest.CaptureFixture[str]) -> None:
    newest = filled.last("#").to_pylist(progress=True)
    assert len(newest) == 3
    assert "3.00/3.00" in capfd.readouterr().err
    slices = filled.slices("#")
    assert len(filled.scan_slices(slices).to_pylist(progress=True)) == 3_000
    assert "3.00k/3.00k" in capfd.readouterr().err


def test_the_error_of_the_read_comes_through(capfd: pytest.CaptureFixture[str]) -> None:
    def parts() -> object:
        yield [1, 2]
        raise topicdb.CorruptionError("block 7 is damaged")

    shown = with_progress(parts(), lambda: 5, "to_pylist")  # type: ignore[arg-type, var-annotated]
    assert next(shown) == [1, 2]
    with pytest.raises(topicdb.CorruptionError, match="block 7"):
        next(shown)
    assert "2.00/5.00" in capfd.readouterr().err


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_without_tqdm_it_says_what_to_install(
    filled: topicdb.Database, convert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ModuleNotFoundError, match=rf'{convert} .*"topicdb\[progress\]"'):
        getattr(filled.scan("#"), convert)(progress=True)

"""Reads records, which map column names to values, from JSON lines or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias

from topicdb.cli.errors import UserError
from topicdb.cli.ingest.lines import LINE_BYTES_MAX, LineError, Lines

Fields: TypeAlias = dict[str, Any]


class Format(str, Enum):
    """Input formats of ``topicdb ingest``."""

    JSON = "json"
    CSV = "csv"


_FORMAT_OF_SUFFIX = {
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".csv": Format.CSV,
}


def format_of(name: str) -> Format | None:
    """Returns the format that a file name tells, or None; ``-`` (stdin) is JSON lines."""
    return Format.JSON if name == "-" else _FORMAT_OF_SUFFIX.get(Path(name).suffix.lower())


class Records(Protocol):
    """An iterator of (line number, fields) that goes on after it has raised a LineError."""

    @property
    def columns(self) -> Sequence[str] | None:
        """Returns the names of the columns, or None if the format does not tell them beforehand."""

    def __next__(self) -> tuple[int, Fields]: ...


def open_records(lines: Lines, format: Format) -> Records:
    """Returns the records of ``lines``.

    Reads the header of a CSV file, and raises UserError if it has none.
    """
    return CsvRecords(lines) if format is Format.CSV else JsonRecords(lines)


class JsonRecords:
    """Reads one JSON object from each line, and passes over blank lines."""

    columns = None

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant).decode

    def __next__(self) -> tuple[int, Fields]:
        for line in self._lines:
            text = _decoded(line, self._lines.number).strip()
            if text:
                return self._lines.number, self._object(text)
        raise StopIteration

    def _object(self, text: str) -> Fields:
        try:
            fields = self._decode(text)
        except (ValueError, RecursionError) as error:
            raise LineError(self._lines.number, f"not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise LineError(self._lines.number, 'not a JSON object, such as {"topic": …}')
        return fields


class CsvRecords:
    """Reads rows of a CSV file (RFC 4180, comma, UTF-8) whose first row names the columns."""

    def __init__(self, lines: Lines) -> None:
        csv.field_size_limit(LINE_BYTES_MAX)
        self._lines = lines
        self._rows = csv.reader(_TextLines(lines), strict=True)
        self.columns = self._header()

    def __next__(self) -> tuple[int, Fields]:
        number, row = self._row()
        if len(row) != len(self.columns):
            raise LineError(number, f"{len(row)} cells, but the header has {len(self.columns)}")
        return number, dict(zip(self.columns, row, strict=True))

    def _row(self) -> tuple[int, list[str]]:
        """Returns the next row that is not blank, and the number of its first line."""
        while True:
            number = self._lines.number + 1
            try:
                row = next(self._rows)
            except csv.Error as error:
                raise LineError(number, f"not CSV: {error}") from None
            if row:
                return number, row

    def _header(self) -> list[str]:
        try:
            _, header = self._row()
        except StopIteration:
            raise UserError(
                "the CSV input is empty: its first line must name the columns"
            ) from None
        except LineError as error:
            raise UserError(f"in the CSV header, {error}") from None
        if len(set(header)) != len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise UserError(f"the CSV header names the column {twice!r} twice")
        return header


class _TextLines:
    """Decodes lines for csv.reader; no generator, since it has to go on after an error."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        return _decoded(line, self._lines.number) + "\n"


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise LineError(number, f"not UTF-8: {error.reason} at byte {error.start}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")

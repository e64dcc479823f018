"""Writes messages as lines of text, JSON or CSV, or to a Parquet file."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import topicdb
from topicdb.cli.errors import UserError
from topicdb.cli.progress import Meter
from topicdb.cli.times import time_text
from topicdb.cursor.scan import BATCH_BYTES_MAX, BATCH_ROWS, missing_metadata

if TYPE_CHECKING:
    import pyarrow as pa

_VALUE_CHARACTERS_MAX = 200
_PRETTY_BYTES_MAX = 64 << 10
_PARQUET_ROWS = 100_000
_PARQUET_BYTES = 16 << 20


class Order(str, Enum):
    """Orders of ``topicdb scan``."""

    STREAM = "stream"
    TIME = "time"
    NONE = "none"


def printable(text: str) -> str:
    """Returns ``text`` with control characters escaped.

    It can neither break the line nor drive the terminal then.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def value_text(value: bytes) -> str:
    """Returns a value for people: its text if it is UTF-8, else ``0x``, hex and its length.

    Long values are cut, and have their length behind them, too.
    """
    cut = value[: 4 * _VALUE_CHARACTERS_MAX]
    is_text = True
    try:
        text = printable(value.decode() if len(cut) == len(value) else _decode_start(cut))
    except UnicodeDecodeError:
        text, is_text = f"0x{cut.hex()}", False
    if len(cut) == len(value) and len(text) <= _VALUE_CHARACTERS_MAX:
        return text if is_text else f"{text} ({_size(value)})"
    return f"{text[:_VALUE_CHARACTERS_MAX]}… ({_size(value)})"


def _size(value: bytes) -> str:
    return f"{len(value):,} byte{'' if len(value) == 1 else 's'}"


def _decode_start(cut: bytes) -> str:
    """Decodes a cut value, whose last character may have lost up to three bytes."""
    try:
        return cut.decode()
    except UnicodeDecodeError as error:
        if error.start < len(cut) - 3:
            raise
        return cut[: error.start].decode()


def human_line(message: topicdb.Message) -> str:
    """Returns ``time  topic  value``, and the properties that are known, if they were read."""
    topic, timestamp, value = message[:3]
    properties: tuple[Any, ...] = message[3:]
    line = f"{time_text(timestamp)}  {printable(topic)}  {value_text(value)}"
    return line + "".join(f"  {_properties_text(one)}" for one in properties)


def _properties_text(properties: topicdb.Properties) -> str:
    parts = [f"{printable(name)}={printable(text)!r}" for name, text in properties.user_properties]
    for name, value in _known(properties).items():
        if name == "received":
            parts.append(f"received={time_text(value)}")
        elif name != "user_properties":
            parts.append(f"{name}={value!r}")
    return " ".join(parts)


def pretty_text(message: topicdb.Message) -> str:
    """Returns what ``human_line`` does, with a JSON value indented on lines of its own."""
    value = message[2]
    if len(value) > _PRETTY_BYTES_MAX or value[:1] not in (b"{", b"["):
        return human_line(message)
    try:
        lines = json.dumps(json.loads(value), ensure_ascii=False, indent=2).splitlines()
    except (ValueError, RecursionError):
        return human_line(message)
    head = human_line(message._replace(value=b"")).rstrip()
    return "\n".join((head, *(f"  {printable(line)}" for line in lines)))


def hex_line(message: topicdb.Message) -> str:
    """Returns ``time  topic  value`` with every byte of the value in hex, and its length."""
    topic, timestamp, value = message[:3]
    return f"{time_text(timestamp)}  {printable(topic)}  {value.hex()} ({_size(value)})"


def csv_line(message: topicdb.Message) -> str:
    """Returns a CSV row of time, topic, value and encoding, which is base64 or nothing.

    ``topicdb ingest --value value --encoding encoding`` reads such rows.
    """
    topic, timestamp, value = message[:3]
    fields = json_fields("value", value)
    return _csv_row(time_text(timestamp), topic, fields["value"], fields.get("encoding", ""))


def _csv_row(*cells: str) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(cells)
    return row.getvalue()


class Format(str, Enum):
    """How messages are shown."""

    TEXT = "text"
    PRETTY = "pretty"
    JSON = "json"
    HEX = "hex"
    CSV = "csv"


_HEADS = {Format.CSV: "timestamp,topic,value,encoding\n"}


class Lines:
    """Writes messages to stdout in one format, in UTF-8 whatever the locale is."""

    def __init__(self, format: Format) -> None:
        self._line = _LINES[format]
        self._head = _HEADS.get(format, "")

    def write(self, messages: Iterable[topicdb.Message]) -> None:
        """Writes the messages, behind the head of the format if they are the first."""
        output = sys.stdout.buffer
        text = self._head + "".join(f"{self._line(message)}\n" for message in messages)
        self._head = ""
        output.write(text.encode())
        output.flush()


def json_line(message: topicdb.Message) -> str:
    """Returns a JSON object with the topic, the timestamp in microseconds and the value.

    A value that is not UTF-8 is base64, and the object has ``"encoding": "base64"`` then. A message
    that was read with properties has those that are known as further fields.
    """
    topic, timestamp, value = message[:3]
    properties: tuple[Any, ...] = message[3:]
    fields = {"topic": topic, "timestamp": timestamp, **json_fields("value", value)}
    for one in properties:
        fields |= _known(one)
    return json.dumps(fields, ensure_ascii=False)


def _known(properties: topicdb.Properties) -> dict[str, Any]:
    """Returns the properties that are known, as JSON has them: bytes as base64."""
    found: dict[str, Any] = {}
    for name, value in properties._asdict().items():
        if isinstance(value, bytes):
            found[name] = base64.b64encode(value).decode("ascii")
        elif value is not None and value != ():
            found[name] = value
    return found


def json_fields(name: str, value: bytes) -> dict[str, str]:
    """Returns one field with the text of a value; or two, base64 and a field that says so."""
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(value).decode("ascii"), "encoding": "base64"}


_LINES: dict[Format, Callable[[topicdb.Message], str]] = {
    Format.TEXT: human_line,
    Format.PRETTY: pretty_text,
    Format.JSON: json_line,
    Format.HEX: hex_line,
    Format.CSV: csv_line,
}


def write_lines(scan: topicdb.Scan, format: Format, limit: int | None) -> None:
    """Writes each message of a scan to stdout, at most ``limit`` of them."""
    lines = Lines(format)
    lines.write(())
    for batch, count in _limited(scan, limit, BATCH_ROWS, BATCH_BYTES_MAX):
        lines.write(batch if count == len(batch) else batch.to_list()[:count])


def print_json(found: object) -> None:
    """Prints one JSON object on one line, at once."""
    print(json.dumps(found, ensure_ascii=False, default=str), flush=True)


def write_parquet(scan: topicdb.Scan, path: Path, limit: int | None) -> int:
    """Writes messages to a Parquet file batch by batch, and returns how many.

    The columns are topic, timestamp (µs, UTC) and value, and those of properties if the scan has
    them. If the scan leaves out missing shards, the metadata says which. ``path`` appears when the
    file is complete.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise UserError('--to needs pyarrow; run: pip install "topicdb[cli]"') from None
    from topicdb.parquet import writing as parquet_write

    def tables(meter: Meter) -> Iterator[pa.Table]:
        written = 0
        found = _limited(scan, limit, _PARQUET_ROWS, _PARQUET_BYTES)
        batches = (pa.record_batch(batch).slice(0, count) for batch, count in found)
        for table in parquet_write.row_groups(batches):
            yield table
            written += table.num_rows
            meter.update(written)

    metadata = missing_metadata(scan.missing_shards)
    schema = parquet_write.message_schema(scan.form).with_metadata(metadata)
    with _replacing(path) as part, Meter() as meter:
        return parquet_write.write_file(part, tables(meter), schema)


def _limited(
    scan: topicdb.Scan, limit: int | None, rows: int, bytes_max: int
) -> Iterator[tuple[topicdb.Batch, int]]:
    """Yields batches, and how many rows of each to use."""
    left = sys.maxsize if limit is None else limit
    for batch in scan.batches(min(rows, left), bytes_max=bytes_max):
        yield batch, min(len(batch), left)
        left -= len(batch)
        if left <= 0:
            return


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside ``path`` to write to, which replaces it unless writing fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise

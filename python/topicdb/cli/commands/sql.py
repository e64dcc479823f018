"""``topicdb sql``: answers SQL queries about messages, with DuckDB."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topicdb.arguments.times import time_us
from topicdb.cli.errors import UserError
from topicdb.cli.options import (
    AcknowledgedOption,
    EndOption,
    FiltersOption,
    PartialOption,
    StartOption,
    TzOption,
    seen_of,
)
from topicdb.cli.output import json_fields, printable, value_text
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.report import console, table
from topicdb.cli.times import LOCAL, range_of, time_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_ROWS_MAX = 1_000  # of a table, whose widths need all rows in memory
_BATCH_ROWS = 10_000
_VIEW = """
    CREATE TEMP VIEW messages AS
    SELECT topic, timestamp, value, TRY(decode(value)) AS text, string_split(topic, '/') AS levels
    FROM stored
"""


class Output(str, Enum):
    """How the rows of a result are shown."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@at_place
def sql(
    place: Place,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Give a query of DuckDB on the table messages.")
    ],
    filter: FiltersOption = None,
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    format: Annotated[
        Output,
        typer.Option(
            help="Show rows in this format. table has columns for people, json is a JSON "
            "object on each line, and csv has rows under a header."
        ),
    ] = Output.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    partial: PartialOption = False,
    acknowledged: AcknowledgedOption = False,
) -> None:
    """Answer an SQL query about messages, with DuckDB.

    The table messages has the columns topic, timestamp, value (bytes), text (the value, if it is
    UTF-8) and levels (the levels of the topic, from 1). The command needs the extra
    topicdb[duckdb].

    \b
    Example:
      topicdb sql fleet.db "SELECT levels[2] AS pump, avg(text::INT) FROM messages GROUP BY ALL" \\
        --filter 'site/+/pump' --start yesterday
    """
    if as_json:
        if format is Output.CSV:
            raise typer.BadParameter("give --json or --format csv, not both")
        format = Output.JSON
    import topicdb.duckdb

    with place.read(partial=partial) as database:
        stored = topicdb.duckdb.scan(
            database,
            filter or "#",
            **range_of(start, end, tz),
            partial=partial,
            at_least=seen_of(acknowledged=acknowledged),
        )
        import duckdb  # after topicdb.duckdb, whose error says which extra is missing

        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            try:
                connection.register("stored", stored)
                connection.execute(_VIEW)
                if tz is not None and tz != LOCAL:
                    connection.execute(f"SET TimeZone = '{tz}'")  # ``tz`` is the name of a zone
                with Waiting("answering the query"):
                    reader = _reader(connection, query)
                if reader is not None:
                    _SHOWN[format](reader)
            except duckdb.Error as error:
                raise UserError(f"QUERY: {_plain(error)}") from None


def _reader(connection: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader | None:
    """Runs the query, and returns its rows; None for a statement without any."""
    result = connection.sql(query)
    return None if result is None else result.to_arrow_reader(_BATCH_ROWS)


def _plain(error: Exception) -> str:
    """Returns the text of an error of DuckDB without the drawing of where in the query it is."""
    text = str(error).partition("\n\nLINE ")[0]
    return " ".join(text.split())


def _rows(reader: pa.RecordBatchReader) -> Iterator[list[Any]]:
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield list(row)


def _show_table(reader: pa.RecordBatchReader) -> None:
    names = reader.schema.names
    found = table(
        *(
            f"{printable(name)}{'>' if _is_figure(reader.schema.field(index).type) else ''}"
            for index, name in enumerate(names)
        )
    )
    rows = _rows(reader)
    for row in itertools.islice(rows, _ROWS_MAX):
        found.add_row(*(_text(value) for value in row))
    out = console()
    out.print(found)
    if next(rows, None) is not None:
        out.print(f"these are the first {_ROWS_MAX:,} rows; --json and --format csv give all")


def _is_figure(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    is_figure: bool = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return is_figure


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return value_text(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return time_text(time_us(value))
    if isinstance(value, (list, dict)):
        return printable(json.dumps(value, ensure_ascii=False, default=_plain_json))
    return printable(str(value))


def _show_csv(reader: pa.RecordBatchReader) -> None:
    output = sys.stdout.buffer
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(reader.schema.names)
    for row in _rows(reader):
        rows.writerow(["" if value is None else _cell(value) for value in row])
        if buffer.tell() > 1 << 20:
            output.write(_taken(buffer).encode())
    output.write(_taken(buffer).encode())


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return json_fields("value", value)["value"]
    return value if isinstance(value, str) else _text(value)


def _show_json(reader: pa.RecordBatchReader) -> None:
    names = reader.schema.names
    for row in _rows(reader):
        fields: dict[str, Any] = {}
        for name, value in zip(names, row, strict=True):
            if isinstance(value, bytes):
                found = json_fields(name, value)
                encoding = found.pop("encoding", None)
                fields |= found
                if encoding is not None:
                    fields["encoding" if name == "value" else f"{name}_encoding"] = encoding
            else:
                fields[name] = value
        line = json.dumps(fields, ensure_ascii=False, default=_plain_json)
        sys.stdout.buffer.write(f"{line}\n".encode())


def _plain_json(value: Any) -> Any:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return time_us(value)
    if isinstance(value, bytes):
        return json_fields("value", value)["value"]
    return str(value)


_SHOWN = {Output.TABLE: _show_table, Output.JSON: _show_json, Output.CSV: _show_csv}

"""Values, topics and times as people read them, on one line, and safe in HTML.

Nothing here raises for what a database may hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from html import escape
from typing import Any

TEXT_MAX = 80
"""Longer texts are cut to this number of characters."""
CELL_MAX = 200
"""Longer texts in a cell of a table are cut to this number of characters."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CUT = "…"


def cut(text: str, length: int = TEXT_MAX) -> str:
    """Returns text of at most ``length`` characters, without any that do not show."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[: length + 1]
    )
    is_cut = len(text) > length or len(shown) > length
    return shown[: length - 1] + _CUT if is_cut else shown


def value_text(value: bytes, length: int = TEXT_MAX) -> str:
    """Returns a value as text if it is UTF-8, else as bytes with their number.

    >>> value_text(b"21.5"), value_text(bytes([0, 255]))
    ('21.5', "b'\\\\x00\\\\xff' (2 bytes)")
    """
    first = value[: 4 * length + 4]  # UTF-8 has at most four bytes a character
    try:
        text = first.decode()
    except UnicodeDecodeError as error:
        if len(first) == len(value) or error.start < len(first) - 3:
            unit = "byte" if len(value) == 1 else "bytes"
            return f"{cut(repr(first), length)} ({len(value):,} {unit})"
        text = first[: error.start].decode()
    return cut(text, length)


def time_text(us: int | None) -> str:
    """Returns a time in µs since 1970 as ISO 8601 in UTC, or as the number if it is none."""
    if us is None:
        return ""
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} µs"
    return moment.replace(tzinfo=None).isoformat() + "Z"


def size_text(size: int) -> str:
    """Returns a number of bytes with a unit: ``1.4 MiB``."""
    found = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if found < 1024:
            return f"{found:.0f} B" if unit == "B" else f"{found:.1f} {unit}"
        found /= 1024
    return f"{found:.1f} TiB"


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = ""
) -> str:
    """Returns an HTML table. All text is escaped; numbers are at the right."""
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    header = f"<thead><tr>{head}</tr></thead>" if columns else ""
    end = f"<div>{escape(note)}</div>" if note else ""
    return (
        f"<div><div><b>{escape(caption)}</b></div>"
        f"<table>{header}<tbody>{body}</tbody></table>{end}</div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return f"<td>{'' if value is None else 'yes' if value else 'no'}</td>"
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    if isinstance(value, bytes):
        value = value_text(value)
    return f'<td style="text-align:left">{escape(cut(str(value), CELL_MAX))}</td>'

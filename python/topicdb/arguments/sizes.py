"""Sizes in bytes as the API and the command line accept them."""

from __future__ import annotations

import re
from typing import SupportsIndex, TypeAlias

from topicdb.arguments.wrong_types import wrong_type

Size: TypeAlias = "int | SupportsIndex | str"
"""A number of bytes, or text with a unit: ``"30GB"`` (powers of 1000), ``"10GiB"`` (of 1024)."""

_UNIT_BYTES: dict[str, int] = {
    "b": 1,
    **{f"{unit}b": 1_000**power for power, unit in enumerate("kmgtp", 1)},
    **{f"{unit}ib": 1_024**power for power, unit in enumerate("kmgtp", 1)},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?i?b)", re.IGNORECASE)
_BYTES_MAX = (1 << 63) - 1
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_UNITS = (
    "write a number and one of B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024), "
    "such as '10GiB'"
)


def is_size(value: object) -> bool:
    """Returns whether ``value`` is text such as ``"30GB"``."""
    return isinstance(value, str) and _bytes_of(value) is not None


def is_number(value: object) -> bool:
    """Returns whether ``value`` is text that is a number without a unit, such as ``"30"``."""
    return isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is not None


def size_bytes(size: Size, *, what: str = "size") -> int:
    """Returns the number of bytes of ``"125000MB"``, ``"10GiB"``, ``"4096B"`` or a plain number.

    Raises ValueError, naming ``what``, for text that is no size, and for 2**63 bytes or more. Text
    without a unit is refused: nobody can tell what ``"30"`` means. Raises TypeError for anything
    else.
    """
    found: float | None
    if isinstance(size, str):
        found = _bytes_of(size)
        if found is None and is_number(size):
            raise ValueError(f"{what}: {size!r} has no unit; {_UNITS}")
        if found is None:
            raise ValueError(f"{what}: {size!r} is no size; {_UNITS}")
    elif isinstance(size, bool) or not hasattr(size, "__index__"):
        raise wrong_type(what, "a number of bytes, or text such as '10GiB'", size)
    else:
        found = size.__index__()
    if found > _BYTES_MAX:
        raise ValueError(f"{what}: {size!r} must be less than 2**63 bytes")
    return round(found)


def _bytes_of(text: str) -> float | None:
    """Returns the bytes, infinitely many if the text has too many digits; None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    unit = _UNIT_BYTES.get(match[2].lower()) if match else None
    return None if match is None or unit is None else float(match[1]) * unit

"""Turns the texts of options of ``format("topicdb")`` into their values.

Each function raises ValueError with the reason. The connector in Java has checks of the same names.
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.times import time_us, timeout_us
from topicdb.types import AtLeastLike

Serials: TypeAlias = "dict[int, int]"

EARLIEST = "earliest"
LATEST = "latest"
ACKNOWLEDGED: Literal["acknowledged"] = "acknowledged"
_NUMBER_MAX = 1 << 63


def filters(text: str) -> list[str]:
    found: Any = [text]
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            raise ValueError("expected a topic filter or a JSON list of filters") from None
        if not found or not all(isinstance(item, str) for item in found):
            raise ValueError("expected at least one filter in the list, each a string")
    for filter in found:
        _core.check_filter(filter)
    return list(dict.fromkeys(found))


def time(text: str) -> int:
    digits = text.strip()
    return time_us(int(digits) if digits.isdecimal() else text, what="the time")


def offsets(text: str) -> str | Serials:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    fault = ValueError(
        'expected "earliest", "latest" or serials of commits by shard, such as {"0": 17, "1": 4}'
    )
    try:
        found = json.loads(text)
        found = found.get("serials", found)  # an offset of Spark's checkpoints and logs
        serials = {int(shard): serial for shard, serial in found.items()}
    except (ValueError, AttributeError):
        raise fault from None
    if not all(type(serial) is int and 0 <= serial < _NUMBER_MAX for serial in serials.values()):
        raise fault
    return serials


def seen(text: str) -> AtLeastLike:
    if text.strip().lower() == ACKNOWLEDGED:
        return ACKNOWLEDGED
    found = offsets(text) if text.strip().startswith("{") else text
    if isinstance(found, str):
        raise ValueError(
            'expected "acknowledged" or serials of commits by shard, such as {"0": 17, "1": 4}'
        )
    return found


def number(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) < _NUMBER_MAX:
        raise ValueError("expected a whole number, at least 1")
    return int(text)


def seconds(text: str) -> int:
    found = number(text)
    timeout_us(found, what="the time")  # now, not when the tasks are done and it commits
    return found


def flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def given(text: str) -> str:
    if not text:
        raise ValueError("expected a text that is not empty")
    return text


def mode(text: str) -> bool:
    if text.strip().upper() not in ("FAILFAST", "DROPMALFORMED"):
        raise ValueError("expected FAILFAST or DROPMALFORMED")
    return text.strip().upper() == "DROPMALFORMED"


def path(text: str) -> str:
    if not text:
        raise ValueError("expected the directory of a database")
    if "://" in text:
        raise ValueError("expected a directory; only the JAR reads uploads by their URL")
    return os.path.abspath(text)  # tasks may run in another directory

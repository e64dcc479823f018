"""Tests of points in time, durations and sizes as the API takes them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from topicdb import Database
from topicdb.arguments.sizes import is_size, size_bytes
from topicdb.arguments.times import duration_us, time_of_text, time_us

US = 1_000_000
MOMENT_US = 1_769_868_120 * US  # 2026-01-31T14:02:00Z
BERLIN = timezone(timedelta(hours=1))

SAME_MOMENT = {
    "int": MOMENT_US,
    "numpy": np.int64(MOMENT_US),
    "aware": datetime(2026, 1, 31, 14, 2, tzinfo=timezone.utc),
    "other_zone": datetime(2026, 1, 31, 15, 2, tzinfo=BERLIN),
    "text": "2026-01-31T14:02:00Z",
    "text_lower_z": "2026-01-31T14:02:00z",
    "text_offset": "2026-01-31T15:02:00+01:00",
    "text_spaces": "  2026-01-31 14:02:00+00:00 ",
    "text_fraction": "2026-01-31T14:02:00.000000+00:00",
}
WRONG_VALUES = {
    "naive": datetime(2026, 1, 31, 14, 2),
    "naive_text": "2026-01-31T14:02:00",
    "date_text": "2026-01-31",
    "no_time": "yesterday",
    "empty": "",
    "negative": -1,
    "huge": 2**63,
    "far_too_huge": 2**200,
    "before_1970": datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc),
    "forward": "+24h",
    "no_unit": "-24",
    "zero": "-0h",
}
WRONG_TYPES = {"float": 1.5, "bool": True, "bytes": b"2026-01-31T14:02:00Z", "list": [1]}


@pytest.mark.parametrize("when", SAME_MOMENT.values(), ids=SAME_MOMENT)
def test_every_form_of_a_moment(db: Database, when: Any) -> None:
    db.append([("before", MOMENT_US - 1, b""), ("it", when, b""), ("after", MOMENT_US + 1, b"")])
    assert [m.timestamp for m in db.scan("it")] == [MOMENT_US]
    assert {m.topic for m in db.scan(start=when)} == {"it", "after"}
    assert {m.topic for m in db.scan(end=when)} == {"before"}
    assert db.streams("it", start=when)
    [stream] = db.streams("it")
    assert len(db.next(db.iterator(stream, "it", start=when)).batch) == 1
    assert len(db.next(db.iterator(stream, "it", end=when)).batch) == 0


@pytest.mark.parametrize("wrong", WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_no_time_is_a_value_error(db: Database, wrong: Any) -> None:
    with pytest.raises(ValueError, match="start"):
        db.scan(start=wrong)
    with pytest.raises(ValueError, match="end"):
        db.streams(end=wrong)
    with pytest.raises(ValueError, match=r"row 1\b"):
        db.append([("a", 1, b""), ("a", wrong, b"")])
    assert db.scan().to_list() == []


@pytest.mark.parametrize("wrong", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_another_type_is_a_type_error(db: Database, wrong: Any) -> None:
    with pytest.raises(TypeError, match="start"):
        db.scan(start=wrong)
    with pytest.raises(TypeError, match=r"row 1\b"):
        db.append([("a", 1, b""), ("a", wrong, b"")])
    assert db.scan().to_list() == []


def test_the_first_and_the_last_moment(db: Database) -> None:
    db.append([("a", 0, b""), ("a", 2**63 - 1, b"")])
    assert [m.timestamp for m in db.scan("a", start=0)] == [0, 2**63 - 1]
    assert db.scan("a", start=2**63 - 1).count() == 1


def test_relative_times_count_back_from_now(db: Database) -> None:
    hour_us = 3_600 * US
    now = time.time_ns() // 1_000
    db.append([("old", now - 2 * hour_us, b""), ("new", now, b"")])
    assert [m.topic for m in db.scan("#", start="-1h")] == ["new"]
    assert [m.topic for m in db.scan("#", end="-1h")] == ["old"]
    assert [m.topic for m in db.scan("#", start="-3h", end="-1h")] == ["old"]
    assert db.scan(start="-100000w").count() == 2, "before 1970 means from the start"


def test_relative_times_use_one_clock_reading() -> None:
    assert time_us("-1h", what="t", now=7_200 * US) == 3_600 * US
    assert time_us("now", what="t", now=5) == 5
    assert time_us("-1h", what="t", now=5) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1us", 1),
        ("2ms", 2_000),
        ("90s", 90 * US),
        ("5m", 300 * US),
        ("5min", 300 * US),
        ("1.5h", 5_400 * US),
        ("7d", 604_800 * US),
        (" 1 w ", 604_800 * US),
        (timedelta(days=1), 86_400 * US),
    ],
)
def test_durations(text: str | timedelta, expected: int) -> None:
    assert duration_us(text) == expected


@pytest.mark.parametrize("wrong", ["", "h", "1", "-1h", "1y", "1h30m", "0s", timedelta(0), 5, None])
def test_no_duration_is_a_value_error(wrong: Any) -> None:
    with pytest.raises(ValueError, match="age"):
        duration_us(wrong, what="age")


@pytest.mark.parametrize(
    "wrong",
    ["9" * 401 + "s", "9" * 401 + ".5us", "300000000d", timedelta.max],
    ids=["infinite", "fraction", "days", "timedelta"],
)
def test_a_duration_may_be_too_long(wrong: str | timedelta) -> None:
    with pytest.raises(ValueError, match=r"age: .* must be less than 2\*\*63 microseconds"):
        duration_us(wrong, what="age")


def test_the_longest_duration() -> None:
    assert duration_us(timedelta(microseconds=2**63 - 1)) == 2**63 - 1


@pytest.mark.parametrize(
    "text", ["9" * 401, "-" + "9" * 401 + "d", "9" * 5_000], ids=["401", "duration", "5000"]
)
def test_numbers_of_any_length_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # which of several texts, depends on the length
        time_us(time_of_text(text, what="since"), what="since")
    with pytest.raises(ValueError, match="is outside"):
        time_us(10**401)


@pytest.mark.parametrize("number", [1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000_000])
def test_what_removes_takes_no_seconds_for_microseconds(db: Database, number: int) -> None:
    db.append([("a", MOMENT_US, b"")])
    for call in (
        lambda: db.trim(number, dry_run=False),
        lambda: db.expire(number),
        lambda: db.maintain(number),
    ):
        with pytest.raises(ValueError, match=r"1700000000000000 or 2023-11-14T22:13:20\+00:00"):
            call()
    assert db.scan().count() == 1
    understood = db.trim("2023-11-14T22:13:20Z").before
    assert understood == 1_700_000_000_000_000


def test_devices_without_a_clock_can_be_trimmed(db: Database) -> None:
    db.append([("a", 5, b""), ("a", 500_000_000, b"")])
    assert db.trim(6).messages == 1
    assert db.trim("1970-01-01T00:10:00Z").messages == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("30GB", 30 * 10**9), ("10 GiB", 10 << 30), ("1.5kb", 1500), (7, 7)],
)
def test_sizes(text: Any, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    "wrong",
    ["9" * 401 + "B", "9" * 308 + "TB", "9500PB", 2**63, 10**401],
    ids=["infinite", "infinite with its unit", "text", "int", "no float"],
)
def test_a_size_may_be_too_large(wrong: Any) -> None:
    assert not isinstance(wrong, str) or is_size(wrong)
    with pytest.raises(ValueError, match=r"quota: .* must be less than 2\*\*63 bytes"):
        size_bytes(wrong, what="quota")
    assert size_bytes(2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize("wrong", ["30", "1.5", "", "GB", "30G", "-1B", "1 potato"])
def test_no_size_is_a_value_error(wrong: str) -> None:
    with pytest.raises(ValueError, match="quota"):
        size_bytes(wrong, what="quota")
    if wrong[:1].isdigit() and not wrong.endswith(("G", "o")):
        with pytest.raises(ValueError, match="has no unit"):
            size_bytes(wrong, what="quota")


@pytest.mark.parametrize("wrong", [1.5, True, None, b"1B"])
def test_a_size_of_another_type_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="quota"):
        size_bytes(wrong, what="quota")

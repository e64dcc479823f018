"""Tests of planned sizes of logs and quotas, and of texts of sizes."""

from __future__ import annotations

import doctest
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicdb import Retention
from topicdb.lifecycle import planning

DAY_US = 86_400 * 1_000_000
MB = 1_000_000


def test_a_week_and_a_spare_day() -> None:
    found = planning.plan(125_000 * MB, "7d")
    assert found.log_bytes == 1_000_000 * MB
    assert found.quota_bytes == 1_250_000 * MB
    assert found.trim_bytes == 1_125_000 * MB
    assert found.retention == Retention(timedelta(days=7), None, timedelta(days=1))
    assert (found.reserve_days, found.generations) == (1.0, 8)


@pytest.mark.parametrize(
    ("age", "rotate"),
    [("1h", "450s"), ("23h", "10350s"), ("1d", "1d"), ("8d", "1d"), ("30d", "90h"), ("80d", "10d")],
)
def test_how_long_a_generation_lasts(age: str, rotate: str) -> None:
    assert planning.plan(1, age).retention == planning.plan(1, age, rotate=rotate).retention


def test_without_trimming_all_of_the_quota_may_be_filled() -> None:
    found = planning.plan(1_000 * MB, "9d", rotate="1d", fill=1, quota_trim=None, spare_cycles=2)
    assert (found.log_bytes, found.quota_bytes) == (11_000 * MB, 11_000 * MB)
    assert (found.trim_bytes, found.reserve_days) == (None, 0)


@given(
    bytes_per_day=st.floats(1, 1e15),
    age_us=st.integers(8, 4_000 * DAY_US),
    rotate_us=st.none() | st.integers(1, 400 * DAY_US),
    spare=st.floats(1, 10),
    fill=st.floats(0.1, 0.9),
)
def test_the_log_always_fits(
    bytes_per_day: float, age_us: int, rotate_us: int | None, spare: float, fill: float
) -> None:
    """Messages up to age + rotate old, which whole generations may hold, fit in the log."""
    found = planning.plan(
        bytes_per_day,
        timedelta(microseconds=age_us),
        rotate=None if rotate_us is None else timedelta(microseconds=rotate_us),
        spare_cycles=spare,
        fill=fill,
    )
    assert isinstance(found.retention.rotate, timedelta)
    rotated_us = found.retention.rotate // timedelta(microseconds=1)
    oldest = bytes_per_day * (age_us + rotated_us) / DAY_US
    assert oldest <= found.log_bytes * (1 + 1e-9) + 1
    assert math.isclose(found.quota_bytes * fill, found.log_bytes, rel_tol=1e-9, abs_tol=2)
    assert found.trim_bytes is not None
    assert found.log_bytes <= found.trim_bytes + 1 <= found.quota_bytes + 1
    assert found.generations * rotated_us >= age_us


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"age": "7"}, "age: '7' is not a duration"),
        ({"rotate": "0s"}, "rotate: .* more than zero"),
        ({"bytes_per_day": 0}, "bytes_per_day: expected more than 0, got 0"),
        ({"bytes_per_day": math.inf}, "bytes_per_day: "),
        ({"bytes_per_day": 1e300, "spare_cycles": 1e300}, "bytes_per_day, age, spare_cycles: so"),
        ({"spare_cycles": 0.5}, "spare_cycles: expected 1 or more, got 0.5"),
        ({"fill": 0}, "fill: expected more than 0"),
        ({"fill": 0.95}, "fill: .* at most 0.9, from where on the oldest go"),
        ({"quota_trim": 1.5}, "quota_trim: expected a part of the quota"),
    ],
    ids=str,
)
def test_what_makes_no_plan(options: dict[str, Any], message: str) -> None:
    arguments = {"bytes_per_day": 1, "age": "7d", **options}
    with pytest.raises(ValueError, match=message):
        planning.plan(**arguments)


def test_bytes_of_a_day() -> None:
    assert planning.bytes_per_day(5_000, 300, 0.25) == 32_400 * MB
    assert planning.bytes_per_day(1, 1) == 86_400
    for bad in ((0, 1, 1), (1, -1, 1), (1, 1, math.nan)):
        with pytest.raises(ValueError, match="expected more than 0"):
            planning.bytes_per_day(*bad)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096B", 4096),
        ("1B", 1),
        ("1.5 kB", 1500),
        ("125000MB", 125_000 * MB),
        ("10GiB", 10 << 30),
        ("2tb", 2 * 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert planning.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1iB", "1 XB", "1e9", "GB"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"--quota: .* is no size; write a number"):
        planning.size_bytes(text, what="--quota")


def test_the_example() -> None:
    assert doctest.testmod(planning).failed == 0

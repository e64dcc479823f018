"""Tests of the time at which a device says that it has made a message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from topicdb.bridge.device_time import DeviceTime
from topicdb.replay import Envelope

NOW_US = 1_700_000_000_000_000


def time_of(payload: bytes, source: str = "field:ts", unit: Any = "ms", **properties: str) -> Any:
    envelope = Envelope(payload, user_properties=tuple(properties.items()))
    return DeviceTime(source, unit, "1h", "1min").of(envelope, NOW_US)


def object_of(value: Any) -> bytes:
    return json.dumps({"ts": value}).encode()


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1_699_999_999_123, "ms", NOW_US - 877_000),
        (1_699_999_999, "s", NOW_US - 1_000_000),
        (1_699_999_999.25, "s", NOW_US - 750_000),
        (NOW_US - 5, "us", NOW_US - 5),
        ((NOW_US - 5) * 1_000 + 999, "ns", NOW_US - 5),
        ("1699999999123", "ms", NOW_US - 877_000),
        ("2023-11-14T22:13:19.5Z", "ms", NOW_US - 500_000),
        ("2023-11-14T23:13:19+01:00", "s", NOW_US - 1_000_000),
        # on the bounds
        (1_700_000_000_000 - 3_600_000, "ms", NOW_US - 3_600_000_000),
        (1_700_000_000_000 + 60_000, "ms", NOW_US + 60_000_000),
    ],
)
def test_times(value: Any, unit: str, expected: int) -> None:
    assert time_of(object_of(value), unit=unit) == expected
    assert time_of(b"", "property:at", unit, at=str(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [],
        {},
        "",
        "now",
        "-24h",
        "yesterday",
        "2023-11-14T22:13:19",  # without a zone
        "1.2.3",
        -5,
        0,
        1_700_000_000_000 - 3_600_001,
        1_700_000_000_000 + 60_001,
        1_700_000_000,  # seconds for milliseconds
        10**400,
        1e300,
    ],
)
def test_what_is_no_time_or_out_of_bounds(value: Any) -> None:
    assert time_of(object_of(value)) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[1]",
        b"5",
        b"{}",
        b'{"ts": NaN}',
        b'{"ts": Infinity}',
        b"[" * 100_000,
    ],
)
def test_payloads_without_it(payload: bytes) -> None:
    assert time_of(payload) is None


def test_a_field_in_an_object() -> None:
    payload = json.dumps({"meta": {"at": 1_699_999_999_000}, "at": 5}).encode()
    assert time_of(payload, "field:meta/at") == NOW_US - 1_000_000
    assert time_of(payload, "field:meta/other") is None
    assert time_of(payload, "field:at/meta") is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ts", "ms", "1h", "1h"), "timestamp: expected 'field:NAME'"),
        (("field:", "ms", "1h", "1h"), "timestamp: expected"),
        (("header:x", "ms", "1h", "1h"), "timestamp: expected"),
        (("field:ts", "min", "1h", "1h"), "timestamp_unit: expected"),
        (("field:ts", "ms", "5", "1h"), "timestamp_past: '5' is not a duration"),
        (("field:ts", "ms", "1h", "never"), "timestamp_future: 'never'"),
    ],
)
def test_options_that_cannot_be(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DeviceTime(*arguments)

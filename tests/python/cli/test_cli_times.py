"""Tests of the times that the command line takes and shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cli_runs import error_of, output_of, run_here
from hypothesis import given
from hypothesis import strategies as st

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")
from topicdb.cli import times
from topicdb.cli.errors import UserError
from topicdb.cli.times import parse_time, placed, show_in, stored_time, time_text

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"
# 2026-11-27 00:30 in Berlin, and still the day before in UTC.
NOW = (datetime(2026, 11, 26, 23, 30, tzinfo=timezone.utc) - EPOCH) // MICROSECOND
ZONES = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe"]
)


@pytest.fixture(autouse=True)
def shown_in_utc() -> Iterator[None]:
    show_in("UTC")
    yield
    show_in(None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-27 00:30"),
        ("-30m", "2026-11-27 00:00"),
        ("14:02", "2026-11-27 14:02"),
        ("9:02:30.5", "2026-11-27 09:02:30.5"),
        ("today", "2026-11-27 00:00"),
        ("Yesterday", "2026-11-26 00:00"),
        ("yesterday 14:02", "2026-11-26 14:02"),
        (" yesterday  14:02 ", "2026-11-26 14:02"),
        ("2026-11-20", "2026-11-20 00:00"),
        ("2026-07-20 14:02", "2026-07-20 14:02"),
        ("2026-11-20T14:02:03,123456789", "2026-11-20 14:02:03.123456"),
        ("20:00Z", "2026-11-26 21:00"),
        ("yesterday 14:02 UTC", "2026-11-25 15:02"),
        ("2026-11-20T14:02+05:30", "2026-11-20 09:32"),
        ("2026-11-20T14:02-0330", "2026-11-20 18:32"),
        (str(NOW), "2026-11-27 00:30"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    found = parse_time(text, "--start", BERLIN, now=NOW)
    moment = datetime.fromisoformat(expected.ljust(26, "0") if "." in expected else expected)
    assert found == (moment.replace(tzinfo=ZoneInfo(BERLIN)) - EPOCH) // MICROSECOND


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("noon", "'noon' is no time; write 14:02, 'yesterday 14:02', 2026-11-27T14:02, -1h or now"),
        ("1h", "for 1h ago write -1h"),
        ("+90s", "for 90s ago write -90s"),
        ("yesturday 14:02", "did you mean 'yesterday 14:02'?"),
        ("nwo", "did you mean 'now'?"),
        ("27.11.2026", "write the day as year-month-day, such as 2026-11-27"),
        ("27/11/2026 14:02", "write the day as year-month-day"),
        ("25:00", "there is no time '25:00': hour must be in 0..23"),
        ("2026-02-30", "there is no time '2026-02-30': day is out of range for month"),
        ("2026-03-29 02:30", "no clock showed 2026-03-29 02:30:00 in Europe/Berlin"),
        ("yesterday14:02", "is no time"),
        ("0001-01-01", "outside"),
        ("", "is no time"),
        ("1700000000", "if these are seconds, write 1700000000000000"),
    ],
)
def test_what_is_no_time(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="--start: ") as error:
        parse_time(text, "--start", BERLIN, now=NOW)
    assert told in str(error.value)


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(9998, 12, 31)),
    ZONES,
    st.sampled_from(["T", " "]),
)
def test_what_is_shown_can_be_typed(naive: datetime, zone: str, gap: str) -> None:
    expected = (naive.replace(tzinfo=timezone.utc) - EPOCH) // MICROSECOND
    show_in(zone)
    shown = time_text(expected)
    other = "UTC" if zone == BERLIN else BERLIN
    assert parse_time(shown.replace("T", gap), "t", other, now=NOW) == expected
    moment = datetime.fromisoformat(shown.replace("Z", "+00:00"))
    assert (moment - EPOCH) // MICROSECOND == expected
    assert moment.utcoffset() == ZoneInfo(zone).utcoffset(moment.replace(tzinfo=None, fold=0)) or (
        moment.replace(tzinfo=ZoneInfo(zone), fold=1).utcoffset() == moment.utcoffset()
    )


@given(st.integers(10**14, 10**17 - 1), ZONES)
def test_microseconds_are_taken_in_every_zone(timestamp: int, zone: str) -> None:
    assert parse_time(str(timestamp), "t", zone) == timestamp


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)), ZONES)
def test_a_local_time_is_that_of_the_zone_or_an_error(naive: datetime, zone: str) -> None:
    exists = any(
        naive.replace(tzinfo=ZoneInfo(zone), fold=fold)
        .astimezone(timezone.utc)
        .astimezone(ZoneInfo(zone))
        .replace(tzinfo=None)
        == naive
        for fold in (0, 1)
    )
    if not exists:
        with pytest.raises(ValueError, match="no clock showed"):
            parse_time(naive.isoformat(), "t", zone)
        return
    found = EPOCH + timedelta(microseconds=parse_time(naive.isoformat(), "t", zone))
    assert found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == naive


@given(st.text(st.sampled_from("0123456789-:.+TZ todayesr"), max_size=24))
def test_any_text_is_a_time_or_an_error_that_names_the_option(text: str) -> None:
    try:
        found = parse_time(text, "--end", "Asia/Kolkata", now=NOW)
    except ValueError as error:
        found, told = 0, str(error)
    else:
        told = "--end: "
    assert found >= 0 and told.startswith("--end: ")


def test_an_hour_that_comes_twice_is_the_first() -> None:
    found = parse_time("2026-10-25 02:30", "t", BERLIN)
    assert time_text(found) == "2026-10-25T00:30:00.000000Z"


def test_after_the_year_9999() -> None:
    show_in("Asia/Tokyo")
    assert time_text(253_402_300_799_000_000) == "9999-12-31T23:59:59.000000Z"
    assert time_text(253_402_300_800_000_000) == "253402300800000000"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_local_times_that_are_none_in_utc(zone: str, machine_zone: Callable[[str], None]) -> None:
    machine_zone(zone)
    for naive in (datetime.min, datetime.max):
        with pytest.raises(ValueError, match="is outside of the years 1 to 9999"):
            placed(naive, None, "t")


def test_data_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="say with --tz which it is in"):
        stored_time("2026-01-31T14:02", "column 'at'", None)
    assert stored_time("2026-01-31T14:02Z", "column 'at'", None) is None
    found = stored_time("2026-01-31T14:02", "column 'at'", BERLIN)
    assert found is not None and found.isoformat() == "2026-01-31T14:02:00+01:00"
    with pytest.raises(UserError, match="no time zone 'Berlin'"):
        times.zone_of("Berlin")


@pytest.fixture
def path(db_path: Path) -> Path:
    """A database with a message of 2026-01-31T13:02Z."""
    with topicdb.open(db_path) as db:
        db.append([("a", parse_time("2026-01-31T13:02Z", "t"), b"1")])
    return db_path


def test_commands_go_by_the_zone_of_the_machine(
    path: Path, machine_zone: Callable[[str], None]
) -> None:
    machine_zone(BERLIN)
    shown = "2026-01-31T14:02:00.000000+01:00  a  1\n"
    options = ["--start", "2026-01-31 14:02", "--end", "2026-01-31 14:03"]
    assert output_of("scan", path, *options) == shown
    assert output_of("scan", path, *options, "--tz", "local") == shown
    assert output_of("scan", path, *options, "--tz", "UTC") == ""
    assert run_here("last", path, "--tz", "UTC").stdout == "2026-01-31T13:02:00.000000Z  a  1\n"
    assert run_here("last", path, "--at", "2026-01-31 14:02").stdout == shown
    assert "--at: 'noon' is no time" in error_of("last", path, "--at", "noon")
    assert "no time zone 'Berlin'" in error_of("last", path, "--tz", "Berlin")

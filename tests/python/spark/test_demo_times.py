"""Tests of the demo's times of arrival, which its source gives as local times only."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flights_demo", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_utc(spark: SparkSession) -> Iterator[SparkSession]:
    """The Spark session with the demo's time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("month", "day", "carrier", "number", "arrival"),
    [
        (1, 1, "UA", 1545, "2013-01-01 14:30:00"),  # the same day, in Houston
        (11, 2, "B6", 523, "2013-11-03 07:10:00"),  # after midnight, Los Angeles at UTC-7
        (11, 3, "B6", 523, "2013-11-04 08:13:00"),  # after the end of summer time: UTC-8
        (1, 8, "B6", 701, "2013-01-09 05:54:00"),  # San Juan, which is not in the list of airports
    ],
)
def test_an_arrival_is_the_first_such_time_after_departure(
    in_utc: SparkSession,
    demo: ModuleType,
    month: int,
    day: int,
    carrier: str,
    number: int,
    arrival: str,
) -> None:
    rows = demo.flights
    rows = rows[
        (rows.month == month)
        & (rows.day == day)
        & (rows.carrier == carrier)
        & (rows.flight == number)
    ]
    assert len(rows) == 1
    frame = demo.flown(in_utc, rows).selectExpr("cast(arrival as string) as arrival")
    assert [row.arrival for row in frame.collect()] == [arrival]

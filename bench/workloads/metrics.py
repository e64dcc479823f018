"""CPU metrics of a server farm: 32,000 topics of 7 levels, each with 200 bytes every 10 s."""

from __future__ import annotations

import numpy as np

from workloads.rows import START_US, Columns, Random, pad, visit_order

HOSTS, SOCKETS, CORES = 1000, 2, 16
TOPICS = HOSTS * SOCKETS * CORES
PERIOD_US = 10_000_000
VALUE_BYTES = 200


def topic(number: int) -> str:
    host, rest = divmod(number, SOCKETS * CORES)
    socket, core = divmod(rest, CORES)
    return f"metrics/host{host:04}/cpu/socket/{socket}/core/{core}"


def make(rows: int, seed: int) -> Columns:
    random = Random(seed, "metrics")
    names = [topic(visit_order(number, TOPICS)) for number in range(min(rows, TOPICS))]
    user, system, freq, temp, irq = (
        random.integers(below, rows) for below in (10_000, 3_000, 4_000_000, 700, 50_000)
    )
    values = [
        pad(
            f'{{"user_pct":{u / 100:.2f},"system_pct":{s / 100:.2f},"freq_khz":{f},'
            f'"temp_c":{30 + t / 10:.1f},"irq_per_s":{i},"idle_pct":{100 - u / 100:.2f},'
            f'"steal_pct":{s % 7 / 100:.2f},"ctx_switches":{f * 3 + i},"governor":"schedutil",'
            f'"ok":true}}',
            VALUE_BYTES,
        )
        for u, s, f, t, i in zip(user, system, freq, temp, irq, strict=True)
    ]
    index = np.arange(rows, dtype=np.int64)
    times = START_US + index // TOPICS * PERIOD_US + index % TOPICS * (PERIOD_US // TOPICS)
    return Columns([names[i % TOPICS] for i in range(rows)], times, values)

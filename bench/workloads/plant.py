"""A factory: topics of a few hundred templates, 3 to 11 levels, values of many sizes."""

from __future__ import annotations

import numpy as np

from workloads.rows import START_US, Columns, Random

TEMPLATES = 300
LEVELS_MIN, LEVELS_MAX = 3, 11
NAMES = ("line", "cell", "robot", "press", "oven", "pump", "valve", "tank", "drive", "sensor")
STEP_US = 1_000


def templates(random: Random) -> list[str]:
    """Returns topics with ``{}`` in each level that varies; every topic has at least one."""
    made = []
    for number in range(TEMPLATES):
        depth = LEVELS_MIN + number % (LEVELS_MAX - LEVELS_MIN + 1)
        levels = ["plant"]
        kinds = random.integers(len(NAMES) * 3, depth - 2)
        for kind in kinds:
            name = NAMES[kind % len(NAMES)]
            levels.append(f"{name}{{}}" if kind >= 2 * len(NAMES) else name)
        levels.append(f"t{number:03}-{{}}")
        made.append("/".join(levels))
    return made


def make(rows: int, seed: int) -> Columns:
    random = Random(seed, "plant")
    patterns = templates(random)
    which = random.integers(TEMPLATES, rows)
    units = random.integers(12, rows * LEVELS_MAX)
    sizes = random.integers(240, rows)
    readings = random.integers(1_000_000, rows)
    topics, values = [], []
    for row, number in enumerate(which):
        words = units[row * LEVELS_MAX : (row + 1) * LEVELS_MAX]
        topics.append(patterns[number].format(*words))
        head = f'{{"v":{readings[row] / 1000:.3f},"q":{readings[row] % 3}}}'
        values.append(head.encode().ljust(sizes[row], b" "))
    times = START_US + np.arange(rows, dtype=np.int64) * STEP_US
    return Columns(topics, times, values)

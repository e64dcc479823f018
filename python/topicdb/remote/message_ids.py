"""The form in which ids of messages of a replay log travel: runs of ids that follow each other.

A run is the serial of a commit, the row of the first message, and the number of messages. Both
sides know the origin, which is the same for all messages of a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topicdb.replay.ids import MessageId

_SERIAL_MAX = (1 << 64) - 1
_ROW_MAX = (1 << 32) - 1


def runs_of(ids: Iterable[MessageId]) -> list[list[int]]:
    """Returns the runs of ids, in their order."""
    runs: list[list[int]] = []
    serial, row = -1, -1  # the id that would go on with the last run
    for id in ids:
        if id.serial == serial and id.row == row:
            runs[-1][2] += 1
        else:
            runs.append([id.serial, id.row, 1])
        serial, row = id.serial, id.row + 1
    return runs


def ids_of(origin: int, runs: Any, count_max: int) -> list[MessageId]:
    """Returns the ids of these runs.

    Raises ValueError if they are no runs, or together of more than ``count_max`` messages: a client
    may send anything.
    """
    found: list[MessageId] = []
    if not isinstance(runs, list):
        raise ValueError("ids: expected a list of runs")
    for run in runs:
        if not isinstance(run, list) or len(run) != 3 or not all(type(n) is int for n in run):
            raise ValueError("ids: expected the serial, the first row, and the count of each run")
        serial, row, count = run
        if not (0 <= serial <= _SERIAL_MAX and 0 <= row <= _ROW_MAX and count >= 1):
            raise ValueError(f"ids: there is no run {run}")
        if len(found) + count > count_max:
            raise ValueError(f"ids: at most {count_max} messages go together here")
        found += [MessageId(origin, serial, row + number) for number in range(count)]
    return found

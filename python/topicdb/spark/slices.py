"""Divides slices among tasks. All slices of a task are of one shard, so that it opens only that."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import topicdb

TASK_BYTES_MIN = 64 << 20
TASK_BYTES_MAX = 128 << 20


def divide(
    slices_of: Callable[[int], list[topicdb.Slice]], tasks_min: int
) -> list[list[topicdb.Slice]]:
    """Returns the slices for each task: 64 to 128 MiB, if there is enough to divide.

    ``slices_of`` cuts what is to be read into slices of about the bytes that it is given. If
    ``tasks_min`` asks for more tasks, they have less than 64 MiB each.
    """
    slices = slices_of(TASK_BYTES_MAX)
    total = sum(slice.bytes for slice in slices)
    share = total // (os.cpu_count() or 1)
    bytes_max = min(max(share, TASK_BYTES_MIN), TASK_BYTES_MAX)
    if tasks_min > 1:
        bytes_max = max(min(bytes_max, total // tasks_min), 1)
    if any(slice.bytes > bytes_max for slice in slices):
        slices = slices_of(bytes_max)
    return pack(slices, bytes_max)


def pack(slices: Sequence[topicdb.Slice], bytes_max: int) -> list[list[topicdb.Slice]]:
    """Returns slices by task: neighbours of one shard, with at most ``bytes_max`` together.

    A larger slice has a task of its own.
    """
    tasks: list[list[topicdb.Slice]] = []
    size = 0
    for slice in slices:
        other = not tasks or tasks[-1][-1].shard != slice.shard
        if other or size + slice.bytes > bytes_max:
            tasks.append([])
            size = 0
        tasks[-1].append(slice)
        size += slice.bytes
    return tasks

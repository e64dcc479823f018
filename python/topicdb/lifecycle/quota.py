"""The quota of a database: how much it may take on disk, and what goes for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from topicdb.arguments.sizes import Size, size_bytes
from topicdb.engine import Engine
from topicdb.results import Dropped

NO_QUOTA = 0
NO_TRIM = 0.0

TrimPart: TypeAlias = "float | Literal['unchanged'] | None"
"""The part of a quota from which on generations go; None: never."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of an open database, or one that it would have, and how the database stands to it.

    Made by ``Database.set_quota``; ``Database.quota`` has the current one.

    Attributes:
        bytes: how many bytes the open shards may have on disk; None: any number.
        trim: the part of it from which on the oldest generations are dropped; None: they never are.
        disk_bytes: how many bytes the open shards have on disk.
        dropped: the slabs that the next maintenance drops for the quota, as the files are now;
            fewer if freeing garbage is enough.
    """

    bytes: int | None
    trim: float | None
    disk_bytes: int
    dropped: list[Dropped]

    @property
    def is_full(self) -> bool:
        """Whether calls that add data raise QuotaError."""
        return self.bytes is not None and self.disk_bytes >= self.bytes


def quota_size(quota_bytes: Size | None) -> int:
    """Returns a quota as the core takes it.

    Raises:
        ValueError, TypeError: for what is none.
    """
    if quota_bytes is None:
        return NO_QUOTA
    size = size_bytes(quota_bytes, what="quota_bytes")
    if size < 1:
        raise ValueError(f"quota_bytes: expected at least 1, or None, got {quota_bytes}")
    return size


def trim_part(quota_trim: float | None) -> float:
    """Returns a part of the quota as the core takes it.

    Raises:
        ValueError, TypeError: .
    """
    if quota_trim is None:
        return NO_TRIM
    if isinstance(quota_trim, str) or quota_trim != quota_trim:  # NaN is never reached
        raise ValueError(
            f"quota_trim: expected a part of the quota, up to 1, or None, got {quota_trim}"
        )
    return quota_trim


def quota_of(engine: Engine) -> Quota:
    """Returns the quota, as ``Database.quota`` does."""
    dropped = engine.set_quota(None, None, True)
    state = engine.quota()
    return _quota(state.quota_bytes, state.quota_trim, state.disk_bytes, dropped)


def set_quota(
    engine: Engine, quota_bytes: Size | None, quota_trim: TrimPart, *, dry_run: bool
) -> Quota:
    """Replaces the quota, as ``Database.set_quota`` says."""
    size = quota_size(quota_bytes)
    part = None if quota_trim == "unchanged" else trim_part(quota_trim)
    dropped = engine.set_quota(size, part, dry_run)
    state = engine.quota()
    return _quota(size, state.quota_trim if part is None else part, state.disk_bytes, dropped)


def _quota(size: int, part: float, disk_bytes: int, dropped: list[Dropped]) -> Quota:
    return Quota(size or None, part or None, disk_bytes, dropped)

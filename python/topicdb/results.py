"""What the core gives of a database and its life, in classes that the extension makes objects of.

``topicdb.types`` has those of messages, ``topicdb.jobs`` those of jobs. A class has the fields that
the extension gives, in the same order: importing ``topicdb`` fails if they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topicdb._core import Batch, Slab

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topicdb.follow.losses import Loss


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a subscription is given: messages of one shard, or a loss, with an empty batch.

    ``seqno``: of the last message. ``serial``, ``row``: the place behind it. ``rows``: of each
    message the number in its commit.
    """

    batch: Batch
    seqno: int
    shard: int
    serial: int
    row: int
    is_live: bool
    rows: npt.NDArray[np.uint32]
    loss: Loss | None


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """Commits of a shard up to the serial ``until``, and how much they have of what matches."""

    until: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RetentionClass:
    """How long messages of the topics of ``filter`` are kept; 0 sets no limit.

    ``age_us``: of a message. ``bytes_max``: of files, in all shards. ``rotate_us``: a generation
    takes messages for so long; 0: as the core finds right. ``keep_last``: messages of each topic.
    """

    filter: str
    age_us: int
    bytes_max: int
    rotate_us: int
    keep_last: int


@dataclass(frozen=True, slots=True)
class SlabUsage:
    """A slab, its bytes on disk, and about how many of those are garbage."""

    slab: Slab
    disk_bytes: int
    garbage_bytes: int


@dataclass(frozen=True, slots=True)
class StructureUsage:
    """What the messages of one structure take in a retention class."""

    retention_class: str
    structure: str
    messages: int
    bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A slab that went, its bytes on disk, and why: ``"age"``, ``"bytes"`` (of its class),
    ``"quota"``, or ``"keep_last"`` (nothing else is to be kept)."""

    slab: Slab
    disk_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Maintained:
    """What one run of maintenance did, or would do.

    ``rotated``: generations that were started. ``kept``: messages of dropped slabs that are in new
    ones, as the last of their topics.
    """

    rotated: int
    dropped: list[Dropped]
    kept: int = 0


@dataclass(frozen=True, slots=True)
class TrimCount:
    """``slabs`` that went as a whole, and ``messages`` of others that went one by one."""

    slabs: list[Slab]
    messages: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a database.

    ``serials``: of each shard the last commit in it; empty if it was made by ``restore``. Of
    ``bytes`` in ``files``, ``copied_bytes`` were copied; the rest shares its space with the source
    or with the base.
    """

    path: str
    serials: dict[int, int]
    files: int
    bytes: int
    copied_bytes: int

"""Results of the core about a database and the life of its data, and some that users do not see.

``topicdb.types`` has the results about messages, ``topicdb.jobs`` those about jobs. The extension
makes objects of these classes: each has the fields that the extension gives, in the same order.
Importing ``topicdb`` fails if they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topicdb._core import Batch, ScanIterator, Slab

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topicdb.follow.losses import Loss


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delivery of a subscription: messages of one shard, or a loss with an empty batch.

    ``seqno`` is the number of the last message. ``serial`` and ``row`` are the place behind it.
    ``rows`` has for each message its number in its commit. ``is_live``: it came from a commit, not
    from history.
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
class ScanStep:
    """One step of a scan: messages of one shard, or a loss with an empty batch."""

    iterator: ScanIterator
    batch: Batch
    end_of_scan: bool
    loss: Loss | None


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """Commits of a shard up to ``until``, and the messages and bytes in them that match."""

    until: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RetentionClass:
    """How long messages of the topics of ``filter`` are kept; 0 sets no limit.

    - ``age_us``: how long ago a message may have been stored.
    - ``bytes_max``: limit for its files, in all shards together.
    - ``rotate_us``: how long a generation takes messages; 0: the core decides.
    - ``keep_last``: how many messages of each topic are kept, whatever their age.
    - ``layout``: of new generations; None: as that of the generation before.
    """

    filter: str
    age_us: int
    bytes_max: int
    rotate_us: int
    keep_last: int
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class SlabUsage:
    """A slab, its bytes on disk, and about how many of those are garbage."""

    slab: Slab
    disk_bytes: int
    garbage_bytes: int


@dataclass(frozen=True, slots=True)
class StructureUsage:
    """The size of the messages of one structure in a retention class.

    ``bytes`` are those of topics and values, ``disk_bytes`` those of files.
    """

    retention_class: str
    structure: str
    messages: int
    bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A slab that was dropped, its bytes on disk, and the reason.

    ``reason``: ``"age"``; ``"bytes"``: its class had too many; ``"quota"``; or ``"keep_last"``: its
    class keeps nothing but the last messages.
    """

    slab: Slab
    disk_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Maintained:
    """The result of one run of maintenance, or of one that would run next.

    - ``rotated``: how many generations it began.
    - ``dropped``: the slabs that it dropped.
    - ``kept``: how many messages of those slabs it wrote to new ones, as the last of their topics.
    """

    rotated: int
    dropped: list[Dropped]
    kept: int = 0


@dataclass(frozen=True, slots=True)
class QuotaState:
    """The quota of an open database, and how much counts against it.

    - ``quota_bytes``: 0: there is no quota.
    - ``quota_trim``: the part of it from which on the oldest generations go; 0: they never do.
    - ``disk_bytes``: of the open shards; measured once a second.
    """

    quota_bytes: int
    quota_trim: float
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class TrimCount:
    """The slabs that were removed as a whole, and how many messages of others one by one."""

    slabs: list[Slab]
    messages: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a database.

    - ``path``: its directory.
    - ``serials``: for each shard the last commit that it holds; empty if ``restore`` made it.
    - ``files``, ``bytes``: how many files it has, without the empty ``handles.lock``, and their
      size.
    - ``copied_bytes``: how many of the bytes were copied. The rest shares its space on disk with
      the source or with the base.
    """

    path: str
    serials: dict[int, int]
    files: int
    bytes: int
    copied_bytes: int

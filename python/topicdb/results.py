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

    An engine gives it to ``Subscription``; users get ``Delivery``.

    Attributes:
        batch: the messages.
        seqno: the number of the last message in the subscription.
        shard: the shard that they come from.
        serial: the commit of the place behind the last message.
        row: the index in that commit of the place behind the last message.
        is_live: whether they came from a commit, not from history.
        rows: for each message its index in its commit; one uint32 each.
        loss: what was dropped before the subscription had it, or None.
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
    """One step of a scan: messages of one shard, or a loss with an empty batch.

    An engine gives it to ``Database.next``; users get ``ScanPage``.

    Attributes:
        iterator: where the scan continues.
        batch: the messages.
        end_of_scan: whether everything was read.
        loss: what was dropped before the scan came to it, or None.
    """

    iterator: ScanIterator
    batch: Batch
    end_of_scan: bool
    loss: Loss | None


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """The commits of a shard up to ``until``, and how many messages in them match.

    It is how engines answer ``measure_log``.

    Attributes:
        until: the serial of the last commit.
        messages: how many messages match.
        bytes: the bytes of their topics and values.
    """

    until: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RetentionClass:
    """How long messages of the topics of ``filter`` are kept; 0 sets no limit.

    It is how engines take a ``Retention``.

    Attributes:
        filter: the topic filter of the class.
        age_us: how long ago a message may have been stored, in µs.
        bytes_max: how many bytes its files may have, in all shards together.
        rotate_us: how long a generation takes messages, in µs; 0: the core decides.
        keep_last: how many messages of each topic are kept, whatever their age.
        layout: the layout of new generations; None: as the generation before.
    """

    filter: str
    age_us: int
    bytes_max: int
    rotate_us: int
    keep_last: int
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class SlabUsage:
    """A slab, its bytes on disk, and about how many of those are garbage; users get ``Usage``.

    Attributes:
        slab: the slab.
        disk_bytes: the bytes of its files.
        garbage_bytes: about how many of them are of messages that were sealed again or deleted.
    """

    slab: Slab
    disk_bytes: int
    garbage_bytes: int


@dataclass(frozen=True, slots=True)
class StructureUsage:
    """The size of the messages of one structure in a retention class; users get ``Usage``.

    Attributes:
        retention_class: the topic filter of the class.
        structure: the structure, such as ``metrics/+/cpu``.
        messages: how many messages it has.
        bytes: the bytes of their topics and values.
        disk_bytes: the bytes of files that they take.
    """

    retention_class: str
    structure: str
    messages: int
    bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A slab that was dropped, its size, and the reason; an element of ``Maintained.dropped``.

    Attributes:
        slab: the slab.
        disk_bytes: the bytes of its files.
        reason: ``"age"``; ``"bytes"``: its class had too many; ``"quota"``; or ``"keep_last"``: its
            class keeps nothing but the last messages.
    """

    slab: Slab
    disk_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Maintained:
    """The result of a run of maintenance, or of one that would run; made by ``Database.maintain``.

    Attributes:
        rotated: how many generations it began.
        dropped: the slabs that it dropped.
        kept: how many messages of those slabs it wrote to new ones, as the last of their topics.
    """

    rotated: int
    dropped: list[Dropped]
    kept: int = 0


@dataclass(frozen=True, slots=True)
class QuotaState:
    """The quota of an open database, and how much counts against it; users get ``Quota``.

    Attributes:
        quota_bytes: the quota; 0: there is none.
        quota_trim: the part of it from which on the oldest generations go; 0: they never do.
        disk_bytes: the bytes on disk of the open shards; measured once a second.
    """

    quota_bytes: int
    quota_trim: float
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class TrimCount:
    """What a trim removed, or would remove; users get ``Trimmed``.

    Attributes:
        slabs: the slabs that were removed as a whole.
        messages: how many messages of other slabs were removed one by one.
    """

    slabs: list[Slab]
    messages: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a database; made by ``Database.snapshot``.

    Attributes:
        path: its directory.
        serials: for each shard the last commit that it holds; empty if ``restore`` made it.
        files: how many files it has, without the empty ``handles.lock``.
        bytes: the size of these files.
        copied_bytes: how many of the bytes were copied. The rest shares its space on disk with the
            source or with the base.
    """

    path: str
    serials: dict[int, int]
    files: int
    bytes: int
    copied_bytes: int

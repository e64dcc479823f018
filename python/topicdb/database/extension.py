"""Tells the extension the classes of which it makes objects."""

from __future__ import annotations

from topicdb import _core
from topicdb.arguments.times import time_us
from topicdb.arguments.wrong_types import guard
from topicdb.database.repairing import Repair
from topicdb.database.verifying import Problem, Verification
from topicdb.follow.losses import Loss
from topicdb.frames.installing import install
from topicdb.jobs import Applied, Committed, Staged
from topicdb.mqtt.envelope import Envelope
from topicdb.queue.files import QueueInfo, Segment, StoredCursor
from topicdb.queue.records import Damage, QueueReceipt
from topicdb.results import (
    CommitSpan,
    Delivered,
    Dropped,
    Maintained,
    QuotaState,
    RetentionClass,
    ScanStep,
    SlabUsage,
    Snapshot,
    StructureUsage,
    TrimCount,
)
from topicdb.types import (
    Message,
    MessageGroup,
    Page,
    Properties,
    PropertyMessage,
    Receipt,
    Slice,
)


def configure() -> None:
    """Makes the extension ready. To be called once, before any other call of it.

    Raises TypeError if a class has other fields than the extension gives: it is of another version.
    """
    _core.configure(Message, PropertyMessage, Properties, time_us)
    _core.configure_results(
        Applied,
        CommitSpan,
        Committed,
        Damage,
        Delivered,
        Dropped,
        Envelope,
        Loss,
        Maintained,
        MessageGroup,
        Page,
        Problem,
        QueueInfo,
        QueueReceipt,
        QuotaState,
        Receipt,
        Repair,
        RetentionClass,
        ScanStep,
        Segment,
        SlabUsage,
        Slice,
        Snapshot,
        Staged,
        StoredCursor,
        StructureUsage,
        TrimCount,
        Verification,
    )
    guard(_core)
    install()

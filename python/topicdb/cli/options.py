"""Choices of command-line options."""

from enum import Enum


class DurabilityChoice(str, Enum):
    """As ``durability`` of ``topicdb.open``."""

    NONE = "none"
    OS = "os"
    DISK = "disk"


class OnError(str, Enum):
    """What ``ingest`` does at a line that makes no message."""

    STOP = "stop"
    SKIP = "skip"

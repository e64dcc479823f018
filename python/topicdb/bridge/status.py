"""How a bridge stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """How a bridge stands; made by ``Bridge.status``. The counts begin when the bridge is made.

    Attributes:
        state: "stopped", "connecting", "connected", or "waiting" (to connect or to store again).
        received: messages that came.
        stored: messages that were stored.
        duplicates: messages that were stored already.
        refused: messages that cannot be stored.
        connections: how often it has connected.
        last_error: the text of the last error, or "".
        requests: requests for ``history`` that were answered.
        replayed: the messages of these answers.
        copies: copies of retained messages that were left out because they were stored before.
        replays: messages that were left out because a replay has published them.
        expired: messages that were left out of answers because they had expired.
        untimed: messages without a device's time that is within bounds (``timestamp=``).
        unnamed: messages that do not say which client published them, and whose topics have decided
            their shards (``shard_by="client"``).
    """

    state: str = "stopped"
    received: int = 0
    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    connections: int = 0
    last_error: str = ""
    requests: int = 0
    replayed: int = 0
    copies: int = 0
    replays: int = 0
    expired: int = 0
    untimed: int = 0
    unnamed: int = 0

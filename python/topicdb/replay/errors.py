"""Why a replay is refused, fails, or disconnects a client."""

from __future__ import annotations

from topicdb import _core


class ReplayError(_core.Error, RuntimeError):
    """A replay is refused, has failed, or has disconnected this client; a subclass says why."""

    __module__ = "topicdb"
    reason = "failed"
    """A short name of the reason, as events and ``topicdb replay status`` show it."""


class ReplayStartedError(ReplayError):
    """Another one started a replay on this endpoint, which disconnects its clients."""

    reason = "started by another"


class ReplayCancelledError(ReplayError):
    """The replay on this endpoint was cancelled."""

    reason = "cancelled"


class MessageUnavailableError(ReplayError):
    """Messages that the replay had still to read were trimmed, or dropped by their retention."""

    reason = "message unavailable"


class StartTimeUnavailableError(ReplayError):
    """The time to start from is in the future, or earlier than the oldest message of the log."""

    reason = "start time not available"


class StartMessageUnavailableError(ReplayError):
    """The message to start after is not in the log, or not any more."""

    reason = "start message unavailable"


class IdsNotComparableError(ReplayError, TypeError):
    """Message ids of different databases have no order."""

    reason = "ids not comparable"


class ReplayDisabledError(ReplayError):
    """The egress of the replay log is switched off."""

    reason = "disabled"


class NonExclusiveError(ReplayError):
    """A client may start a replay on an exclusive endpoint only."""

    reason = "non-exclusive endpoint"


class InactiveFlowError(ReplayError):
    """A client may start a replay only if it is the active one, and another is."""

    reason = "inactive flow"


class BrowserError(ReplayError):
    """Who browses an endpoint can neither start a replay nor acknowledge."""

    reason = "browser"


class TemporaryEndpointError(ReplayError):
    """Temporary endpoints have no replay."""

    reason = "temporary endpoint"


class RejectedMessageError(ReplayError):
    """A client rejected a replayed message."""

    reason = "replayed message rejected"


class LogModifiedError(ReplayError):
    """What belongs to the replay log was changed during the replay."""

    reason = "log modified"


class EndpointModifiedError(ReplayError):
    """A subscription or the selector of the endpoint was changed during the replay."""

    reason = "subscription or selector modified"


class OutOfResourcesError(ReplayError):
    """As many replays run as this log may have at once."""

    reason = "out of resources"


class StalledError(ReplayError):
    """The replay went no farther for ``stall_timeout``: no client takes the messages that wait."""

    reason = "stalled"


class EndpointDroppedError(ReplayError):
    """The endpoint was dropped."""

    reason = "endpoint dropped"

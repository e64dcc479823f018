"""The errors that say why a replay is refused, fails, or disconnects a client."""

from __future__ import annotations

from topicdb import _core


class ReplayError(_core.Error, RuntimeError):
    """A replay is refused, has failed, or has disconnected this client; the subclass says why."""

    __module__ = "topicdb"
    reason = "failed"
    """A short name of the reason, as events and ``topicdb replay status`` show it."""


class ReplayStartedError(ReplayError):
    """Somebody started a replay on this endpoint, which disconnects all other clients."""

    reason = "started by another"


class ReplayCancelledError(ReplayError):
    """The replay on this endpoint was cancelled."""

    reason = "cancelled"


class MessageUnavailableError(ReplayError):
    """Messages that the replay had still to read cannot be read.

    They were trimmed, or dropped by their retention; they are damaged, or in a generation that
    keeps no commit log.
    """

    reason = "message unavailable"


class StartTimeUnavailableError(ReplayError):
    """The time to start from is in the future, or earlier than the oldest message of the log."""

    reason = "start time not available"


class StartMessageUnavailableError(ReplayError):
    """The message to start after is not in the log, or was trimmed from it."""

    reason = "start message unavailable"


class IdsNotComparableError(ReplayError, TypeError):
    """The ids belong to messages of different databases, which have no order."""

    reason = "ids not comparable"


class ReplayDisabledError(ReplayError):
    """The egress of the replay log is switched off."""

    reason = "disabled"


class NonExclusiveError(ReplayError):
    """A client asked for a replay on an endpoint that is not exclusive."""

    reason = "non-exclusive endpoint"


class InactiveFlowError(ReplayError):
    """A client asked for a replay, but another client is the active one of the endpoint."""

    reason = "inactive flow"


class BrowserError(ReplayError):
    """A client that browses an endpoint can neither start a replay nor acknowledge."""

    reason = "browser"


class TemporaryEndpointError(ReplayError):
    """The endpoint is temporary, and its log, or who asks, can have no replay there."""

    reason = "temporary endpoint"


class RejectedMessageError(ReplayError):
    """A client rejected a replayed message."""

    reason = "replayed message rejected"


class LogModifiedError(ReplayError):
    """The filters of the replay log were changed during the replay."""

    reason = "log modified"


class EndpointModifiedError(ReplayError):
    """The subscriptions or the selector of the endpoint were changed during the replay."""

    reason = "subscription or selector modified"


class OutOfResourcesError(ReplayError):
    """The log already runs as many replays as it may have at once (``replays_max``)."""

    reason = "out of resources"


class StalledError(ReplayError):
    """The replay stood still for ``stall_timeout``, as no client took the messages that wait."""

    reason = "stalled"


class EndpointDroppedError(ReplayError):
    """The endpoint was dropped."""

    reason = "endpoint dropped"


def error_classes() -> dict[str, type[ReplayError]]:
    """Returns ReplayError and its subclasses by their names."""
    kinds: list[type[ReplayError]] = [ReplayError, *ReplayError.__subclasses__()]
    return {kind.__name__: kind for kind in kinds}

"""The errors that the core does not raise."""

from __future__ import annotations

from topicdb import _core


class AccessError(_core.Error, PermissionError):
    """A server does not let this token do what it asked for.

    The token is unknown or expired, or it has no right to do that. The text says what it may do.
    """

    __module__ = "topicdb"


class UnavailableError(_core.Error, ConnectionError):
    """A server cannot be reached, or the connection to it broke.

    If a call was on its way when the connection broke, it is not known whether it was carried out.
    """

    __module__ = "topicdb"

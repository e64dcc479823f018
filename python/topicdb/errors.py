"""Errors that the core does not raise."""

from __future__ import annotations

from topicdb import _core


class AccessError(_core.Error, PermissionError):
    """The server does not let this token do that: unknown, expired, or not allowed."""

    __module__ = "topicdb"


class UnavailableError(_core.Error, ConnectionError):
    """The server cannot be reached, or the connection to it broke."""

    __module__ = "topicdb"

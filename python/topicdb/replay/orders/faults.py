"""Errors on their way from the process that has a log open to the one that gives orders."""

from __future__ import annotations

import builtins
from typing import Any

from topicdb import _core
from topicdb.errors import AccessError
from topicdb.replay.errors import error_classes

_BUILT_IN = ("ValueError", "TypeError", "OverflowError", "ImportError", "ModuleNotFoundError")


def _known() -> dict[str, type[BaseException]]:
    ours = {
        name: value
        for name, value in vars(_core).items()
        if isinstance(value, type) and issubclass(value, _core.Error)
    }
    theirs = {name: getattr(builtins, name) for name in _BUILT_IN}
    return {**theirs, **ours, **error_classes(), "AccessError": AccessError}


_KNOWN = _known()


def packed(error: BaseException) -> dict[str, str]:
    """Returns the class and the text of an error; the class is the nearest one that is known."""
    names = (base.__name__ for base in type(error).__mro__)
    kind = next((name for name in names if name in _KNOWN), None)
    text = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    if kind is None:
        return {"kind": "Error", "text": f"the log failed: {type(error).__name__}: {text}"}
    return {"kind": kind, "text": text}


def unpacked(told: Any) -> BaseException:
    """Returns the error of which this was told, or Error if its class is unknown here."""
    kind = _KNOWN.get(str(told.get("kind")), _core.Error)
    return kind(str(told.get("text")))

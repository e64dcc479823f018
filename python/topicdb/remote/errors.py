"""Packs errors for the way from a server to its clients, and unpacks them there."""

from __future__ import annotations

import builtins
from typing import Any

from topicdb import _core
from topicdb.errors import AccessError, UnavailableError
from topicdb.follow.losses import Loss, LossError

_ATTRIBUTES = ("conflicts", "failures", "loss")
_OURS: dict[str, type[_core.Error]] = {
    **{
        name: value
        for name, value in vars(_core).items()
        if isinstance(value, type) and issubclass(value, _core.Error)
    },
    "AccessError": AccessError,
    "LossError": LossError,
    "UnavailableError": UnavailableError,
}
_BUILT_IN = ("ValueError", "TypeError", "OverflowError", "NotImplementedError", "RuntimeError")


def packed(error: BaseException) -> dict[str, Any]:
    """Returns an error as a dict that ``wire`` can encode: its class, its text and its attributes.

    The class is the nearest base class that clients know. An error that has none becomes an
    ``Error`` whose text names the class of the error.
    """
    names = (base.__name__ for base in type(error).__mro__)
    kind = next((name for name in names if name in _OURS or name in _BUILT_IN), None)
    if kind is not None:
        attributes = {name: getattr(error, name) for name in _ATTRIBUTES if hasattr(error, name)}
        return {"kind": kind, "text": str(error), "attributes": attributes}
    return {
        "kind": "Error",
        "text": f"the server failed: {type(error).__name__}: {error}",
        "attributes": {},
    }


def unpacked(value: Any) -> BaseException:
    """Returns an error of the packed class, or ``topicdb.Error`` if it is unknown here."""
    kind: type[BaseException] = _core.Error
    if value["kind"] in _OURS:
        kind = _OURS[value["kind"]]
    elif value["kind"] in _BUILT_IN:
        kind = getattr(builtins, value["kind"])
    error = kind(value["text"])
    for name, attribute in value["attributes"].items():
        if name in _ATTRIBUTES:
            setattr(error, name, Loss(*attribute) if name == "loss" else attribute)
    return error

"""Packs errors and outcomes for the way from a server to its clients, and unpacks errors there."""

from __future__ import annotations

import builtins
import json
from concurrent.futures import Future
from typing import Any

from topicdb import _core
from topicdb.errors import AccessError
from topicdb.follow.losses import Loss, LossError
from topicdb.remote.wire import encode
from topicdb.replay.errors import error_classes
from topicdb.types import Receipt

# The error of a call travels in the trailers of gRPC, some of it twice. Of 8 KiB and more a client
# sees nothing but a broken connection.
_TEXT_BYTES_MAX = 1_000
_LISTS_BYTES_MAX = 2_000

_ATTRIBUTES = ("conflicts", "failures", "loss")
_OURS: dict[str, type[_core.Error]] = {
    **{
        name: value
        for name, value in vars(_core).items()
        if isinstance(value, type) and issubclass(value, _core.Error)
    },
    **error_classes(),
    "AccessError": AccessError,
    "LossError": LossError,
}
_BUILT_IN = (
    "ValueError",
    "TypeError",
    "OverflowError",
    "NotImplementedError",
    "RuntimeError",
    "ImportError",
)


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


def short(value: dict[str, Any]) -> dict[str, Any]:
    """Returns a packed error that is small enough for the trailers of a call.

    Its text is cut, and its lists end early, before the first item that is too large.
    """
    attributes: dict[str, Any] = {}
    room = _LISTS_BYTES_MAX
    for name, attribute in value["attributes"].items():
        kept = attribute if name == "loss" else _first_of(attribute, room)
        size = len(encode(kept))
        if size <= room:
            attributes[name] = kept
            room -= size
    return {"kind": value["kind"], "text": _cut(value["text"]), "attributes": attributes}


def _cut(text: str) -> str:
    cut = text
    while (size := len(json.dumps(cut))) > _TEXT_BYTES_MAX:
        cut = cut[: len(cut) * _TEXT_BYTES_MAX // size]
    return text if len(cut) == len(text) else f"{cut}…"


def _first_of(items: Any, room: int) -> list[Any]:
    """Returns the first items, as many as have ``room`` bytes together."""
    kept: list[Any] = []
    for item in items:
        if len(encode([*kept, item])) > room:
            break
        kept.append(item)
    return kept


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


def outcome_of(begun: Future[Receipt] | Exception) -> Receipt | BaseException:
    """Waits for what was begun, and returns the error or the receipt."""
    if isinstance(begun, Exception):
        return begun
    error = begun.exception()
    return begun.result() if error is None else error


def told(number: int, outcome: Receipt | BaseException) -> tuple[int, bool, Any]:
    """Returns what travels of an outcome: its number, whether it is an error, and the outcome."""
    if isinstance(outcome, BaseException):
        return number, True, packed(outcome)
    return number, False, outcome

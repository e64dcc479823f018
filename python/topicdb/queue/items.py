"""Items on their way into a queue: what an append is given, in the form that the core takes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from topicdb.queue.codecs import Codec, CodecError

Sizer: TypeAlias = "Callable[[Any], int]"
"""Returns what an item counts for the limits of a queue: an int from 0 on."""

WEIGHT_MAX = 1 << 40
ONE_ITEM = (bytes, bytearray, memoryview, str, Mapping)


class Packing:
    """Turns the items of appends into what the core takes, with the options of one queue.

    The queue owns it. Immutable; any thread that appends calls it.
    """

    def __init__(self, codec: Codec | None, sizer: Sizer | None) -> None:
        """Raises TypeError if ``sizer`` cannot be called."""
        if sizer is not None and not callable(sizer):
            raise TypeError(f"sizer: expected a function or None, got {type(sizer).__name__}")
        self._codec = codec
        self._sizer = sizer

    @property
    def weighs(self) -> bool:
        """Whether each item has a weight: what it counts for the limits."""
        return self._sizer is not None

    def pack(self, items: Iterable[Any]) -> tuple[Iterable[Any], list[int] | None]:
        """Returns the bytes of the items, and the weight of each; None if they have none.

        Raises TypeError, ValueError or CodecError, naming the item, and what the sizer raises.
        """
        if self._sizer is None and self._codec is None:
            return items, None
        if isinstance(items, ONE_ITEM):
            raise TypeError(
                f"items: expected a list of items, got one {type(items).__name__}; write [item]"
            )
        held = tuple(items)  # an iterator gives them once
        weights = None
        if self._sizer is not None:
            weights = [_weight(self._sizer(item), number) for number, item in enumerate(held)]
        if self._codec is None:
            return held, weights
        return [_encoded(self._codec, item, number) for number, item in enumerate(held)], weights


def _encoded(codec: Codec, item: Any, number: int) -> Any:
    try:
        data = codec.encode(item)
    except Exception as error:
        raise CodecError(
            f"item {number}: the codec cannot encode it: {type(error).__name__}: {error}; nothing "
            "was appended"
        ) from error
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CodecError(
            f"item {number}: the codec made {type(data).__name__} of it, not bytes; nothing was "
            "appended"
        )
    return data


def _weight(size: Any, number: int) -> int:
    try:
        weight = operator.index(size)
    except TypeError:
        raise TypeError(
            f"item {number}: the sizer returned {size!r}, which is no int; nothing was appended"
        ) from None
    if not 0 <= weight <= WEIGHT_MAX:
        raise ValueError(
            f"item {number}: the sizer returned {weight}, expected 0 to 2**40; nothing was appended"
        )
    return weight

"""Codecs of queues: they turn what is appended into bytes, and bytes into what is popped."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from topicdb import _core

if TYPE_CHECKING:
    from topicdb.queue.consumer import Ref
    from topicdb.types import BytesLike


class Codec(Protocol):
    """Turns items into bytes and back. Any thread that appends or pops calls it."""

    def encode(self, item: Any, /) -> BytesLike:
        """Returns the bytes to store. What it raises lets the append fail."""

    def decode(self, data: bytes, /) -> Any:
        """Returns the item. What it raises comes to the caller of ``pop`` as CodecError."""


CodecLike: TypeAlias = (
    "Codec | tuple[Callable[[Any], BytesLike], Callable[[bytes], Any]] | Literal['json']"
)
"""A Codec, a pair of functions (encode, decode), or the name of a codec."""


class CodecError(_core.Error, ValueError):
    """The codec of a queue cannot encode or decode an item.

    Attributes:
        data: the bytes that it cannot decode; None if an append failed.
        ref: the item, which is in flight: ``ack`` removes it, ``nack`` gives it back. None if an
            append or ``peek`` failed.
    """

    __module__ = "topicdb"
    data: bytes | None = None
    ref: Ref | None = None


class _Json:
    """Stores items as JSON in UTF-8."""

    def encode(self, item: Any) -> bytes:
        text = json.dumps(item, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()

    def decode(self, data: bytes) -> Any:
        return json.loads(data.decode())


class _Pair(NamedTuple):
    """Two functions as a codec."""

    encode: Callable[[Any], BytesLike]
    decode: Callable[[bytes], Any]


_BY_NAME: dict[str, Codec] = {"json": _Json()}


def codec_of(codec: CodecLike | None) -> Codec | None:
    """Returns the codec that a user means.

    Raises ValueError for an unknown name, and TypeError for what is no codec.
    """
    if codec is None:
        return None
    if isinstance(codec, str):
        return _named(codec)
    found: Any = _Pair(*codec) if isinstance(codec, tuple) and len(codec) == 2 else codec
    if not all(callable(getattr(found, name, None)) for name in ("encode", "decode")):
        raise TypeError(
            "codec: expected a name, a pair of functions (encode, decode), or an object with these "
            f"methods, got {type(codec).__name__}"
        )
    chosen: Codec = found
    return chosen


def _named(name: str) -> Codec:
    if name == "pickle":
        raise ValueError(
            "codec: 'pickle' is none, as unpickling runs code that whoever can write the files has "
            "chosen; where only your own programs can, give (pickle.dumps, pickle.loads)"
        )
    if name not in _BY_NAME:
        raise ValueError(f"codec: expected one of {sorted(_BY_NAME)}, got {name!r}")
    return _BY_NAME[name]


class Decoding:
    """Decodes the items of one pop, in their order, where the core asks whether to stop before one.

    So what cannot be decoded ends a pop as a limit does: items before it are popped, and those
    behind it stay in the queue. If it comes first, it is popped alone, and ``failed`` is set. The
    call of ``pop`` owns it. The core calls it without holding a lock.
    """

    def __init__(self, codec: Codec, stop_before: Callable[[Any], bool] | None) -> None:
        self._codec = codec
        self._stop_before = stop_before
        self.items: list[Any] = []
        self.failed: Exception | None = None

    def __call__(self, data: bytes) -> bool:
        """Returns whether to stop before this item, which is not popped then."""
        if self.failed is not None:
            return True
        try:
            item = self._codec.decode(data)
        except Exception as error:
            if not self.items:
                self.failed = error
            return bool(self.items)
        if self._stop_before is not None and self._stop_before(item):
            return True
        self.items.append(item)
        return False


def decoded(codec: Codec | None, data: bytes) -> Any:
    """Returns an item that stays where it is. Raises CodecError."""
    if codec is None:
        return data
    try:
        return codec.decode(data)
    except Exception as error:
        raise undecodable("the next item", data, error) from error


def undecodable(item: str, data: bytes, error: Exception, ref: Ref | None = None) -> CodecError:
    """Returns the error that the codec cannot decode an item."""
    advice = "" if ref is None else "; ack(error.ref) removes it, nack(error.ref) gives it back"
    found = CodecError(
        f"{item}: the codec cannot decode its {len(data)} bytes: "
        f"{type(error).__name__}: {error}{advice}"
    )
    found.data, found.ref = data, ref
    return found

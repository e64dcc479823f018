"""Persistent maps: a dict whose changes are committed to the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

from topicdb import _core
from topicdb.arguments.wrong_types import wrong_type
from topicdb.closing import first_error
from topicdb.engine import Engine, TransactionEngine
from topicdb.transaction import Transaction, begun
from topicdb.types import Receipt

if TYPE_CHECKING:
    from topicdb.types import Durability

Value = TypeVar("Value")

_GONE: Any = object()
_ESCAPES = str.maketrans({c: f"%{ord(c):02X}" for c in "%/+#\0"})


def escape(name: str) -> str:
    """Returns ``name`` as one level of a topic.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(name, str):
        raise wrong_type("name", "str", name)
    return name.translate(_ESCAPES)


def unescape(level: str) -> str:
    """Returns the name that ``escape`` has turned into ``level``."""
    return unquote(level)


class Codec(NamedTuple, Generic[Value]):
    """How the values of a map become bytes, and bytes become values."""

    encode: Callable[[Value], bytes]
    decode: Callable[[bytes], Value]


def _to_bytes(value: Any) -> bytes:
    return bytes(memoryview(value))


RAW: Codec[bytes] = Codec(_to_bytes, bytes)


class Map(MutableMapping[str, Value]):
    """A persistent dict of str to bytes, or what a codec makes of them; made by ``Database.map``.

    The whole map is read into memory when it is opened. Changes are seen here at once. ``commit``
    stores them in one transaction, which writes the keys that were changed and nothing else. Values
    are immutable: to change one, assign it anew.

    A map has one owner. Each commit checks that this object still is the owner. Once another one
    has taken the map over, commits raise ConflictError and store nothing. ``close`` gives the map
    up; the end of ``with`` commits and then closes. Not thread-safe.

    Example:
        >>> with db.map("settings") as settings:
        ...     settings["unit"] = b"bar"
        >>> with db.map("settings") as settings:
        ...     dict(settings)
        {'unit': b'bar'}
    """

    def __init__(
        self, core: Engine, name: str, codec: Codec[Value], durability: Durability | None
    ) -> None:
        escaped = escape(name)
        _core.check_topic(f"$topicdb/map/{escaped}/")
        self._core = core
        self._name = name
        self._codec = codec
        self._durability = durability
        self._shard = _core.shard_of(f"$topicdb/map/{escaped}", core.schema["shards"])
        self._prefix = f"$topicdb/map/{escaped}/"
        self._guard = f"$topicdb/owner/{escaped}"
        self._owner: bytes | None = None  # the value of the guard while this object is the owner
        self._values: dict[str, Value] = {}
        self._changed: set[str] = set()

    def _begun(self) -> AbstractContextManager[TransactionEngine]:
        return begun(self._core, self._shard, self._durability)

    def _open(self, *, takeover: bool) -> None:
        """Takes the map over and reads it, in one transaction."""
        with self._begun() as transaction:
            if not takeover and transaction.get(self._guard, 0) is not None:
                raise _core.ConflictError(
                    f"map {self._name!r} has an owner that has not closed it: another handle, or a "
                    "process that was killed; takeover=True takes it"
                )
            self._values = self._read(transaction)
            transaction.write(self._guard, 0, None, reserved=True)
            receipt = transaction.commit()
        self._owner = receipt.serials[self._shard].to_bytes(8, "big")

    def _read(self, transaction: TransactionEngine) -> dict[str, Value]:
        scan = transaction.scan(f"{self._prefix}+", None, None)
        values: dict[str, Value] = {}
        while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
            for topic, _, value in batch:
                values[unescape(topic[len(self._prefix) :])] = self._codec.decode(value)
        return dict(sorted(values.items()))

    @property
    def name(self) -> str:
        """The name of the map."""
        return self._name

    @property
    def changed(self) -> frozenset[str]:
        """Keys that were set or deleted since the last commit."""
        return frozenset(self._changed)

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __setitem__(self, key: str, value: Value) -> None:
        self._check_owned()
        if not isinstance(key, str):
            raise TypeError(f"key: expected str, got {type(key).__name__}")
        _core.check_topic(self._topic_of(key))
        self._codec.encode(value)  # raises for a value that cannot be stored
        self._values[key] = value
        self._changed.add(key)

    def __delitem__(self, key: str) -> None:
        self._check_owned()
        del self._values[key]
        self._changed.add(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def commit(self, transaction: Transaction | None = None) -> Receipt | None:
        """Stores the changed keys.

        Arguments:
            transaction: stores the changes as a part of this transaction, which must be one of the
                map's shard (``db.transaction(shard=map.shard)``). They are stored when it commits;
                if it does not commit, the keys still count as changed. Its commit raises
                PreconditionError if the map has another owner by then.

        Returns:
            The receipt; None if nothing was changed, or with a ``transaction``.

        Raises:
            ConflictError: the map was closed or has another owner by now; this object is of no more
                use then.
            ValueError: the transaction is on another shard.
        """
        self._check_owned()
        if transaction is not None:
            if transaction.shard != self._shard:
                raise ValueError(
                    f"map {self._name!r} is in shard {self._shard}, the transaction in shard "
                    f"{transaction.shard}: begin it with shard=map.shard"
                )
            self._write(transaction._core)
            pending = {key: self._values.get(key, _GONE) for key in self._changed}
            transaction.on_commit(lambda: self._forget_changes(pending))
            return None
        if not self._changed:
            return None
        try:
            with self._begun() as own:
                self._write(own)
                receipt = own.commit()
        except (_core.PreconditionError, _core.ConflictError):
            self._owner = None
            raise self._lost() from None
        self._changed.clear()
        return receipt

    def _forget_changes(self, stored: dict[str, object]) -> None:
        """Marks as stored the keys that still have the value that was stored, others as changed.

        A key may have got another value meanwhile, and that may have been stored before.
        """
        for key, value in stored.items():
            if self._values.get(key, _GONE) is value:
                self._changed.discard(key)
            else:
                self._changed.add(key)

    @property
    def shard(self) -> int:
        """The shard in which the map is stored."""
        return self._shard

    def close(self) -> None:
        """Gives the map up without storing uncommitted changes. May be repeated."""
        if self._owner is None:
            return
        owner, self._owner = self._owner, None
        # These errors say that the map has another owner by now.
        with suppress(_core.PreconditionError, _core.ConflictError), self._begun() as transaction:
            transaction.require(self._guard, 0, owner)
            transaction.delete(self._guard, 0, 1, reserved=True)
            transaction.commit()

    def _write(self, transaction: TransactionEngine) -> None:
        transaction.require(self._guard, 0, self._owner)
        for key in sorted(self._changed):
            if key in self._values:
                encoded = self._codec.encode(self._values[key])
                transaction.write(self._topic_of(key), 0, encoded, reserved=True)
            else:
                transaction.delete(self._topic_of(key), 0, 1, reserved=True)

    def _topic_of(self, key: str) -> str:
        return self._prefix + escape(key)

    def _check_owned(self) -> None:
        if self._owner is None:
            raise self._lost()

    def _lost(self) -> _core.Error:
        return _core.ConflictError(
            f"map {self._name!r} is not this object's any more: it was closed or taken over"
        )

    def __enter__(self) -> Map[Value]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        try:
            if kind is None and (self._owner is not None or self._changed):
                self.commit()
        except BaseException as failed:
            error = failed
            raise
        finally:
            with first_error(error):
                self.close()
        return False

    def __repr__(self) -> str:
        return f"<topicdb.Map {self._name!r} of {len(self)} keys>"

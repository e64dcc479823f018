"""The methods of a Database that write messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, overload

from topicdb import _core
from topicdb.arguments import check_id, has_arrow
from topicdb.database.clocks import tell_of_clock
from topicdb.engine import AppendQueue, Engine
from topicdb.filters import one_filter
from topicdb.map import RAW, Codec, Map
from topicdb.times import TimeLike, time_range_us
from topicdb.transaction import Transaction, transact
from topicdb.types import ArrowArray, ArrowStream, Durability, Receipt, Row

Result = TypeVar("Result")
Value = TypeVar("Value")


class Writing:
    """Methods of Database, for its engine (``_core``) and its queue of appends (``_appends``)."""

    _core: Engine
    _appends: AppendQueue

    def append(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Stores messages: all or none of them in each shard, in the order given.

        ``messages``: (topic, timestamp, value) tuples, or Arrow data with the columns ``topic``
        (strings), ``timestamp`` (timestamp with any unit and a zone, or int64 µs; may be null) and
        ``value`` (binary or strings); without a timestamp column all are None. Arrow's strings and
        binary may come in any encoding: views as polars has them, dictionaries, run ends, large
        and fixed size. A timestamp of None is assigned at commit: unique and increasing within a
        shard, also if the clock was set back, of which the log is told then. Values are bytes-like.

        Readers see the values that are given. ``raw``: values are as ``scan(raw=True)`` gives them,
        or ``topicdb.replay.Envelope.encode``: those that are envelopes have properties.

        ``id``: for who may have to append the same once more, as it got no answer. Each shard
        remembers the last 65,536 appends with an id, on disk and with their messages. The same
        messages with the same id are stored only where they are not stored yet, and the receipt is
        that of the first append, with ``repeated`` if there was nothing to store. Text of up to 255
        bytes that nobody else uses, such as ``str(uuid.uuid4())``.

        Raises TopicError, ValueError or TypeError for a bad row, naming it; then nothing is
        written. ValueError: the id was used for other messages. ReadOnlyError, ClosedError,
        ForkedError, StorageError (what happened on disk).
        """
        if id is not None:
            check_id(id)
        if has_arrow(messages):
            receipt = self._core.append_arrow(messages, durability, not raw, id)
        else:
            receipt = self._core.append_rows(messages, durability, not raw, id)
        tell_of_clock(self._core)
        return receipt

    def find_append(self, id: str) -> Receipt | None:
        """The receipt of the append that had this ``id``; None if no shard remembers it.

        ``serials``: of the shards that have it, ``count``: of all of its messages. ReadOnlyError:
        only a handle that writes knows.
        """
        check_id(id)
        return self._core.find_append(id)

    def append_async(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Future[Receipt]:
        """As ``append``, but returns once the messages are copied and queued.

        They gather with other appends of a few milliseconds (``flush_interval``), so that many
        small ones cost little. Appends of one thread are stored in their order. Bad rows raise
        here; what happens later is in the future, which cannot be cancelled. While ``max_pending``
        appends wait, it waits too. ``close`` finishes what is queued.
        """
        if id is not None:
            check_id(id)
        tell_of_clock(self._core)
        return self._appends.start(messages, durability, escapes=not raw, id=id)

    async def append_await(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """As ``append``, for asyncio. A task that is cancelled does not take its messages back."""
        future = self.append_async(messages, durability=durability, raw=raw, id=id)
        return await asyncio.wrap_future(future)

    def delete(
        self,
        filter: str,
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        durability: Durability | None = None,
    ) -> Receipt:
        """Removes what matches in ``start`` <= timestamp < ``end``, from all generations.

        In each shard it is one commit: readers see all of it or nothing. Any number of messages is
        removed in bounded memory, and ``count`` of the receipt says how many. The disk space comes
        back as files are compacted; ``drop_slab`` is faster where it will do.
        """
        one_filter(filter)
        return self._core.delete(filter, *time_range_us(start, end), durability)

    def transaction(
        self,
        *,
        key: str | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
    ) -> Transaction:
        """Begins a transaction on the shard of ``key``, or on ``shard``. Use it in ``with``.

        ``generation``: reads, deletes and writes only there; otherwise it reads and deletes in all
        and writes to the current one. Raises ValueError for a shard that is not there,
        NotFoundError for such a generation, ReadOnlyError if the shard is not open for writing.

        >>> with db.transaction(key="client-7") as tx:              # doctest: +SKIP
        ...     n = int(tx.get("sessions/client-7/visits") or 0)
        ...     tx.write("sessions/client-7/visits", 0, str(n + 1).encode())
        """
        home = _shard(self._core.schema["shards"], key, shard)
        return Transaction(self._core.begin(home, generation, durability))

    def transact(
        self,
        function: Callable[[Transaction], Result],
        *,
        key: str | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
        retries: int = 10,
    ) -> Result:
        """Runs ``function(tx)`` in a transaction and returns its result.

        After a ConflictError it is run again, at most ``retries`` times, with a growing random
        pause; so it should change nothing but the transaction (see ``Transaction.on_commit``).
        """
        begin = partial(
            self.transaction, key=key, shard=shard, generation=generation, durability=durability
        )
        return transact(begin, function, retries=retries)

    @overload
    def map(
        self, name: str, *, takeover: bool = False, durability: Durability | None = None
    ) -> Map[bytes]: ...
    @overload
    def map(
        self,
        name: str,
        *,
        codec: tuple[Callable[[Value], bytes], Callable[[bytes], Value]],
        takeover: bool = False,
        durability: Durability | None = None,
    ) -> Map[Value]: ...
    def map(
        self,
        name: str,
        *,
        codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]] = RAW,
        takeover: bool = False,
        durability: Durability | None = None,
    ) -> Map[Any]:
        """Opens the persistent map ``name``, a dict of str to bytes; makes it if need be.

        ``codec``: (encode, decode) between values and bytes. ConflictError: the map has an owner
        that has not closed it; ``takeover=True`` takes it from there. See ``Map``.
        """
        opened: Map[Any] = Map(self._core, name, Codec(*codec), durability)
        opened._open(takeover=takeover)
        return opened


def _shard(shards: int, key: str | None, shard: int | None) -> int:
    if key is not None and shard is not None:
        raise ValueError("a transaction takes key= or shard=, not both")
    if key is not None:
        return _core.shard_of(key, shards)
    if shard is None and shards > 1:
        raise ValueError(f"key= or shard= is needed: the database has {shards} shards")
    return shard or 0

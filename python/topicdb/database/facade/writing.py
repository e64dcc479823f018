"""The methods of a Database that write messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, overload

from topicdb import _core
from topicdb.arguments.filters import one_filter
from topicdb.arguments.times import TimeLike, time_range_us, timeout_us
from topicdb.arguments.wrong_types import check_id, has_arrow
from topicdb.database.clocks import tell_of_clock
from topicdb.engine import AppendQueue, Engine
from topicdb.map import RAW, Codec, Map
from topicdb.transaction import Transaction, transact
from topicdb.types import ArrowArray, ArrowStream, Durability, Key, Keys, Receipt, Row

Result = TypeVar("Result")
Value = TypeVar("Value")


class Writing:
    """Methods of Database that use its engine (``_core``) and its appends (``_appends``)."""

    _core: Engine
    _appends: AppendQueue

    def append(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        key: Keys | None = None,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Stores messages: all or none of them in each shard, in the order given.

        - ``messages``: (topic, timestamp, value) tuples, or Arrow data with the columns ``topic``
          (strings), ``timestamp`` (timestamp with any unit and a zone, or int64 µs; may be null),
          ``value`` (binary or strings) and perhaps ``key`` (the same; may be null), and no others;
          without a timestamp column all are None. Arrow's strings and binary may come in any
          encoding: views as polars has them, dictionaries, run ends, large and fixed size. A
          timestamp of None is assigned at commit: unique and increasing within a shard, even if the
          clock was set back, of which the log is told then. Values are bytes-like.
        - ``key``: in a database with ``shard_by="key"``, what decides the shard: one key (text or
          bytes) for all messages, or an iterable with a key or None for each. Messages of a key
          are in one shard, in their order. One without a key goes to the shard of its topic. Keys
          are not stored.
        - ``durability``: what the append survives before it returns; None: the default of ``open``.
        - ``raw``: values are as ``scan(raw=True)`` gives them, or
          ``topicdb.replay.Envelope.encode``: those that are envelopes have properties. By default
          readers see the values that are given.
        - ``id``: makes the append safe to repeat, for a caller that got no answer. Text of at most
          255 bytes that nobody else uses, such as ``str(uuid.uuid4())``. Each shard remembers the
          last 65,536 appends with an id, on disk and with their messages. The same messages with
          the same id are stored only where they are not stored yet.

        Returns the receipt. For a repeated ``id`` it is that of the first append, with ``repeated``
        if there was nothing to store.

        Raises TopicError, ValueError or TypeError for a bad row, naming it; then nothing is
        written. Raises SchemaError for keys where the database shards by topic; ValueError if the
        id was used for other messages or keys; QuotaError, ReadOnlyError, ClosedError, ForkedError,
        or StorageError (what happened on disk).

        >>> receipt = db.append([("metrics/h1/cpu", None, b"42")])  # doctest: +SKIP
        >>> receipt.serials, receipt.count                          # doctest: +SKIP
        ({0: 1}, 1)
        """
        if id is not None:
            check_id(id)
        if has_arrow(messages):
            receipt = self._core.append_arrow(messages, durability, not raw, id, key)
        else:
            receipt = self._core.append_rows(messages, durability, not raw, id, key)
        tell_of_clock(self._core)
        return receipt

    def find_append(self, id: str) -> Receipt | None:
        """Returns the receipt of the append that had this ``id``; None if no shard remembers it.

        ``serials`` has the shards that remember it, ``count`` is the number of all of its messages.
        Raises ReadOnlyError in a handle that only reads, which does not know this.
        """
        check_id(id)
        return self._core.find_append(id)

    def append_async(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        key: Keys | None = None,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Future[Receipt]:
        """Queues an append and returns a future; otherwise like ``append``.

        It returns once the messages are copied and queued. They gather with other appends of a few
        milliseconds (``flush_interval``), so that many small ones cost little. Appends of one
        thread are stored in their order. While ``max_pending`` commits wait in a shard, this call
        waits. ``close`` finishes what is queued.

        Raises errors about bad rows here. Later errors are in the future, which cannot be
        cancelled.

        >>> future = db.append_async([("metrics/h1/cpu", None, b"42")])     # doctest: +SKIP
        >>> future.result().durability                                      # doctest: +SKIP
        'os'
        """
        if id is not None:
            check_id(id)
        tell_of_clock(self._core)
        return self._appends.start(messages, durability, escapes=not raw, id=id, key=key)

    async def append_await(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        key: Keys | None = None,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Appends like ``append_async``, for asyncio, and returns the receipt.

        A task that is cancelled does not take its messages back.
        """
        future = self.append_async(messages, key=key, durability=durability, raw=raw, id=id)
        return await asyncio.wrap_future(future)

    def delete(
        self,
        filter: str,
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        durability: Durability | None = None,
    ) -> Receipt:
        """Removes the messages that match in ``start`` <= timestamp < ``end``.

        It removes them from all generations. It is one commit in each shard: readers see all of it
        or nothing. It removes any number of messages in bounded memory. The disk space is freed as
        files are compacted; ``drop_slab`` is faster where it will do.

        Returns the receipt; its ``count`` says how many messages were removed.
        """
        one_filter(filter)
        return self._core.delete(filter, *time_range_us(start, end), durability)

    def transaction(
        self,
        *,
        key: Key | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
        commit_timeout: float | timedelta | None = None,
    ) -> Transaction:
        """Begins a transaction on the shard of ``key``, or on ``shard``. Use it in ``with``.

        - ``key``: text or bytes, such as a topic or a client; the same key always means the same
          shard. It is that of ``append(…, key=key)``, and of messages with this topic that have no
          key.
        - ``shard``: the number of a shard. One of both is needed unless there is only one shard.
        - ``generation``: reads, deletes and writes only there. By default the transaction reads and
          deletes in all generations and writes to the current one.
        - ``durability``: of its commit; None: the default of ``open``.
        - ``commit_timeout``: the most seconds that its commit may take, also at the end of
          ``with``; see ``Transaction.commit``. None: as long as it takes.

        Raises ValueError for an unknown shard, NotFoundError for an unknown generation,
        ReadOnlyError if the shard is not open for writing.

        >>> with db.transaction(key="client-7") as tx:              # doctest: +SKIP
        ...     n = int(tx.get("sessions/client-7/visits") or 0)
        ...     tx.write("sessions/client-7/visits", 0, str(n + 1).encode())
        """
        home = _shard(self._core.schema["shards"], key, shard)
        limit_us = timeout_us(commit_timeout, what="commit_timeout")
        core = self._core.begin(home, generation, durability)
        return Transaction(core, self._appends, limit_us)

    def transact(
        self,
        function: Callable[[Transaction], Result],
        *,
        key: Key | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
        retries: int = 10,
        commit_timeout: float | timedelta | None = None,
    ) -> Result:
        """Runs ``function(tx)`` in a transaction, commits, and returns the function's result.

        After a ConflictError it runs ``function`` again, at most ``retries`` times, with a growing
        random pause. So the function should change nothing but the transaction (see
        ``Transaction.on_commit``). The other arguments are those of ``transaction``.

        Raises ConflictError if the last attempt had a conflict too, and whatever ``function`` and
        ``Transaction.commit`` raise. A CommitTimeoutError ends it: an attempt more could store
        everything twice.
        """
        begin = partial(
            self.transaction,
            key=key,
            shard=shard,
            generation=generation,
            durability=durability,
            commit_timeout=commit_timeout,
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
        """Opens the persistent map ``name``, a dict of str to bytes; see ``Map``.

        A map that does not exist is created.

        - ``codec``: (encode, decode) between values and bytes.
        - ``takeover``: takes the map from its owner.
        - ``durability``: of its commits; None: the default of ``open``.

        Raises ConflictError if the map has an owner that has not closed it, unless ``takeover``.
        """
        opened: Map[Any] = Map(self._core, name, Codec(*codec), durability)
        opened._open(takeover=takeover)
        return opened


def _shard(shards: int, key: Key | None, shard: int | None) -> int:
    if key is not None and shard is not None:
        raise ValueError("a transaction takes key= or shard=, not both")
    if key is not None:
        return _core.shard_of_key(key, shards)
    if shard is None and shards > 1:
        raise ValueError(f"key= or shard= is needed: the database has {shards} shards")
    return shard or 0

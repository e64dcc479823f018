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
        """Stores messages: in each shard all of them or none, in the order given.

        Arguments:
            messages: (topic, timestamp, value) tuples, or Arrow data. Values are bytes-like. A
                timestamp is any form that ``scan`` takes for ``start``; None is assigned at commit,
                unique and increasing within a shard, even if the clock was set back. Arrow data has
                the columns ``topic`` (strings), ``timestamp`` (with a zone and any unit, or int64
                µs; null: assigned), ``value`` (binary or strings) and perhaps ``key``, and no
                others; without the column ``timestamp`` all are assigned. Strings and binary may
                have any of Arrow's encodings.
            key: in a database with ``shard_by="key"``, what decides the shard: one key (text or
                bytes) for all messages, or an iterable with a key or None for each. Messages with
                one key are in one shard, in their order. A message without a key goes to the shard
                of its topic. Keys are not stored.
            durability: what the append survives before it returns: ``"none"``, ``"os"`` or
                ``"disk"``. None: the default of ``open``.
            raw: takes values as ``scan(raw=True)`` gives them or ``topicdb.replay.Envelope.encode``
                makes them: those that are envelopes have properties. By default, readers see the
                bytes that you give.
            id: makes the append safe to repeat, for a caller that got no answer. Text of at most
                255 bytes that nobody else uses, such as ``str(uuid.uuid4())``. Each shard remembers
                the last 65,536 appends with an id, on disk and with their messages. If you repeat
                the messages with the same id, only those are stored that are not stored yet.

        Returns:
            The receipt: serials, count and durability. For a repeated ``id`` it is that of the
            first append, with ``repeated`` if there was nothing to store.

        Raises:
            TopicError, ValueError, TypeError: a row is malformed, and the text names it; nothing is
                stored. ValueError also if the id was used for other messages or keys.
            SchemaError: there are keys, but the database shards by topic.
            QuotaError: the quota is reached.
            ReadOnlyError, ClosedError, ForkedError: this handle cannot write.
            StorageError: the file system failed; the text says what is on disk.

        Example:
            >>> receipt = db.append([("metrics/h1/cpu", None, b"42")])
            >>> receipt.count, receipt.durability
            (1, 'os')
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
        """Returns the receipt of the append that had this ``id``.

        Arguments:
            id: as it was given to ``append``.

        Returns:
            The receipt, or None if no shard remembers the id. Its ``serials`` name the shards that
            remember the append; its ``count`` is the number of all its messages.

        Raises:
            ReadOnlyError: this handle only reads, and then it does not know ids.

        Example:
            >>> db.append([("metrics/h1/cpu", None, b"42")], id="upload-7").count
            1
            >>> db.find_append("upload-7").count
            1
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

        Arguments:
            messages: as in ``append``.
            key: as in ``append``.
            durability: as in ``append``.
            raw: as in ``append``.
            id: as in ``append``.

        Returns:
            A future with the receipt or the error. It cannot be cancelled.

        Raises:
            TopicError, ValueError, TypeError: a row is malformed. The future has all other errors.

        Example:
            >>> future = db.append_async([("metrics/h1/cpu", None, b"42")])
            >>> future.result().durability
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

        Arguments:
            messages: as in ``append``.
            key: as in ``append``.
            durability: as in ``append``.
            raw: as in ``append``.
            id: as in ``append``.

        Returns:
            The receipt.

        Raises:
            Error, ValueError, TypeError: as ``append``.
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

        It removes them from all generations, in one commit of each shard: readers see all of a
        commit or nothing. It takes bounded memory for any number of messages. Files give the disk
        space back as they are compacted; ``drop_slab`` is faster where a whole slab may go.

        Arguments:
            filter: one topic filter.
            start: the first timestamp, as in ``scan``; None: no bound.
            end: the timestamp behind the last one; None: no bound.
            durability: as in ``append``.

        Returns:
            The receipt; its ``count`` says how many messages were removed.

        Raises:
            TopicError, ValueError: a bad filter or time.
            ReadOnlyError: this handle only reads.

        Example:
            >>> db.delete("metrics/#", end="2026-01-01T00:00:00Z").count
            0
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

        Arguments:
            key: text or bytes, such as a topic or a client; the same key always means the same
                shard. That is the shard of ``append(…, key=key)``, and of messages with this topic
                and no key.
            shard: the number of a shard. Give ``key`` or ``shard``, unless there is only one shard.
            generation: reads, deletes and writes only there. By default the transaction reads and
                deletes in all generations and writes to the current one.
            durability: of its commit, as in ``append``.
            commit_timeout: the most seconds that its commit may take, also at the end of ``with``;
                see ``Transaction.commit``. None: any time.

        Returns:
            The transaction, which is open.

        Raises:
            ValueError: there is no such shard, or neither ``key`` nor ``shard`` was given.
            NotFoundError: there is no such generation.
            ReadOnlyError: the shard is not open for writing.

        Example:
            >>> with db.transaction(key="client-7") as tx:
            ...     n = int(tx.get("visits/client-7", 0) or 0)
            ...     tx.write("visits/client-7", 0, str(n + 1).encode())
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

        After a ConflictError it runs ``function`` again with a growing random pause. So the
        function should change nothing but the transaction (see ``Transaction.on_commit``).

        Arguments:
            function: is called with the open transaction.
            key: as in ``transaction``.
            shard: as in ``transaction``.
            generation: as in ``transaction``.
            durability: as in ``transaction``.
            retries: how often it runs ``function`` again, at most.
            commit_timeout: as in ``transaction``.

        Returns:
            What ``function`` returned in the attempt that committed.

        Raises:
            ConflictError: the last attempt had a conflict, too.
            CommitTimeoutError: a commit took too long. It is not repeated, since that could store
                everything twice. What ``function`` and ``Transaction.commit`` raise also ends the
                call.

        Example:
            >>> db.transact(lambda tx: tx.write("mode/h1", 0, b"auto"), key="mode/h1")
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

        Arguments:
            name: the name of the map.
            codec: (encode, decode) between your values and bytes.
            takeover: takes the map from its owner.
            durability: of its commits; None: the default of ``open``.

        Returns:
            The map. It has an owner until you close it.

        Raises:
            ConflictError: the map has an owner that has not closed it, unless ``takeover``.

        Example:
            >>> with db.map("settings") as settings:
            ...     settings["h1/limit"] = b"80"
            ...     settings["h1/limit"]
            b'80'
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

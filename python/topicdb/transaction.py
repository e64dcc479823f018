"""Transactions: several reads, writes and deletes in one shard, as if nothing else happened."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeVar, final

from topicdb import _core
from topicdb.arguments.filters import one_filter
from topicdb.arguments.forms import form_of
from topicdb.arguments.times import TimeLike, optional_time_us, time_range_us, time_us, timeout_us
from topicdb.cursor.scan import Scan
from topicdb.engine import AppendQueue, Engine, TransactionEngine
from topicdb.errors import CommitTimeoutError
from topicdb.frames.shown import call_text
from topicdb.types import CommitKnown, Receipt

if TYPE_CHECKING:
    from datetime import timedelta

    from topicdb.types import BytesLike, Durability

_logger = logging.getLogger(__name__)
Result = TypeVar("Result")
BACKOFF_FIRST_S = 0.001
BACKOFF_MAX_S = 0.1
SLICE_S = 0.5  # how often a thread that waits looks for signals, such as that of Ctrl-C
# A commit that raises one of these has stored nothing.
_REFUSED = (
    _core.ConflictError,
    _core.PreconditionError,
    _core.QuotaError,
    _core.ReadOnlyError,
    _core.ClosedError,
)
_SAID: dict[CommitKnown, str] = {
    "not stored": "it was withdrawn before it was applied, and nothing is stored: run it again",
    "unknown": "whether it is stored is not known yet: the future `outcome` of this error tells",
    "stored": "it is stored, but not as durable yet as it asks: the future `outcome` of this error "
    "tells when it is",
}


@final
class SerialType:
    """The type of ``topicdb.SERIAL``."""

    def __repr__(self) -> str:
        return "topicdb.SERIAL"


SERIAL: Final = SerialType()
"""As a value in ``Transaction.write``: the serial of the commit, 8 bytes, big-endian."""


class Transaction:
    """A running transaction on one shard; made by ``Database.transaction``.

    Reads see the shard as it was when the transaction began, with its own writes and deletes. They
    do not see what is assigned at commit: a timestamp of None, and ``SERIAL``. A delete also
    removes earlier writes of the same transaction that match.

    Nothing is stored before the commit, which applies everything or nothing. The commit raises
    ConflictError if another commit has meanwhile changed anything that this transaction read,
    deleted or required. It also does if the transaction has written something and was open for
    longer than ``conflict_window``. Writes that nothing read overwrite each other: the last commit
    wins.

    Every method raises ClosedError once the transaction is over. Several threads may use it, one
    call at a time. Use it in ``with``: the end commits, and an error rolls back.
    """

    def __init__(
        self, core: TransactionEngine, queue: AppendQueue, limit_us: int | None = None
    ) -> None:
        """``limit_us``: the most µs that its commit may take; None: as long as it takes."""
        self._engine = core
        self._queue = queue
        self._limit_us = limit_us
        self._receipt: Receipt | None = None
        self._on_commit: list[Callable[[], object]] = []
        self._is_begun = False  # whether it was given to the queue
        self._is_unsure = False  # whether a commit has failed, and may have been done all the same

    @property
    def _core(self) -> TransactionEngine:
        """The transaction of the engine. Raises ClosedError once a commit was begun."""
        if self._is_begun:
            raise _core.ClosedError("the transaction is over")
        return self._engine

    def write(
        self,
        topic: str,
        timestamp: TimeLike | None,
        value: BytesLike | SerialType,
        *,
        raw: bool = False,
    ) -> None:
        """Stores a message at commit; it replaces one with the same topic and timestamp.

        Arguments:
            topic: any; the message is stored in the shard of this transaction.
            timestamp: as in ``Database.append``; None is assigned at commit.
            value: bytes-like, or ``topicdb.SERIAL`` for the serial of the commit.
            raw: as in ``Database.append``.

        Raises:
            TopicError, ValueError, TypeError: the arguments make no message.
        """
        if value is None:
            raise TypeError("value: expected bytes-like or topicdb.SERIAL, got None")
        self._core.write(
            topic,
            optional_time_us(timestamp, what="timestamp"),
            None if value is SERIAL else value,
            False,
            not raw,
        )

    def delete(
        self, filter: str, start: TimeLike | None = None, end: TimeLike | None = None
    ) -> None:
        """Removes, at commit, the messages that match in ``start`` <= timestamp < ``end``.

        Arguments:
            filter: one topic filter.
            start: as in ``Database.scan``.
            end: as in ``Database.scan``.
        """
        one_filter(filter)
        self._core.delete(filter, *time_range_us(start, end))

    def get(self, topic: str, timestamp: TimeLike = 0) -> bytes | None:
        """Returns the value of one message.

        Arguments:
            topic: its topic.
            timestamp: its timestamp; 0 in a map of topics.

        Returns:
            The payload, or None if the message is not stored. If several generations have such a
            message, the newest generation counts.

        Example:
            >>> with db.transaction() as tx:
            ...     tx.get("mode/h1") is None
            True
        """
        value = self._core.get(topic, time_us(timestamp))
        return None if value is None else _core.payload_of(value)

    def scan(
        self,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
    ) -> Scan:
        """Returns the messages of this shard that match, by timestamp.

        Arguments:
            filter: one topic filter.
            start: as in ``Database.scan``.
            end: as in ``Database.scan``.
            properties: as in ``Database.scan``.
            raw: as in ``Database.scan``.

        Returns:
            A scan, which you can read while the transaction is open.
        """
        one_filter(filter)
        form = form_of(properties=properties, raw=raw)
        bounds = time_range_us(start, end)
        asked = call_text(
            "scan",
            filter,
            bounds={"start": bounds[0], "end": bounds[1]},
            properties=properties,
            raw=raw,
        )
        return Scan(lambda: self._core.scan(filter, *bounds), form, asked=asked)

    def require(self, topic: str, timestamp: TimeLike, value: BytesLike) -> None:
        """Lets the commit fail with PreconditionError unless this very message is stored.

        The commit checks what is stored before its own writes.

        Arguments:
            topic: the topic of the message.
            timestamp: its timestamp.
            value: its payload.
        """
        if value is None:
            raise TypeError("value: expected bytes-like, got None; see require_absent")
        self._core.require(topic, time_us(timestamp), value)

    def require_present(self, topic: str, timestamp: TimeLike) -> None:
        """Lets the commit fail with PreconditionError if no message is stored there.

        Any value will do. The commit checks what is stored before its own writes.

        Arguments:
            topic: the topic of the message.
            timestamp: its timestamp.

        Example:
            >>> with db.transaction(key="client-7") as tx:
            ...     tx.require_absent("ended/client-7", 0)
            ...     tx.write("inbox/client-7", None, b"hello")
        """
        self._core.require_present(topic, time_us(timestamp))

    def require_absent(self, topic: str, timestamp: TimeLike) -> None:
        """Lets the commit fail with PreconditionError if a message is stored there.

        The commit checks what is stored before its own writes.

        Arguments:
            topic: the topic of the message.
            timestamp: its timestamp.
        """
        self._core.require(topic, time_us(timestamp), None)

    def on_commit(self, function: Callable[[], object]) -> None:
        """Calls ``function`` after the commit has succeeded, in the order of registration.

        If a function raises an error, the others still run, and then the commit raises the first
        error. What is committed stays.

        Arguments:
            function: takes no arguments.
        """
        if not callable(function):
            raise TypeError(f"on_commit: expected a function, got {type(function).__name__}")
        self._on_commit.append(function)

    def commit(self, *, timeout: float | timedelta | None = None) -> Receipt:
        """Applies everything or nothing, and returns the receipt. The end of ``with`` calls it.

        Arguments:
            timeout: the most seconds that it may take; None: the ``commit_timeout`` of
                ``Database.transaction``. A commit that still waits then, behind others or for room
                in the queue, is withdrawn. One that is being applied goes on.

        Returns:
            The receipt, which ``receipt`` has as well.

        Raises:
            ConflictError: another commit changed what this one read. Run the transaction again;
                ``conflicts`` lists what was changed.
            PreconditionError: something that it requires is not so; ``failures`` lists what was
                expected and found.
            QuotaError: the quota is reached.
            ReadOnlyError: the generation takes no messages.
            StorageError: the file system failed.
            CommitTimeoutError: it took longer than ``timeout``: ``known`` says whether it is
                stored, and ``outcome`` tells how it ends.
        """
        limit_us = self._limit_us if timeout is None else timeout_us(timeout)
        if limit_us is not None:
            return self._commit_within(limit_us)
        try:
            receipt = self._core.commit()
        except BaseException as error:
            self._failed(error)
            raise
        return self._succeeded(receipt)

    def commit_async(self) -> Future[Receipt]:
        """Begins to commit, and returns a future with the receipt. The transaction is over then.

        The commit gathers with other commits and appends of a few milliseconds
        (``flush_interval``), so that many small ones cost little. Those of one thread are applied
        in the order of the calls. A transaction that begins meanwhile does not see it, and
        conflicts with it if it reads what this one writes. While ``max_pending`` commits wait in
        the shard, this call waits. ``close`` of the database finishes what is queued.

        Returns:
            A future with the receipt or the error; it cannot be cancelled. Functions given to
            ``on_commit`` run before it has the receipt, in the thread that fulfils futures.

        Raises:
            ClosedError: the transaction is over.
            QuotaError: the quota is reached, and the database is in this process.

        Example:
            >>> tx = db.transaction()
            >>> tx.write("mode/h1", 0, b"auto")
            >>> tx.commit_async().result().count
            1
        """
        outcome = self._start(urgent=False, room_us=None)
        assert outcome is not None  # it waits for room as long as it takes
        return outcome

    async def commit_await(self) -> Receipt:
        """Commits like ``commit_async``, for asyncio, and returns the receipt.

        A task that is cancelled does not take the commit back.

        Returns:
            The receipt.
        """
        return await asyncio.wrap_future(self.commit_async())

    def _commit_within(self, limit_us: int) -> Receipt:
        end = time.monotonic() + limit_us / 1e6
        outcome = self._start(urgent=True, room_us=limit_us)
        known: CommitKnown = "not stored"
        if outcome is not None:
            while not outcome.done() and (left := end - time.monotonic()) > 0:
                wait([outcome], min(left, SLICE_S))
            known = "unknown" if outcome.done() else self._queue.give_up(self._engine)
            if known != "not stored" and outcome.done():
                return outcome.result()
        if known == "not stored":
            self._is_unsure, outcome = False, None
        error = CommitTimeoutError(
            f"the commit was not over within {limit_us / 1e6:g} s: {_SAID[known]}"
        )
        error.known, error.outcome = known, outcome
        raise error

    def _start(self, *, urgent: bool, room_us: int | None) -> Future[Receipt] | None:
        """Begins to commit; None if there was no room in the queue, and nothing is stored."""
        try:
            begun = self._queue.commit(self._core, urgent=urgent, room_us=room_us)
        except BaseException as error:
            self._failed(error)
            raise
        self._is_begun = True
        if begun is None:
            return None
        self._is_unsure = True  # until it is over
        outcome: Future[Receipt] = Future()
        outcome.set_running_or_notify_cancel()
        begun.add_done_callback(partial(self._settle, outcome))
        return outcome

    def _settle(self, outcome: Future[Receipt], begun: Future[Receipt]) -> None:
        """Does what is left to do once a commit is over, in the thread that reports it."""
        try:
            receipt = self._succeeded(begun.result())
        except BaseException as error:
            if begun.exception() is error:
                self._is_unsure = not isinstance(error, _REFUSED)
            outcome.set_exception(error)
        else:
            outcome.set_result(receipt)

    def _failed(self, error: BaseException) -> None:
        """Notes that a commit has failed, above all with UnavailableError."""
        if not isinstance(error, _REFUSED):
            self._is_unsure = True

    def _succeeded(self, receipt: Receipt) -> Receipt:
        """Notes the receipt and runs the functions of ``on_commit``; raises the first error."""
        self._receipt, self._is_unsure = receipt, False
        functions, self._on_commit = self._on_commit, []
        first_error: BaseException | None = None
        for function in functions:
            try:
                function()
            except BaseException as error:  # raised below
                if first_error is None:
                    first_error = error
                else:
                    _logger.exception("a function given to on_commit failed")
        if first_error is not None:
            raise first_error
        return receipt

    def rollback(self) -> None:
        """Forgets everything. May be repeated; the end of ``with`` calls it after an error.

        It does not take back a commit that was begun.
        """
        if not self._is_begun:
            self._engine.rollback()

    @property
    def open(self) -> bool:
        """Whether it is neither committed nor rolled back."""
        return self._engine.open and not self._is_begun

    @property
    def _may_be_stored(self) -> bool:
        """Whether what it writes may be stored, or may still be."""
        return self._receipt is not None or self._is_unsure or self.open

    @property
    def shard(self) -> int:
        """The shard that it reads and writes."""
        return self._engine.shard

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the commit, or None before it.

        ``serials`` is empty if there was nothing to write.
        """
        return self._receipt

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        if kind is None and self.open:
            self.commit()
        self.rollback()
        return False

    def __repr__(self) -> str:
        return f"<topicdb.Transaction {'open' if self.open else 'over'}>"


@contextmanager
def begun(core: Engine, shard: int, durability: Durability | None) -> Iterator[TransactionEngine]:
    """Begins a transaction of TopicDB's own. The end rolls it back unless it was committed."""
    transaction = core.begin(shard, None, durability)
    try:
        yield transaction
    finally:
        transaction.rollback()


def transact(
    begin: Callable[[], Transaction], function: Callable[[Transaction], Result], *, retries: int
) -> Result:
    """Runs ``function`` as ``Database.transact`` documents it; ``begin`` begins each attempt."""
    if retries < 0:
        raise ValueError(f"retries: {retries} is negative")
    for attempt in itertools.count():
        try:
            with begin() as transaction:
                return function(transaction)
        except _core.ConflictError:
            if attempt == retries:
                raise
        time.sleep(random.uniform(0, min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**attempt)))
    raise AssertionError("unreachable")

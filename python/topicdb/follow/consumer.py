"""Consumers: named readers whose positions are stored."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import Form
from topicdb.arguments.times import timeout_us
from topicdb.closing import Named
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss, Reporter, serials_now
from topicdb.follow.positions import Place, Positions, lag_of
from topicdb.follow.subscription import Given, Start, Subscription, check_log, places_of
from topicdb.transaction import Transaction

_ALL = (1 << 63) - 1


class Consumer(Named):
    """A named reader that continues where it was; made by ``Database.consumer``.

    It gives batches, by iteration or ``poll``. ``ack`` stores how far the work on them has come.
    Batches that were not acknowledged come again after a restart: each message comes at least once.
    With ``ack(batch, transaction)`` the position is a part of your transaction: it is stored if and
    only if the results of the work, which the transaction writes, are. So each message has its
    effect exactly once.

    In each shard, messages come in the order of commits. New streams, generations and structures
    are read without further action. One thread at a time may use it; another may close it. Close
    it, best by ``with``; then the name is free again.

    Example:
        >>> with db.consumer("etl", "site/#") as consumer:
        ...     batch = consumer.poll(timeout=30)
        ...     print([message.value for message in batch])
        ...     consumer.ack(batch)
        [b'on', b'off']
    """

    def __init__(
        self,
        core: Engine,
        positions: Positions,
        kept: tuple[Mapping[str, Any], Mapping[str, Any]],
        window: tuple[int, int],
        timeout_us: int | None,
        report: Reporter,
        form: Form = "payload",
    ) -> None:
        """``kept``: what to store if the name is new, and what to store instead if it is not."""
        self._core = core
        self._form = form
        self._positions = positions
        self._window = window
        self._report = report
        self._timeout_us = timeout_us
        self._lock = threading.RLock()
        self._kept, places = positions.open(*kept)
        self._filters: list[str] | None = self._kept["filters"]
        self._places = {int(shard): Place(*place) for shard, place in self._kept["start"].items()}
        self._places.update({int(key): place for key, place in places.items()})
        self._closed = False
        self._told: set[int] = set()  # shards with a loss and no acknowledged message behind it
        self._subscribe()

    def _subscribe(self) -> None:
        self._begin(self._cursor(self._filters))

    def _cursor(self, filters: list[str] | None) -> SubscriptionCursor:
        """Returns a cursor of the messages that are not acknowledged and match these filters."""
        counted = self._positions.losses.start_all(self._core.schema["shards"])
        start_us: int = self._kept["start_us"]
        return self._core.subscribe(
            filters, dict(self._places), start_us, *self._window, (0, 1), counted
        )

    def _begin(self, core: SubscriptionCursor) -> None:
        start_us: int = self._kept["start_us"]
        self._subscription = Subscription(
            core, self._core, self._filters, start_us, self._timeout_us, self._form, self._lose
        )
        self._seqno_given = 0  # of the last batch that was given to the user
        self._given: deque[Given] = deque()  # given and not acknowledged
        self._seqnos: WeakKeyDictionary[Batch, int] = WeakKeyDictionary()
        self._acknowledged = 0
        self._attempts: dict[int, Transaction] = {}  # uncommitted acknowledgements, by seqno

    def _lose(self, loss: Loss) -> None:
        with self._lock:
            more = self._positions.losses.add(loss)
            if more:
                self._told.add(loss.shard)
        if more:
            self._report(loss)

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """Returns the next messages.

        Arguments:
            rows: the most messages.
            timeout: how many seconds to wait; None: for ever.

        Returns:
            The batch. It is empty if nothing comes in time, or when the consumer is closed.

        Raises:
            LossError: messages were dropped before it had them (``on_loss="raise"``); the next call
                continues behind them.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        batch = self._poll(timeout_us(timeout), rows)
        return _core.empty_batch() if batch is None else batch

    def _poll(self, timeout_us: int | None, rows: int = _ALL) -> Batch | None:
        subscription = self._subscription
        delivery = subscription._next(timeout_us, rows)
        if delivery is None:
            return None
        with self._lock:
            if subscription is not self._subscription:
                return _core.empty_batch()  # a seek or rewind came first: nothing of it counts
            subscription._done_with(delivery)
            self._given.append(Given(delivery.seqno, delivery.shard, delivery.next))
            self._seqnos[delivery.batch] = self._seqno_given = delivery.seqno
            if len(self._given) > 2 * len(self._seqnos) + 1_000:
                self._forget_lost()
        return delivery.batch

    def _forget_lost(self) -> None:
        """Forgets batches that the user no longer has, except the last one of each shard.

        Nobody can acknowledge such a batch by itself.
        """
        named = set(self._seqnos.values())
        last = {given.shard: given.seqno for given in self._given}
        self._given = deque(
            given
            for given in self._given
            if given.seqno in named or given.seqno == last[given.shard]
        )

    def __iter__(self) -> Iterator[Batch]:
        """Gives each batch in turn, never an empty one; ends when none comes for ``timeout``."""
        while (batch := self._poll(self._timeout_us)) is not None:
            if len(batch) > 0:
                yield batch

    def ack(self, batch: Batch | None = None, transaction: Transaction | None = None) -> None:
        """Says that the work on ``batch``, and on all that were given before it, is done.

        Arguments:
            batch: None: everything that was given. An empty batch, which ``poll`` gives when
                nothing came, needs no acknowledgement; then this does nothing.
            transaction: of any shard. The position is stored when it commits; without one, at once.
                If it does not commit, the next ``ack`` must be for the same batch, or come after
                ``rewind``, because the results of the work on that batch are not stored.

        Raises:
            ValueError: this consumer did not give the batch, or not since it was moved (``seek``,
                ``rewind``); the batch is acknowledged already; or an earlier acknowledgement
                belongs to a transaction that is not committed, or whose commit may have been done,
                as its answer was lost: ``rewind`` finds out.
            ConflictError: another object has taken the name over; with ``transaction``, its commit
                raises that or PreconditionError.
        """
        with self._lock:
            self._check_open()
            if batch is not None and len(batch) == 0:
                return
            seqno = self._seqno_of(batch)
            places = {str(given.shard): given.next for given in self._given if given.seqno <= seqno}
            self._check_attempts(seqno, transaction)
            if transaction is None:
                if places:
                    self._positions.save(places)
                self._stored(seqno, places)
                if batch is None and self._told:
                    self._pass_by(self._told)
                return
            self._positions.write(transaction._core, transaction.shard, places)
            self._attempts[seqno] = transaction
            subscription = self._subscription
        transaction.on_commit(lambda: self._committed(subscription, seqno, places))

    def _seqno_of(self, batch: Batch | None) -> int:
        if batch is None:
            return self._given[-1].seqno if self._given else self._acknowledged
        seqno = self._seqnos.get(batch)
        if seqno is None:
            raise ValueError("ack: this batch was not given by this consumer since it was moved")
        if seqno <= self._acknowledged:
            raise ValueError("ack: this batch is acknowledged already")
        return seqno

    def _check_attempts(self, seqno: int, transaction: Transaction | None) -> None:
        for earlier, attempt in self._attempts.items():
            if attempt._is_unsure:
                raise ValueError(
                    "ack: the answer to the commit of a transaction with an acknowledgement was "
                    "lost, so what it wrote may be stored: rewind(), which goes on behind it then"
                )
            if earlier < seqno and attempt is not transaction:
                raise ValueError(
                    "ack: an earlier batch was acknowledged in a transaction that is not committed:"
                    " acknowledge that again, or rewind()"
                )

    def _committed(
        self, subscription: Subscription, seqno: int, places: Mapping[str, Place]
    ) -> None:
        with self._lock:
            if subscription is self._subscription:
                self._stored(seqno, places)

    def _stored(self, seqno: int, places: Mapping[str, Place]) -> None:
        self._acknowledged = max(self._acknowledged, seqno)
        while self._given and self._given[0].seqno <= seqno:
            self._given.popleft()
        for attempt in [attempt for attempt in self._attempts if attempt <= seqno]:
            del self._attempts[attempt]
        self._places.update({int(shard): place for shard, place in places.items()})
        self._told.difference_update(int(shard) for shard in places)

    def rewind(self) -> None:
        """Gives what was given and not acknowledged once more.

        A transaction with an acknowledgement of this consumer that is still open cannot be
        committed any more. If the answer to a commit with an acknowledgement was lost, this finds
        out whether it was done, and goes on behind it then.

        Raises:
            ConflictError: another object has taken the name over.
        """
        with self._lock:
            self._check_open()
            self._reread_unsure()
            self._subscription.close()
            self._subscribe()

    def seek(self, start: Start) -> None:
        """Continues at ``start``, and stores that at once.

        An open transaction with an acknowledgement of this consumer cannot be committed any more.

        Arguments:
            start: ``"earliest"``; ``"latest"``; a time: in each shard the first message with that
                timestamp or a later one; or places, as ``Database.subscribe`` takes them.

        Raises:
            SchemaError: it cannot begin there, and stays where it is.
        """
        with self._lock:
            self._check_open()
            places = places_of(self._core, self._filters, start)
            check_log(self._core, self._filters, places, self._kept["start_us"])
            kept = {**self._kept, "start": {}}
            by_key = {str(shard): place for shard, place in places.items()}
            losses = self._positions.losses.restarted(serials_now(self._core, self._filters))
            self._positions.restart(kept, by_key, losses)
            self._kept, self._places = kept, places
            self._subscription.close()
            self._subscribe()

    def set_filters(self, filter: Filters) -> dict[int, Place]:
        """Replaces the filters, at once and for good.

        The new filters apply from where the consumer stands: in each shard, the place before which
        everything is acknowledged. Topics that the old and the new filters match go on there: you
        miss no message of them, and none comes again that is acknowledged. Of topics that only the
        new filters match you get what was committed from there on; see ``seek`` for what was
        before. What was given and not acknowledged comes again, as after ``rewind``, if the new
        filters match it; you cannot acknowledge the batches from before. If the filters are these
        already, nothing happens.

        An open transaction with an acknowledgement of this consumer cannot be committed any more.

        Arguments:
            filter: as in ``Database.scan``.

        Returns:
            For each shard, the place from which the new filters apply.

        Raises:
            TopicError: something is no topic filter.
            SchemaError: it would stand in a generation without a log, or topics of the new filters
                go to such a one now.
            ConflictError: another object has taken the name over. After these errors nothing has
                changed.

        Example:
            >>> with db.consumer("etl", "site/#") as consumer:
            ...     places = consumer.set_filters(["site/#", "alarm/#"])
            ...     consumer.filters
            ['site/#', 'alarm/#']
        """
        filters = filter_list(filter)
        with self._lock:
            self._check_open()
            if filters != self._filters:
                self._replace_filters(filters)
            shards = range(self._core.schema["shards"])
            return {shard: self._places.get(shard, Place(1, 0)) for shard in shards}

    def _replace_filters(self, filters: list[str] | None) -> None:
        self._reread_unsure()
        # May be refused, and nothing is stored yet.
        check_log(self._core, filters, self._places, self._kept["start_us"])
        cursor = self._cursor(filters)
        try:
            kept = {**self._kept, "filters": filters}
            by_key = {str(shard): place for shard, place in self._places.items()}
            self._positions.restart(kept, by_key, self._positions.losses)
        except BaseException:
            cursor.close()
            raise
        self._subscription.close()
        self._kept, self._filters = kept, filters
        self._begin(cursor)

    def _reread_unsure(self) -> None:
        """Learns where the consumer stands if the answer to a commit that moved it was lost."""
        if any(attempt._may_be_stored for attempt in self._attempts.values()):
            places = self._positions.reread()
            self._places.update({int(shard): place for shard, place in places.items()})

    def lag(self) -> int:
        """Returns how many messages are stored and not acknowledged; see ``Subscription.lag``."""
        start_us: int = self._kept["start_us"]
        return lag_of(self._core, self._filters, start_us, self.places)

    @property
    def name(self) -> str:
        """The name that it was opened with."""
        return self._positions.label

    @property
    def filters(self) -> list[str] | None:
        """The filters that it has now; None: every topic."""
        return None if self._filters is None else list(self._filters)

    @property
    def places(self) -> dict[int, Place]:
        """For each shard, the place before which everything is acknowledged.

        Shards without one are at the start.
        """
        with self._lock:
            return dict(self._places)

    def info(self) -> dict[str, Any]:
        """Returns how the consumer stands: the keys of ``Subscription.info``, and more.

        Returns:
            A dict. ``unacknowledged`` says how many messages were given and not acknowledged.
            ``lost`` also counts those of earlier runs under this name.
        """
        with self._lock:
            info = self._subscription.info()
            info["unacknowledged"] = info["delivered"] - self._acknowledged
            info["acknowledged"] = self._acknowledged
            info["lost"] = self._positions.losses.total
            return info

    @property
    def lost(self) -> int:
        """How many messages were dropped with their generation before it had them, at most.

        They are counted when it comes to where they were. The count is stored with the next ``ack``
        of a message behind them; ``ack()`` stores it even if no message comes behind them.
        """
        with self._lock:
            return self._positions.losses.total

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or another object has taken the name over."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"{self._positions.name} is closed, or was taken over")

    def close(self) -> None:
        """Ends it, and calls that wait. May be repeated. What was not acknowledged comes again."""
        with self._lock:
            if not self._closed:
                with suppress(_core.Error):  # storing this only spares the next run some reading
                    self._pass_by({*range(self._core.schema["shards"])} - self._told)
            self._end()

    def _pass_by(self, shards: set[int]) -> None:
        """Stores that messages which the consumer does not want are passed by.

        A later drop of those is no loss for it then.
        """
        info = self._subscription.info()
        if self._attempts or info["delivered"] != self._seqno_given or self._core.closed:
            return
        given = {one.shard for one in self._given}
        places = {
            shard: place
            for shard, place in info["places"].items()
            if shard in shards
            and shard not in given
            and place > self._places.get(shard, Place(1, 0))
        }
        if places:
            by_key = {str(shard): place for shard, place in places.items()}
            self._positions.save(by_key)
            self._stored(self._acknowledged, by_key)

    def _end(self) -> None:
        self._closed = True
        self._subscription.close()
        self._give_up()

    def abandon(self) -> None:
        """Ends it for a takeover, without storing anything more."""
        with self._lock:
            self._end()

    def __repr__(self) -> str:
        return f"<topicdb.Consumer {self.name!r}{' (closed)' if self._closed else ''}>"

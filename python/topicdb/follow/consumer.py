"""Readers with a name, whose positions last."""

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
from topicdb.closing import Named
from topicdb.engine import Engine
from topicdb.follow.losses import Loss, Reporter, serials_now
from topicdb.follow.positions import Place, Positions, lag_of
from topicdb.follow.subscription import Given, Start, Subscription, places_of
from topicdb.forms import Form
from topicdb.times import timeout_us
from topicdb.transaction import Transaction

_ALL = (1 << 63) - 1


class Consumer(Named):
    """Messages of a filter, from where it was; made by ``Database.consumer``.

    It gives batches, by iteration or ``poll``; ``ack`` stores how far the work on them has come.
    What was not acknowledged comes again after a restart: each message at least once. With
    ``ack(batch, transaction)`` the position is part of a transaction of yours: it is stored if and
    only if what the work has written there is, so that each message has its effect exactly once.

    Messages come in each shard in the order of commits; new streams, generations and structures
    are followed by themselves. To be used by one thread at a time; another may close it.
    """

    def __init__(
        self,
        core: Engine,
        positions: Positions,
        made: Mapping[str, Any],
        window: tuple[int, int],
        timeout_us: int | None,
        report: Reporter,
        form: Form = "payload",
    ) -> None:
        self._core = core
        self._form = form
        self._positions = positions
        self._window = window
        self._report = report
        self._timeout_us = timeout_us
        self._lock = threading.RLock()
        self._kept, places = positions.open(made)
        self._filters: list[str] | None = self._kept["filters"]
        self._places = {int(shard): Place(*place) for shard, place in self._kept["start"].items()}
        self._places.update({int(key): place for key, place in places.items()})
        self._closed = False
        self._told: set[int] = set()  # shards with losses that nothing acknowledged is behind
        self._subscribe()

    def _subscribe(self) -> None:
        start_us: int = self._kept["start_us"]
        counted = self._positions.losses.start_all(self._core.schema["shards"])
        core = self._core.subscribe(
            self._filters, dict(self._places), start_us, *self._window, (0, 1), counted
        )
        self._subscription = Subscription(
            core, self._core, self._filters, start_us, self._timeout_us, self._form, self._lose
        )
        self._seqno_given = 0  # that ``poll`` has given away
        self._given: deque[Given] = deque()  # and not acknowledged
        self._seqnos: WeakKeyDictionary[Batch, int] = WeakKeyDictionary()
        self._acknowledged = 0
        self._attempts: dict[int, Transaction] = {}  # acknowledgements not committed yet, by seqno

    def _lose(self, loss: Loss) -> None:
        with self._lock:
            more = self._positions.losses.add(loss)
            if more:
                self._told.add(loss.shard)
        if more:
            self._report(loss)

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """The next messages, at most ``rows``; an empty batch if none come for ``timeout``
        seconds (None: waits for ever), or it is closed.

        LossError: messages were dropped before it had them (``on_loss="raise"``); the next call
        goes on behind them.
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
                return _core.empty_batch()  # it was given before a seek
            subscription._done_with(delivery)
            self._given.append(Given(delivery.seqno, delivery.shard, delivery.next))
            self._seqnos[delivery.batch] = self._seqno_given = delivery.seqno
            if len(self._given) > 2 * len(self._seqnos) + 1_000:
                self._forget_lost()
        return delivery.batch

    def _forget_lost(self) -> None:
        """Batches that nobody has any more cannot be named, but the last of each shard counts."""
        named = set(self._seqnos.values())
        last = {given.shard: given.seqno for given in self._given}
        self._given = deque(
            given
            for given in self._given
            if given.seqno in named or given.seqno == last[given.shard]
        )

    def __iter__(self) -> Iterator[Batch]:
        """Each batch in turn, never an empty one; ends when none comes for ``timeout``."""
        while (batch := self._poll(self._timeout_us)) is not None:
            if len(batch) > 0:
                yield batch

    def ack(self, batch: Batch | None = None, transaction: Transaction | None = None) -> None:
        """The work on this batch, and on all that were given before it, is done.

        Without a batch: on everything that was given; of an empty batch, which ``poll`` gives when
        nothing came, there is nothing to do. Stored at once; or with ``transaction``, of any shard,
        when that commits. If it does not, the next ``ack`` must be for the same batch, or come
        after ``rewind``: what was done for it is not stored.

        ValueError: the batch was not given by this consumer, or since it was moved, or is
        acknowledged already; an earlier acknowledgement belongs to a transaction that is not
        committed. ConflictError: another one has taken the name over; with ``transaction``, the
        commit raises that or a PreconditionError.
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
        """What was given and not acknowledged comes again."""
        with self._lock:
            self._check_open()
            self._subscription.close()
            self._subscribe()

    def seek(self, start: Start) -> None:
        """Goes on from there, and stores that at once.

        ``"earliest"``, ``"latest"`` or a time: that of the first message with this timestamp or a
        later one, in each shard; or places, as ``subscribe`` takes them. A transaction that is open
        with an acknowledgement cannot be committed any more.
        """
        with self._lock:
            self._check_open()
            self._places = places_of(self._core, self._filters, start)
            self._kept = {**self._kept, "start": {}}
            self._positions.losses.restart(serials_now(self._core, self._filters))
            by_key = {str(shard): place for shard, place in self._places.items()}
            self._positions.restart(self._kept, by_key)
            self._subscription.close()
            self._subscribe()

    def lag(self) -> int:
        """Messages that are stored and not acknowledged; about, as ``Subscription.lag``."""
        start_us: int = self._kept["start_us"]
        return lag_of(self._core, self._filters, start_us, self.places)

    @property
    def name(self) -> str:
        """The name it was opened with."""
        return self._positions.label

    @property
    def places(self) -> dict[int, Place]:
        """Of each shard: everything before is acknowledged. Shards without one are at the start."""
        with self._lock:
            return dict(self._places)

    def info(self) -> dict[str, Any]:
        """How it stands: as ``Subscription.info``; and ``unacknowledged``: messages given.

        ``lost`` is that of the name, of earlier runs, too.
        """
        with self._lock:
            info = self._subscription.info()
            info["unacknowledged"] = info["delivered"] - self._acknowledged
            info["acknowledged"] = self._acknowledged
            info["lost"] = self._positions.losses.total
            return info

    @property
    def lost(self) -> int:
        """Messages that were dropped with their generation before it had them: so many at most.

        Counted when it comes to where they were, and stored with the next ``ack``; with ``ack()``
        also if nothing comes behind them.
        """
        with self._lock:
            return self._positions.losses.total

    @property
    def closed(self) -> bool:
        """``close`` was called, or another one took the name over."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"{self._positions.name} is closed, or was taken over")

    def close(self) -> None:
        """Ends it, and calls that wait. May be repeated."""
        with self._lock:
            if not self._closed:
                with suppress(_core.Error):  # it only comes to the same place sooner
                    self._pass_by({*range(self._core.schema["shards"])} - self._told)
            self._end()

    def _pass_by(self, shards: set[int]) -> None:
        """Stores that what it does not want is passed by: who drops that takes nothing from it."""
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
        """For who takes it over: what is stored is what counts."""
        with self._lock:
            self._end()

    def __repr__(self) -> str:
        return f"<topicdb.Consumer {self.name!r}{' (closed)' if self._closed else ''}>"

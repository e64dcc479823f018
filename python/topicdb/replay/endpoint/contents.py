"""The messages that an endpoint holds, and the reader that brings more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topicdb.engine import SubscriptionCursor
from topicdb.follow.losses import Loss, LossCount, Reporter
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.direct import DirectMessages
from topicdb.replay.endpoint.expiry import Expiry
from topicdb.replay.endpoint.interest import Interest
from topicdb.replay.endpoint.reading import Reader
from topicdb.replay.endpoint.spool import Held, Lent, Spool
from topicdb.replay.host import Host
from topicdb.replay.pacing import Pacer
from topicdb.replay.records import SHARD, EndpointRecord


class Contents:
    """The messages at one endpoint, the reader that brings more, and the places of both.

    The places are in the endpoint's record; ``save`` brings them up to date. The endpoint's
    ``Parts`` own this object, and their lock is held for every call. It knows neither clients nor
    the states of a replay.
    """

    # After a restart, the reader begins with the first message that the endpoint held. Until it has
    # come to ``_reread_until``, what it has still to read again is in ``_reread``, as in
    # ``EndpointRecord.held``; everything else before that place is done with.

    def __init__(self, host: Host, record: EndpointRecord, interest: Interest) -> None:
        self._host = host
        self._record = record
        self._interest = interest
        self._reader: Reader | None = None
        self._reread, self._reread_until = list(record.held), record.next
        self._losses = LossCount({SHARD: record.lost_until})
        self._removed_before = Place(0, 0)
        self.spool = Spool()
        self.expiry = Expiry(record)
        self.direct = DirectMessages(host.origin)
        self.error: Exception | None = None  # why the reader can read no more
        self.throttled_s = 0.0  # a replay may read again after this time, because of the throttle

    @property
    def next(self) -> Place:
        """Everything before this place has come, or is not wanted."""
        return self._record.next if self._reader is None else self._reader.next

    @property
    def is_full(self) -> bool:
        """Whether no more messages come until some are acknowledged."""
        spool, record = self.spool, self._record
        return spool.messages >= record.spool or spool.nbytes >= record.spool_bytes

    @property
    def is_half_empty(self) -> bool:
        """Whether fewer messages are here than half of what there is room for."""
        return 2 * self.spool.messages < self._record.spool

    @property
    def has_replayed_left(self) -> bool:
        """Whether a replayed message has still to come, or is here and not acknowledged."""
        live_from = self._record.live_from
        # After a restart, held messages are read again first, so next may be before live_from.
        return self.next < live_from or self.spool.has_before(live_from)

    @property
    def wait_s(self) -> float | None:
        """The seconds until the pace of a replay lets more come, or None if it holds back none."""
        return None if self._reader is None else self._reader.wait_s or None

    def has_read_all(self) -> bool:
        """Returns whether a replay has read everything, and nothing more is on its way."""
        if self._reader is None or self._reader.next < self._record.live_from:
            return False  # the reader may be at its end, but the last commits still have to come
        return self._reader.is_at_end()

    def holds_from(self) -> Place:
        """Returns the place before which nothing is needed here.

        Messages that a replay has still to read do not count: if they are trimmed, it fails.
        """
        begin = max(self.next, self._record.live_from)
        low = self.spool.low()
        return begin if low is None else min(low, begin)

    # The reader.

    def open(self) -> None:
        """Opens a reader that goes on where the endpoint is, and closes the one before.

        After a restart, it begins with the messages that the endpoint holds.
        """
        record = self._record
        if self._reader is not None:
            begin = self._reader.next
            self.save()
            self._reader.close()
        else:
            begin = record.held[0][0] if record.held else record.next
        # A removed subscription is needed as long as its messages may be here. It is forgotten here
        # and nowhere else, as a reader keeps the filters that it was made with.
        self._interest.forget_removed(min(self.spool.low() or begin, begin))
        admission = self._interest.admission(self._host.eras)
        self._reader = Reader(
            self._host.core,
            self._interest.filters,
            begin,
            admission,
            self._watch,
            Reporter(f"endpoint {record.name!r}", "raise"),
            self._losses.start(SHARD),
        )
        self.error = None
        record.held = []

    def _watch(self, reading: SubscriptionCursor) -> None:
        self._host.watch(self._record.name, reading)

    def close(self) -> None:
        """Closes the reader; ``next`` stays where it is."""
        if self._reader is not None:
            self._record.next = self._reader.next
            self._reader.close()
            self._reader = None

    def abandon(self) -> None:
        """Closes the reader after the record was stored for the last time."""
        if self._reader is not None:
            self._reader.close()

    def pace(self, pacer: Pacer | None, until: Place, *, is_paused: bool) -> None:
        """Lets messages before ``until`` come at this pace. REQUIRES: ``open`` was called."""
        assert self._reader is not None
        self._reader.pacer = pacer
        self._reader.paced_until = until
        self._reader.is_paused = is_paused

    def set_pacer(self, pacer: Pacer) -> None:
        """Changes the pace of the messages that are paced."""
        if self._reader is not None:
            self._reader.pacer = pacer

    def set_paused(self, is_paused: bool) -> None:
        """Begins or ends a pause of the messages that are paced."""
        if self._reader is not None:
            self._reader.is_paused = is_paused
            if self._reader.pacer is not None:
                (self._reader.pacer.pause if is_paused else self._reader.pacer.resume)()

    def end_pacing(self) -> None:
        """Lets everything come as it is committed from now on."""
        if self._reader is not None:
            self._reader.pacer = None
            self._reader.is_paused = False

    # The messages.

    def room(self, rows: int, *, is_replayed: bool) -> int:
        """Returns how many messages may come now, at most ``rows``.

        Returns zero if there is no reader or no room, or if the throttle holds the replay back for
        ``throttled_s``, which this sets.
        """
        self.throttled_s = 0.0
        if self._reader is None:
            return 0
        if self.spool.nbytes >= self._record.spool_bytes:
            self.spool.pack()
        if self.is_full:
            return 0
        if is_replayed:
            self.throttled_s = self._host.throttle.wait_s()
        return 0 if self.throttled_s > 0 else min(rows, self._record.spool - self.spool.messages)

    def read(self, rows: int) -> Held | None:
        """Returns the next messages of the log, at most ``rows``, or None if none can come now.

        The caller passes them to ``add``. Raises LossError if messages were dropped before the
        reader had them; the next call goes on behind these. Raises Error if they are damaged.
        REQUIRES: there is ``room`` for them.
        """
        assert self._reader is not None
        return self._reader.take(rows)

    def add(self, held: Held, *, is_replayed: bool) -> None:
        """Keeps messages that were read, and counts those of a replay."""
        run = self._record.run
        if run is not None:
            run.done += held.count_before(run.live_from)
        held.mark_given_before(self._record.given)
        if is_replayed:
            self._host.throttle.count(len(held.owners))
        self.expiry.note(held, self._record.live_from)
        self.spool.add(held)

    def lend(
        self,
        client: int,
        count: int,
        accepts: Callable[[Held, int], bool] | None,
        before: Place | None,
    ) -> Lent | None:
        """Gives a client the first messages that wait and that it accepts, at most ``count``.

        Those from ``before`` on are not given, nor those that have expired.
        """
        lent = self.spool.lend(client, count, self.expiry.accepts(accepts), before)
        if lent is not None:
            last = lent.held.place(lent.indexes[-1])
            self._record.given = max(self._record.given, last._replace(row=last.row + 1))
        return lent

    def given_until(self, accepts: Callable[[Held, int], bool] | None) -> Place:
        """Returns the place before which everything has come, and waits for this client no more.

        ``accepts``: which messages the client accepts; None: all.
        """
        first = self.spool.first_waiting(self.expiry.accepts(accepts))
        return self.next if first is None else min(first, self.next)

    def drop_direct(self) -> None:
        """Lets the direct messages go that wait here, and counts them."""
        if (lost := self.direct.clear()) > 0:
            self.count("direct_lost", lost)

    def any_to_give(self) -> bool:
        """Returns whether a message waits for a client, and has not expired."""
        return self.spool.first_waiting(self.expiry.accepts(None)) is not None

    def release(self, lent: Lent) -> None:
        """Lets messages wait again, marked as given before."""
        for index in lent.indexes:
            self.spool.release(lent.held, index)
        self.expiry.given_back()

    def give_back(self, client: int) -> None:
        """Lets all messages that a client has wait again, marked as given before."""
        self.spool.give_back(client)
        self.expiry.given_back()

    def settle(self, lents: Sequence[Lent], what: str) -> None:
        """Removes messages that are done with, and counts them under ``what``.

        ``what`` is "acknowledged", "rejected" or "expired".
        """
        for lent in lents:
            self.spool.settle(lent.held, lent.indexes)
            self.count(what, len(lent.indexes))

    def count(self, what: str, number: int = 1) -> None:
        """Adds to a counter of the record."""
        counts = self._record.counts
        counts[what] = counts.get(what, 0) + number

    @property
    def lost_from(self) -> Place:
        """Everything before this place had come when the reader came to the last loss."""
        return Place(0, 0) if self._reader is None else self._reader.lost_from

    def count_lost(self, loss: Loss) -> int:
        """Counts a loss, and returns how many of its messages were not counted yet, at most."""
        more = self._losses.add(loss)
        self.count("lost", more)
        self._record.lost_until = self._losses.counted[SHARD]
        return more

    def was_removed(self, place: Place) -> bool:
        """Returns whether this may be a message that was removed while a client had it."""
        return place < self._removed_before

    def clear_for(self, begin: Place, removed_before: Place) -> int:
        """Removes all messages and closes the reader; the next one will begin at ``begin``.

        Clients that stay connected may have had messages before ``removed_before``. What was
        dropped until now is no loss of the next reader. Returns how many messages there were.
        """
        self._record.lost_until = self._host.now().serial - 1
        self._losses = LossCount({SHARD: self._record.lost_until})
        return self._clear(begin, removed_before)

    def _clear(self, begin: Place, removed_before: Place) -> int:
        self._removed_before = removed_before
        removed = self.spool.messages
        self.spool.clear()
        self.drop_direct()
        self.close()
        self._record.next, self._record.held = begin, []
        self._reread, self._reread_until = [], begin
        self._record.given = Place(0, 0)
        return removed

    def forget_replayed(self) -> None:
        """Removes the messages that a replay brought, and does not read the rest of it.

        Messages that were committed since the replay began stay: they belong to the endpoint, and
        would not come again.
        """
        record, live_from = self._record, self._record.live_from
        reread, until, given = self._still_reread(live_from), self._reread_until, record.given
        if self.next >= live_from and self._reader is not None:
            self.spool.drop_before(live_from)
            return
        self._clear(live_from, live_from)
        if until > live_from:  # live messages had come before a restart
            record.next, record.held, record.given = until, reread, given
            self._reread, self._reread_until = reread, until

    def save(self) -> None:
        """Brings the places in the record up to date."""
        if self._reader is not None:
            next = self._reader.next
            self._record.next = max(next, self._reread_until)
            self._record.held = [*self.spool.runs(), *self._still_reread(next)]

    def _still_reread(self, begin: Place) -> list[tuple[Place, Place]]:
        """Returns the runs that are to be read again, from ``begin`` on."""
        return [(max(first, begin), last) for first, last in self._reread if last >= begin]

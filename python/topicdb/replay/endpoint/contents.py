"""What an endpoint holds, and where it reads more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topicdb.engine import SubscriptionCursor
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.interest import Interest
from topicdb.replay.endpoint.reading import Reader
from topicdb.replay.endpoint.spool import Held, Lent, Spool
from topicdb.replay.host import Host
from topicdb.replay.pacing import Pacer
from topicdb.replay.records import EndpointRecord


class Contents:
    """The messages at one endpoint, the reader that brings more, and the places of both.

    The places are in the endpoint's record; ``save`` brings them up to date. The endpoint's
    ``Parts`` own this object and lock it. It knows neither clients nor states of a replay.
    """

    def __init__(self, host: Host, record: EndpointRecord, interest: Interest) -> None:
        self._host = host
        self._record = record
        self._interest = interest
        self._reader: Reader | None = None
        self.spool = Spool()
        self.error: Exception | None = None  # why nothing more can be read
        self.throttled_s = 0.0  # for this long a replay gives way to what is committed

    @property
    def next(self) -> Place:
        """Everything before has come, or is not wanted."""
        return self._record.next if self._reader is None else self._reader.next

    @property
    def is_full(self) -> bool:
        """Nothing more comes until something is acknowledged."""
        spool, record = self.spool, self._record
        return spool.messages >= record.spool or spool.nbytes >= record.spool_bytes

    @property
    def is_half_empty(self) -> bool:
        """Fewer messages are here than half of what there is room for."""
        return 2 * self.spool.messages < self._record.spool

    @property
    def has_replayed_left(self) -> bool:
        """A replayed message has still to come, or is here without an acknowledgement."""
        live_from = self._record.live_from
        # After a restart, what is held is read again first.
        return self.next < live_from or self.spool.has_before(live_from)

    @property
    def wait_s(self) -> float | None:
        """How long a replay's pace lets nothing come; None if it does not."""
        return None if self._reader is None else self._reader.wait_s or None

    def has_read_all(self) -> bool:
        """The end of the log was reached."""
        if self._reader is None or self._reader.next < self._record.live_from:
            return False  # live, but what was committed a moment ago is on its way
        return self._reader.is_at_end()

    def holds_from(self) -> Place:
        """What is before is not needed here. What a replay has still to read does not count."""
        begin = max(self.next, self._record.live_from)
        low = self.spool.low()
        return begin if low is None else min(low, begin)

    # The reader.

    def open(self) -> None:
        """Reads on where it is: from what it holds on, unless that is here."""
        record = self._record
        if self._reader is not None:
            self.save()
            self._reader.close()
        begin = record.next
        if record.held and self.spool.messages == 0:
            begin = record.held[0][0]  # after a restart
        # A subscription that was removed is needed as long as something of it is here. It goes here
        # and nowhere else: what this reader gives, it gives for the filters that it was made with.
        self._interest.forget_removed(min(self.spool.low() or begin, begin))
        admission = self._interest.admission(self._host.eras)
        self._reader = Reader(
            self._host.core, self._interest.filters, begin, admission, self._watch
        )
        record.held = []

    def _watch(self, reading: SubscriptionCursor) -> None:
        self._host.watch(self._record.name, reading)

    def close(self) -> None:
        """Reads no more; ``next`` stays where it is."""
        if self._reader is not None:
            self._record.next = self._reader.next
            self._reader.close()
            self._reader = None

    def abandon(self) -> None:
        """Reads no more, after the record was stored for the last time."""
        if self._reader is not None:
            self._reader.close()

    def pace(self, pacer: Pacer | None, until: Place, *, is_paused: bool) -> None:
        """Messages before ``until`` come at this pace. REQUIRES: ``open`` was called."""
        assert self._reader is not None
        self._reader.pacer = pacer
        self._reader.paced_until = until
        self._reader.is_paused = is_paused

    def set_pacer(self, pacer: Pacer) -> None:
        """Changes the pace."""
        if self._reader is not None:
            self._reader.pacer = pacer

    def set_paused(self, is_paused: bool) -> None:
        """Ends or begins a pause of what is paced."""
        if self._reader is not None:
            self._reader.is_paused = is_paused
            if self._reader.pacer is not None:
                (self._reader.pacer.pause if is_paused else self._reader.pacer.resume)()

    def end_pacing(self) -> None:
        """What comes from now on is live."""
        if self._reader is not None:
            self._reader.pacer = None
            self._reader.is_paused = False

    # The messages.

    def room(self, rows: int, *, is_replayed: bool) -> int:
        """How many messages may come now, at most ``rows``.

        Zero: nothing more is read, there is no room, or a replay gives way for ``throttled_s``.
        """
        self.throttled_s = 0.0
        if self._reader is None or self.is_full:
            return 0
        if is_replayed:
            self.throttled_s = self._host.throttle.wait_s()
        return 0 if self.throttled_s > 0 else min(rows, self._record.spool - self.spool.messages)

    def read(self, rows: int) -> Held | None:
        """The next messages of the log, at most ``rows``, for ``add``. None: nothing comes now.

        Error: they are damaged. REQUIRES: there is ``room`` for them.
        """
        assert self._reader is not None
        return self._reader.take(rows)

    def add(self, held: Held, *, is_replayed: bool) -> None:
        """What was read sits here from now on."""
        run = self._record.run
        if run is not None:
            run.done += held.count_before(run.live_from)
        held.mark_given_before(self._record.given)
        if is_replayed:
            self._host.throttle.count(len(held.owners))
        self.spool.add(held)

    def lend(
        self, client: int, count: int, accepts: Callable[[Held, int], bool] | None
    ) -> Lent | None:
        """Gives a client the first messages that wait and that it accepts, at most ``count``."""
        lent = self.spool.lend(client, count, accepts)
        if lent is not None:
            last = lent.held.place(lent.indexes[-1])
            self._record.given = max(self._record.given, last._replace(row=last.row + 1))
        return lent

    def settle(self, lents: Sequence[Lent], what: str) -> None:
        """A client is done with these: ``what`` counts them, "acknowledged" or "rejected"."""
        for lent in lents:
            self.spool.settle(lent.held, lent.indexes)
            self.count(what, len(lent.indexes))

    def count(self, what: str, number: int = 1) -> None:
        """Adds to a counter of the record."""
        counts = self._record.counts
        counts[what] = counts.get(what, 0) + number

    def clear_for(self, begin: Place) -> int:
        """Removes all messages, and returns how many there were; it will read from ``begin`` on."""
        removed = self.spool.messages
        self.spool.clear()
        self.close()
        self._record.next, self._record.held = begin, []
        self._record.given = Place(0, 0)
        return removed

    def forget_replayed(self) -> None:
        """Removes what a replay brought. What came while it ran stays: it is the endpoint's, and
        may be nowhere else."""
        live_from = self._record.live_from
        if self.next < live_from:
            self.clear_for(live_from)
        else:
            self.spool.drop_before(live_from)

    def save(self) -> None:
        """Brings the places in the record up to date."""
        if self._reader is not None:
            self._record.next = self._reader.next
            self._record.held = self.spool.runs()

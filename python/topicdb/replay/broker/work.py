"""The work of a replay into a broker: it reads, paces, sends, and sends again."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from topicdb import _core
from topicdb.forward.sink import PermanentError
from topicdb.replay.broker.link import Link, Outgoing, Publishing, Target
from topicdb.replay.broker.progress import State, Tracker
from topicdb.replay.pacing import Pacer
from topicdb.types import Message

if TYPE_CHECKING:
    from topicdb.database.database import Database

BATCH_ROWS = 1_000
_POLL_S = 0.1  # within this time the work notices what other threads ask for
_TICK_S = 0.001  # messages that are due within this time go together
_RETRY_MIN_S = 0.1


class Job(NamedTuple):
    """The options of one BrokerReplay: what it replays, to where, and how.

    Attributes:
        database: the database that is read.
        filter: the topic filter of what is replayed.
        end_us: only older messages are replayed. None: no limit.
        target: the broker.
        publishing: how messages are published.
        skips_refused: whether messages that the broker refuses are passed over. If not, the replay
            fails there.
        retry_max_s: the longest pause before the next attempt to connect.
        give_up_s: after this time of failures the replay fails. None: never.
        counts: whether the messages are counted beside the replay.
    """

    database: Database
    filter: str
    end_us: int | None
    target: Target
    publishing: Publishing
    skips_refused: bool
    retry_max_s: float
    give_up_s: float | None
    counts: bool


class Controls:
    """The requests of other threads to a replay, which ``Work`` looks at again and again.

    BrokerReplay owns this object. The condition ``changed`` guards all of it, and the pacer.
    """

    def __init__(self, pacer: Pacer) -> None:
        self.changed = threading.Condition()
        self.pacer = pacer
        self.is_paused = False
        self.seek_us: int | None = None
        self.stop_at: float | None = None  # until then, confirmations are waited for; None: goes on
        self._is_cut_off = False

    def set_paused(self, is_paused: bool) -> None:
        with self.changed:
            self.is_paused = is_paused
            self._set_pacer()

    def set_cut_off(self, is_cut_off: bool) -> None:
        """Stops the pacer without a connection, so that messages do not come all at once later."""
        with self.changed:
            self._is_cut_off = is_cut_off
            self._set_pacer()

    def _set_pacer(self) -> None:
        if self.is_paused or self._is_cut_off:
            self.pacer.pause()
        else:
            self.pacer.resume()


class _Source:
    """Reads the messages of a job from a time on, by timestamp. Not thread-safe."""

    def __init__(self, job: Job, begin_us: int) -> None:
        scan = job.database.scan(job.filter, start=begin_us, end=job.end_us, order="time", raw=True)
        self._batches = scan.batches(BATCH_ROWS)
        self._batch = _core.empty_batch()
        self._row = 0
        self._end_us = begin_us  # all older messages were read; more of this time may follow
        self._is_at_end = False

    def has_more(self) -> bool:
        if self._row < len(self._batch):
            return True
        if self._is_at_end:
            return False
        batch = next(self._batches, None)
        if batch is None:
            self._is_at_end = True
            if len(self._batch) > 0:
                self._end_us += 1  # no more of that time follow
            return False
        self._batch, self._row = batch, 0
        self._end_us = int(batch.timestamps[-1])
        return True

    @property
    def position(self) -> int:
        """A timestamp; all older messages were taken, and perhaps some of this very timestamp."""
        if self._row < len(self._batch):
            return int(self._batch.timestamps[self._row])
        return self._end_us

    def allowed(self, room: int, controls: Controls) -> tuple[list[Message], float]:
        """Returns the messages that may go now, at most ``room``, and seconds until more may go.

        The pacer counts them as gone. REQUIRES: ``has_more`` was true.
        """
        begin = self._row
        with controls.changed:
            count, wait_s = controls.pacer.allowed(self._batch.timestamps[begin : begin + room])
        return [self._batch[row] for row in range(begin, begin + count)], wait_s

    def took(self, count: int) -> None:
        """Passes by the first ``count`` of the messages that ``allowed`` has returned."""
        self._row += count

    def close(self) -> None:
        self._batches.close()  # type: ignore[attr-defined]


class _Counting:
    """Counts the messages of a replay in a thread of its own, until ``close``."""

    def __init__(self, job: Job, begin_us: int, tracker: Tracker) -> None:
        self._job, self._begin_us, self._tracker = job, begin_us, tracker
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="topicdb-count", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        total = last_us = 0
        scan = self._job.database.scan(self._job.filter, start=self._begin_us, end=self._job.end_us)
        try:
            for batch in scan.batches():
                if self._is_over:
                    return
                total += len(batch)
                last_us = max(last_us, int(batch.timestamps.max()))
        except _core.Error:
            return  # the replay itself meets this error, too
        self._tracker.counted(total, last_us)

    def close(self) -> None:
        self._is_over = True
        self._thread.join()


class Work:
    """One run of a replay into a broker.

    BrokerReplay makes a new one for each run. Not thread-safe: the thread that replays uses it.
    """

    def __init__(self, job: Job, controls: Controls, tracker: Tracker) -> None:
        self._job = job
        self._controls = controls
        self._tracker = tracker
        self._source: _Source | None = None
        self._counting: _Counting | None = None
        self._link: Link | None = None
        # Messages in order, from the first that is not settled on; the last ones may be unsent.
        self._flight: deque[Outgoing] = deque()
        self._to_send: deque[Outgoing] = deque()  # those of _flight that are to be sent, in order
        self._failures = 0  # how many there were since a message was confirmed
        self._failing_since = 0.0

    def begin(self, begin_us: int) -> None:
        """Reads from this timestamp on, and counts anew."""
        self.close_source()
        self._tracker.begin(begin_us)
        self._source = _Source(self._job, begin_us)
        if self._job.counts:
            self._counting = _Counting(self._job, begin_us, self._tracker)

    def run(self) -> bool:
        """Replays until all messages are settled, and returns true, or until it is to stop.

        A lost connection is replaced until ``give_up_s`` is over. Raises what ends the replay.
        """
        while True:
            try:
                if self._link is None:
                    if self._controls.stop_at is not None:
                        return False
                    self._connect()
                is_over = self._turn()
            except _core.Error:
                raise  # an error of the database, even if it is an OSError, too
            except OSError as error:
                self._note_failure(error)
                continue
            if is_over is not None:
                return is_over

    def _connect(self) -> None:
        self._link = self._job.target.connect()
        self._to_send = deque(message for message in self._flight if not message.is_settled)
        self._controls.set_cut_off(False)
        if self._failures > 0:
            self._tracker.reconnected(len(self._to_send))

    def _note_failure(self, error: OSError) -> None:
        self._drop_link()
        self._controls.set_cut_off(True)
        self._settle()  # some messages may have been confirmed before the failure
        now = time.monotonic()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        give_up_s = self._job.give_up_s
        if give_up_s is not None and now - self._failing_since >= give_up_s:
            raise error
        self._tracker.enter("retrying", error)
        pause_s = min(self._job.retry_max_s, _RETRY_MIN_S * 2.0 ** min(self._failures - 1, 30))
        if give_up_s is not None:
            pause_s = min(pause_s, self._failing_since + give_up_s - now)
        controls = self._controls
        with controls.changed:
            # A part of the pause is random, as other clients may have lost the same broker.
            controls.changed.wait_for(
                lambda: controls.stop_at is not None, pause_s * random.uniform(0.5, 1.0)
            )

    def _turn(self) -> bool | None:
        """Sends what may go, and reads what the broker says.

        Returns true if the replay is complete, false if it is stopped, and None if it goes on.
        """
        link, controls = self._link, self._controls
        assert link is not None
        with controls.changed:
            stop_at, seek_us, is_paused = controls.stop_at, controls.seek_us, controls.is_paused
        wait_s = _POLL_S
        if stop_at is None:
            self._send(link)
            if seek_us is None and not is_paused and self._has_more():
                wait_s = self._take(link)
        link.poll(wait_s)
        self._settle()
        if stop_at is not None:
            return False if not self._flight or time.monotonic() >= stop_at else None
        if seek_us is not None:
            if not self._flight:
                self._seek(seek_us)
            return None
        if not self._flight and not self._has_more():
            self._move(0)  # only now the position is behind the last message
            return True
        self._show_state(is_paused)
        return None

    def _has_more(self) -> bool:
        assert self._source is not None
        return self._source.has_more()

    def _send(self, link: Link) -> None:
        while self._to_send and link.room > 0:
            link.send(self._to_send[0])
            self._to_send.popleft()

    def _take(self, link: Link) -> float:
        """Sends the next messages, as far as there is room and the pace allows it.

        Returns how long to wait for the broker before the next turn, in seconds.
        """
        assert self._source is not None
        if self._to_send or link.room <= 0:
            return _POLL_S
        messages, wait_s = self._source.allowed(link.room, self._controls)
        found = [self._job.publishing.outgoing(message) for message in messages]
        self._flight.extend(found)
        self._to_send.extend(found)
        self._source.took(len(found))
        self._send(link)
        return 0.0 if wait_s == 0.0 else min(max(wait_s, _TICK_S), _POLL_S)

    def _settle(self) -> None:
        """Removes the messages from the front of ``_flight`` that are settled, and counts them."""
        assert self._source is not None
        flight, confirmed = self._flight, 0
        while flight and flight[0].is_settled:
            message = flight[0]
            if message.error is not None:
                self._refuse(message, message.error, confirmed)
            elif message.is_expired:
                self._tracker.expired()
            else:
                confirmed += 1
            flight.popleft()
        self._move(confirmed)

    def _move(self, confirmed: int) -> None:
        assert self._source is not None
        if confirmed > 0:
            self._failures = 0
        position = self._flight[0].timestamp if self._flight else self._source.position
        self._tracker.moved(position, confirmed, len(self._flight) - len(self._to_send))

    def _refuse(self, message: Outgoing, error: PermanentError, confirmed: int) -> None:
        if self._job.skips_refused:
            self._tracker.refused()
            return
        self._move(confirmed)
        raise PermanentError(
            f"topic {message.topic!r}, timestamp {message.timestamp}: {error}; "
            "refused='skip' passes over such messages"
        ) from error

    def _seek(self, to_us: int) -> None:
        self.begin(to_us)
        with self._controls.changed:
            self._controls.pacer.restart()
            if self._controls.seek_us == to_us:  # else another seek was asked for meanwhile
                self._controls.seek_us = None

    def _show_state(self, is_paused: bool) -> None:
        if not self._flight:
            self._failures = 0  # no message is left that could be confirmed
        wanted: State = "paused" if is_paused else "retrying" if self._failures else "replaying"
        if self._tracker.state != wanted:
            self._tracker.enter(wanted)

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def close_source(self) -> None:
        """Ends reading and counting. Calling it again does nothing."""
        if self._counting is not None:
            self._counting.close()
            self._counting = None
        if self._source is not None:
            self._source.close()
            self._source = None

    def close(self) -> None:
        """Ends the connection, reading and counting. Calling it again does nothing."""
        self._drop_link()
        self.close_source()

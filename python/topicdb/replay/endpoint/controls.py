"""The part of an endpoint for administrators: replays."""

from __future__ import annotations

from datetime import timedelta

from topicdb.replay.endpoint.contents import Holding
from topicdb.replay.endpoint.starting import Begin, OnEarly, ReplayStart, begin_of
from topicdb.replay.errors import ReplayError
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.replay.records import RunRecord
from topicdb.replay.states import Progress
from topicdb.times import TimeLike, duration_us, time_us

STALL_TIMEOUT = "60s"
_ALL = (1 << 63) - 1


class ReplayControls(Holding):
    """The part of an endpoint for administrators."""

    def replay(
        self,
        start: ReplayStart = "beginning",
        *,
        end: TimeLike | None = None,
        rate: str | float | None = None,
        on_early: OnEarly = "fail",
        stall_timeout: str | timedelta | None = STALL_TIMEOUT,
    ) -> None:
        """Starts a replay, as an administrator; it goes on without any action of clients.

        All messages here are removed, and all clients disconnected (ReplayStartedError). Then what
        was logged from ``start`` on and matches the subscriptions comes, as it was; what is
        committed meanwhile follows, and with that it is live.

        - ``start``: ``"beginning"``; a time (messages with that timestamp or a later one); or a
          MessageId: what follows it.
        - ``on_early``: a time before the oldest message is refused, or ``"clamp"``: the beginning.
        - ``end``: of what was logged before now, only messages with earlier timestamps.
        - ``rate``: ``"10x"``, ten times as fast as it was; messages a second; None: what clients
          take.
        - ``stall_timeout``: it fails when no client wants what waits, for so long. None: never.

        A running replay is cancelled. ReplayError: it cannot be, and then nothing is changed.
        """
        with self._lock:
            self._check_open()
            self._replaying.check_may_start()
            begin = begin_of(self.host, start, on_early)
            run = self._run("", begin, end, rate, stall_timeout)
            self._replaying.take_slot()
            self._replaying.start(begin, run, None)
        self.host.wake(self.record.name)

    def cancel_replay(self) -> None:
        """Ends the replay, deletes what of it is here, and disconnects the clients.

        ReplayError: none runs.
        """
        with self._lock:
            self._check_open()
            self._replaying.cancel()

    def pause_replay(self) -> None:
        """What was logged comes no more until ``resume_replay``. ReplayError: none runs."""
        self._set_paused(True)

    def resume_replay(self) -> None:
        """Ends a pause. ReplayError: no replay runs."""
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        with self._lock:
            self._running().paused = is_paused
            if self._reader is not None:
                self._reader.is_paused = is_paused
                if self._reader.pacer is not None:
                    (self._reader.pacer.pause if is_paused else self._reader.pacer.resume)()
            self.store()
        self.host.wake(self.record.name)

    def set_replay_rate(self, rate: str | float | None) -> None:
        """As ``rate`` of ``replay``. ReplayError: none runs. ValueError."""
        parsed = parse_rate(rate)
        with self._lock:
            self._running().rate = rate
            if self._reader is not None:
                self._reader.pacer = Pacer(parsed)
            self.store()
        self.host.wake(self.record.name)

    def seek_replay(self, start: ReplayStart, *, on_early: OnEarly = "fail") -> None:
        """Goes on elsewhere: what was replayed and is not acknowledged is removed first.

        Clients stay; what they acknowledge of that is passed over. ReplayError, as ``replay``.
        """
        with self._lock:
            run = self._running()
            begin = begin_of(self.host, start, on_early)
            self.clear_for(begin.place)
            run.start, run.begin, run.start_us = begin.text, begin.place, begin.start_us
            run.total, run.done = None, 0
            self._replaying.restart()
        self.host.wake(self.record.name)

    def progress(self) -> Progress:
        """How far the replay is. The first time, messages are counted, as ``lag`` does it."""
        run = self.record.run
        if run is not None and run.total is None:
            run.total = self._messages_of(run)
        with self._lock:
            return self._replaying.progress()

    def _running(self) -> RunRecord:
        self._check_open()
        if self.record.run is None:
            raise ReplayError(f"no replay runs on endpoint {self.record.name!r}")
        return self.record.run

    def _run(
        self,
        client: str,
        begin: Begin,
        end: TimeLike | None,
        rate: str | float | None,
        stall_timeout: str | timedelta | None,
    ) -> RunRecord:
        parse_rate(rate)
        return RunRecord(
            client,
            begin.text,
            begin.place,
            self.host.now(),
            begin.start_us,
            None if end is None else time_us(end, what="end"),
            rate,
            stall_timeout_us=None
            if stall_timeout is None
            else duration_us(stall_timeout, what="stall_timeout"),
        )

    def _messages_of(self, run: RunRecord) -> int:
        if run.live_from.serial <= run.begin.serial:
            return 0
        after, until = run.begin.serial - 1, run.live_from.serial - 1
        start_us = run.start_us or None
        return self.host.core.measure_log(0, self.filters, after, until, start_us, _ALL, _ALL)[1]

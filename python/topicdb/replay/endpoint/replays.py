"""The methods of an endpoint for its replay."""

from __future__ import annotations

from datetime import timedelta

from topicdb.arguments.times import TimeLike
from topicdb.replay.endpoint.parts import Parts
from topicdb.replay.endpoint.starting import (
    STALL_TIMEOUT,
    OnEarly,
    ReplayStart,
    begin_of,
    messages_of,
    run_of,
)
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.replay.states import Progress, State


class Replays:
    """Methods of Endpoint that hold no state. They call its parts under their lock."""

    _parts: Parts

    @property
    def state(self) -> State:
        """The state of the replay."""
        return self._parts.replaying.state

    def replay(
        self,
        start: ReplayStart = "beginning",
        *,
        end: TimeLike | None = None,
        rate: str | float | None = None,
        on_early: OnEarly = "fail",
        stall_timeout: str | timedelta | None = STALL_TIMEOUT,
    ) -> None:
        """Starts a replay, as an administrator; it needs no action of clients.

        All messages here are removed, and all clients are disconnected with ReplayStartedError. A
        replay that runs already is cancelled. Then the messages come that were logged from
        ``start`` on and match the subscriptions, unchanged. Messages that are committed meanwhile
        follow, and after that the endpoint is live again.

        Arguments:
            start: ``"beginning"``; a time, for messages with that timestamp or a later one; or a
                MessageId, for the messages after that one.
            end: of the messages that were logged before now, only those with earlier timestamps
                come. None: all.
            rate: ``"10x"`` is ten times as fast as the messages came; a number or ``"500/s"`` are
                messages a second; None is as fast as clients take them.
            on_early: what happens if ``start`` is a time before the oldest message of the log.
                ``"fail"``: raises StartTimeUnavailableError. ``"clamp"``: starts at the beginning.
            stall_timeout: the replay fails with StalledError if no more messages can come and
                clients have refused those that wait for this long, such as ``"60s"`` or a
                timedelta. It does not fail while there are no clients. None: never.

        Raises:
            ReplayError: there can be no such replay; the subclass says why, and nothing is changed.
            ValueError, TypeError: a bad option.
            ClosedError: the endpoint is closed.

        Example:
            >>> log = topicdb.replay.open(db)
            >>> endpoint = log.queue("pumps", "site/+/pump/#")
            >>> endpoint.replay("-24h", on_early="clamp")
            >>> with endpoint.bind() as flow:
            ...     flow.receive(timeout=30).value
            b'on'
            >>> log.close()
        """
        parts = self._parts
        with parts.lock:
            parts.check_open()
            parts.replaying.check_may_start()
            begin = begin_of(parts.host, start, on_early)
            run = run_of(parts.host, "", begin, end, rate, stall_timeout)
            parts.replaying.take_slot()
            parts.replaying.start(begin, run, None)
        parts.host.wake(self._parts.record.name)

    def cancel_replay(self) -> None:
        """Ends the replay, removes its messages that are here, and disconnects the clients.

        Messages that were committed since the replay began stay. Clients are told
        ReplayCancelledError.

        Raises:
            ReplayError: no replay runs.
            ClosedError: the endpoint is closed.
        """
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.cancel()

    def pause_replay(self) -> None:
        """Lets no more replayed messages come until ``resume_replay``.

        Messages that are committed meanwhile wait, too, to keep their order.

        Raises:
            ReplayError: no replay runs.
            ClosedError: the endpoint is closed.
        """
        self._set_paused(True)

    def resume_replay(self) -> None:
        """Ends a pause.

        Raises:
            ReplayError: no replay runs.
            ClosedError: the endpoint is closed.
        """
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.set_paused(is_paused)
        self._parts.host.wake(self._parts.record.name)

    def set_replay_rate(self, rate: str | float | None) -> None:
        """Changes the rate of the replay from now on.

        Arguments:
            rate: as in ``replay``.

        Raises:
            ValueError, TypeError: it is no rate.
            ReplayError: no replay runs.
            ClosedError: the endpoint is closed.
        """
        pacer = Pacer(parse_rate(rate))
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.set_rate(rate, pacer)
        self._parts.host.wake(self._parts.record.name)

    def seek_replay(self, start: ReplayStart, *, on_early: OnEarly = "fail") -> None:
        """Moves the replay to another start, and removes the messages that are here first.

        Clients stay connected, and their windows have room for others. If they acknowledge, reject
        or release messages that were removed, that is ignored: these are not counted.

        Arguments:
            start: as in ``replay``.
            on_early: as in ``replay``.

        Raises:
            ReplayError: no replay runs, or there is no such start.
            ValueError, TypeError: a bad option.
            ClosedError: the endpoint is closed.
        """
        parts = self._parts
        with parts.lock:
            parts.check_open()
            parts.replaying.check_runs()
            parts.replaying.seek(begin_of(parts.host, start, on_early))
        parts.host.wake(self._parts.record.name)

    def progress(self) -> Progress:
        """Returns how far the replay is.

        The first call in a replay counts its messages, which takes as long as ``lag``.
        """
        parts = self._parts
        with parts.lock:
            run, filters = parts.record.run, parts.interest.filters
        if run is not None and run.total is None:  # without the lock: it takes a while
            run.total = messages_of(parts.host.core, filters, run)
        with parts.lock:
            return parts.replaying.progress()

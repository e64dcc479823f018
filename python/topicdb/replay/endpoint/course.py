"""Decides what becomes of the replay on an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from topicdb.follow.positions import Place
from topicdb.replay.records import RunRecord
from topicdb.replay.states import Progress, State


class Course:
    """The state of the replay on one endpoint, and what decides about the next one.

    Its owner, ``Replaying``, locks it, tells it what it sees and what time it is, and does what a
    new state needs. It uses no database.
    """

    def __init__(self, stored: State, now_s: float) -> None:
        """``stored``: the state in which the process before has left it."""
        self.state = stored
        self.is_sought = False  # the replay was moved while clients had messages of it
        self._unaware: set[Hashable] = set()
        self._started_s = now_s
        self._refused_since_s: float | None = None
        if stored is State.FAILED:
            self.state = State.NONE  # nobody is left to be told
        if stored is State.ACTIVE:
            self.state = State.INITIALIZING  # goes on where it was

    def begin(self, now_s: float) -> None:
        """A new replay starts."""
        self.is_sought = False
        self._unaware.clear()
        self._started_s = now_s
        self._refused_since_s = None

    def seek(self, now_s: float) -> None:
        """The replay is moved."""
        self.is_sought = True
        self._started_s = now_s

    def following(
        self, has_read_all: Callable[[], bool], has_replayed_left: Callable[[], bool]
    ) -> State | None:
        """The state that follows on what was read and acknowledged; None: this one stays."""
        if self.state is State.ACTIVE and has_read_all():
            return State.PENDING_COMPLETE
        if self.state is State.PENDING_COMPLETE and not has_replayed_left():
            return State.COMPLETE
        return None

    def wants_more(self, is_half_empty: bool) -> bool:
        """Whether it is time to read on, or to look whether the replay is complete."""
        if self.state is State.PENDING_COMPLETE:
            return True
        return is_half_empty and self.state.runs

    # Clients that have to know of a failure.

    def fail(self, unaware: Iterable[Hashable]) -> None:
        """These clients were disconnected, and do not know it yet."""
        self._unaware = set(unaware)

    def acknowledged_by(self, client: Hashable) -> None:
        """The client knows that it was disconnected."""
        self._unaware.discard(client)

    @property
    def all_know_of_failure(self) -> bool:
        """Whether a failure is over, as nobody is left to be told."""
        return self.state is State.FAILED and not self._unaware

    # Standing still.

    def note_progress(self) -> None:
        """A client took a message, or has room for none."""
        self._refused_since_s = None

    def note_refusal(self, now_s: float) -> None:
        """A client has room, and wants nothing of what waits."""
        if self._refused_since_s is None:
            self._refused_since_s = now_s

    def has_stalled(self, run: RunRecord, is_full: bool, now_s: float) -> bool:
        """Whether nothing more can come, and clients refused what waits for too long."""
        since_s = self._refused_since_s
        if run.stall_timeout_us is None or since_s is None:
            return False
        is_stuck = is_full or self.state is State.PENDING_COMPLETE
        return is_stuck and now_s - since_s >= run.stall_timeout_us / 1e6

    def progress(self, run: RunRecord | None, next: Place, now_s: float) -> Progress:
        """How far the replay is."""
        position = f"{next.serial}-{next.row}"
        if run is None:
            return Progress(self.state, position, 0, 0, 0.0, 0.0, None)
        elapsed = now_s - self._started_s
        per_s = run.done / elapsed if elapsed > 0 else 0.0
        total = max(run.total or 0, run.done)
        left = total - run.done
        eta = left / per_s if per_s > 0 and not run.paused else None
        return Progress(
            self.state, position, run.done, total, per_s, elapsed, 0.0 if left == 0 else eta
        )

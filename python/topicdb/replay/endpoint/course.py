"""Decides which state follows in the replay on an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from topicdb.follow.positions import Place
from topicdb.replay.records import RunRecord
from topicdb.replay.states import Progress, State


class Course:
    """The state of the replay on one endpoint, and all that decides about the next state.

    Its owner, ``Replaying``, calls it with the endpoint's lock held, tells it what happens and what
    time it is, and does what a new state needs. This class uses no database.
    """

    def __init__(self, stored: State, now_s: float) -> None:
        """Begins with the state that an earlier process has stored."""
        self.state = stored
        self._unaware: set[Hashable] = set()
        self._started_s = now_s
        self._refused_since_s: float | None = None
        if stored is State.FAILED:
            self.state = State.NONE  # no client is left that has to know of the failure
        if stored is State.ACTIVE:
            self.state = State.INITIALIZING  # the replay goes on where it was

    def begin(self, now_s: float) -> None:
        """Notes that a new replay starts."""
        self._unaware.clear()
        self._started_s = now_s
        self._refused_since_s = None

    def seek(self, now_s: float) -> None:
        """Notes that the replay is moved."""
        self._started_s = now_s

    def following(
        self, has_read_all: Callable[[], bool], has_replayed_left: Callable[[], bool]
    ) -> State | None:
        """Returns the state that follows, or None if the replay stays in its state."""
        if self.state is State.ACTIVE and has_read_all():
            return State.PENDING_COMPLETE
        if self.state is State.PENDING_COMPLETE and not has_replayed_left():
            return State.COMPLETE
        return None

    def wants_more(self, is_half_empty: bool) -> bool:
        """Returns whether it is time to read on, or to look whether the replay is complete."""
        if self.state is State.PENDING_COMPLETE:
            return True
        return is_half_empty and self.state.runs

    # Clients that have to know of a failure.

    def fail(self, unaware: Iterable[Hashable]) -> None:
        """Notes the clients that were disconnected and do not know it yet."""
        self._unaware = set(unaware)

    def acknowledged_by(self, client: Hashable) -> None:
        """Notes that a client knows that it was disconnected."""
        self._unaware.discard(client)

    @property
    def all_know_of_failure(self) -> bool:
        """Whether the replay has failed, and all clients that were disconnected know it."""
        return self.state is State.FAILED and not self._unaware

    # Standing still.

    def note_progress(self) -> None:
        """Notes that a client took, settled or gave up messages."""
        self._refused_since_s = None

    def note_refusal(self, now_s: float) -> None:
        """Notes that a client has room, but accepts none of the messages that wait."""
        if self._refused_since_s is None:
            self._refused_since_s = now_s

    def has_stalled(self, run: RunRecord, is_full: bool, now_s: float) -> bool:
        """Returns whether clients have refused the messages that wait for too long.

        That counts only if no others can come: the endpoint is full, or the log is at its end.
        """
        since_s = self._refused_since_s
        if run.stall_timeout_us is None or since_s is None:
            return False
        is_stuck = is_full or self.state is State.PENDING_COMPLETE
        return is_stuck and now_s - since_s >= run.stall_timeout_us / 1e6

    def progress(self, run: RunRecord | None, next: Place, now_s: float) -> Progress:
        """Returns how far the replay is, if it reads on at ``next``."""
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

"""The replay on an endpoint: its states, and what each change does."""

from __future__ import annotations

import logging
import time
import warnings
from typing import TYPE_CHECKING

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.interest import Wanting
from topicdb.replay.endpoint.reading import first_wanted
from topicdb.replay.endpoint.starting import Begin
from topicdb.replay.errors import (
    MessageUnavailableError,
    ReplayCancelledError,
    ReplayDisabledError,
    ReplayError,
    ReplayStartedError,
    StalledError,
    TemporaryEndpointError,
)
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.replay.records import RunRecord
from topicdb.replay.states import Event, Progress, State
from topicdb.times import now_us

if TYPE_CHECKING:
    from topicdb.replay.endpoint.contents import Holding
    from topicdb.replay.endpoint.flow import Flow

_logger = logging.getLogger("topicdb.replay")


class Replaying:
    """Of one endpoint. All methods are called with the endpoint's lock held."""

    def __init__(self, endpoint: Holding) -> None:
        self._endpoint = endpoint
        self._record = endpoint.record
        self.state = State(self._record.state)
        self._unaware: set[Flow] = set()  # of a failure: they were disconnected, and know nothing
        self._started_s = time.monotonic()
        self._stalled_since_s: float | None = None
        self.is_sought = False
        if self.state is State.FAILED:
            self.state = State.NONE  # nobody is left to be told
        if self.state is State.ACTIVE:
            self.state = State.INITIALIZING  # goes on where it was

    @property
    def run(self) -> RunRecord | None:
        """The replay that runs."""
        return self._record.run

    @property
    def live_from(self) -> Place:
        """Messages before are replayed."""
        return Place(0, 0) if self.run is None else self.run.live_from

    def check_may_start(self) -> None:
        """ReplayError: not on this endpoint, not now."""
        if not self._record.durable:
            raise TemporaryEndpointError(f"endpoint {self._record.name!r} is temporary: no replays")
        if not self._endpoint.host.egress:
            raise ReplayDisabledError(
                f"the egress of replay log {self._endpoint.host.name!r} is switched off"
            )

    def take_slot(self) -> None:
        """OutOfResourcesError: too many replays run in this log."""
        self._endpoint.host.take_slot(self._record.name)

    def start(self, begin: Begin, run: RunRecord, requester: Flow | None) -> None:
        """Removes all messages, disconnects all but the requester, and begins anew.

        REQUIRES: it has a slot.
        """
        endpoint = self._endpoint
        if self.state.runs:
            self._endpoint.end_pacing()
            self._become(State.NONE, ReplayStartedError.reason, "another replay starts")
        error = ReplayStartedError(
            f"a replay was started on endpoint {self._record.name!r}: it disconnects all clients"
        )
        endpoint.disconnect_all(error, but=requester)
        removed = endpoint.clear_for(begin.place)
        self._unaware.clear()
        kept = [one for one in self._record.subscriptions if one.until is None]
        self._record.subscriptions[:] = kept
        self._record.run = run
        self._record.last_start = [now_us(), run.started_by, begin.text]
        self.is_sought = False
        self._started_s = time.monotonic()
        self._stalled_since_s = None
        who = run.started_by or "an administrator"
        text = f"{who} starts a replay from {begin.text}; {removed} messages were removed"
        self._become(State.INITIALIZING, "", text)
        if requester is not None:
            self.warn_of_selector(requester)

    def restart(self) -> None:
        """After the run was moved: reads from there."""
        self.is_sought = True
        self._started_s = time.monotonic()
        self._become(State.INITIALIZING, "", "goes on elsewhere")

    def warn_of_selector(self, flow: Flow) -> None:
        """An exclusive endpoint's client that passes messages by lets the replay stand still."""
        if flow.selector is None or not self._record.exclusive or not self.state.runs:
            return
        text = (
            f"endpoint {self._record.name!r} is exclusive, and the selector of client "
            f"{flow.client!r} may leave replayed messages there for ever: the replay would stall"
        )
        self._endpoint.host.emit(self._event(self.state, "", text))
        warnings.warn(text, RuntimeWarning, stacklevel=5)

    def step(self) -> None:
        """Goes on, if there is reason to."""
        if self.state is State.INITIALIZING:
            self._activate()
        endpoint = self._endpoint
        if self.state is State.ACTIVE and endpoint.has_read_all():
            self._become(State.PENDING_COMPLETE, "", "the end of the log was reached")
        # After a restart, what is held is read again first.
        is_left = endpoint.next < self.live_from or endpoint.spool.has_before(self.live_from)
        if self.state is State.PENDING_COMPLETE and not is_left:
            self._complete()
        if self.state.runs:
            self._check_progress()

    def _activate(self) -> None:
        assert self.run is not None
        if (error := self.misses(self._endpoint.host.first)) is not None:
            self.fail(error)
            return
        reader = self._endpoint.open_reader()
        reader.pacer = None if self.run.rate is None else Pacer(parse_rate(self.run.rate))
        reader.paced_until = self.run.live_from
        reader.is_paused = self.run.paused
        self._become(State.ACTIVE, "", "messages are replayed")

    def _complete(self) -> None:
        self._record.last_complete = [now_us()]
        self._end_run(State.COMPLETE, "", "all replayed messages are acknowledged")

    def fail(self, error: ReplayError) -> None:
        """Deletes the replayed messages, and disconnects the clients; it waits until they know."""
        self._record.last_failure = [now_us(), error.reason, str(error)]
        self._unaware = set(self._endpoint.disconnect_all(error))
        self._forget_replayed()
        self._end_run(State.FAILED, error.reason, str(error))
        self._endpoint.open_reader()
        self._forget_aware()

    def cancel(self) -> None:
        """Ends it. ReplayError: none runs."""
        if not self.state.runs:
            raise ReplayError(f"no replay runs on endpoint {self._record.name!r}")
        name = self._record.name
        error = ReplayCancelledError(f"the replay on endpoint {name!r} was cancelled")
        self._endpoint.disconnect_all(error)
        self._forget_replayed()
        self._end_run(State.NONE, error.reason, str(error))
        self._endpoint.open_reader()

    def acknowledged_by(self, flow: Flow) -> None:
        """A client knows that it was disconnected."""
        self._unaware.discard(flow)
        self._forget_aware()

    def _forget_aware(self) -> None:
        if self.state is State.FAILED and not self._unaware:
            self._become(State.NONE, "", "all clients know of the failure")

    def _forget_replayed(self) -> None:
        """What came while it ran stays: it is the endpoint's, and may be nowhere else."""
        endpoint, live_from = self._endpoint, self.live_from
        if endpoint.next < live_from:
            endpoint.clear_for(live_from)
        else:
            endpoint.spool.drop_before(live_from)

    def _end_run(self, state: State, reason: str, text: str) -> None:
        self._endpoint.host.give_slot(self._record.name)
        self._endpoint.end_pacing()
        self._record.run = None
        self._become(state, reason, text)

    def _become(self, state: State, reason: str, text: str) -> None:
        event = self._event(state, reason, text)
        self.state = state
        self._record.state = state.value
        if state is State.ACTIVE:  # after a crash it is initialized anyway
            self._endpoint.touch()
        else:
            self._endpoint.store()
        self._endpoint.host.emit(event)
        _logger.info("%s: %s -> %s: %s", *event[1:4], text)

    def tell(self, text: str) -> None:
        """Something to know, without a change."""
        self._endpoint.host.emit(self._event(self.state, "", text))
        _logger.warning("endpoint %s: %s", self._record.name, text)

    def _event(self, state: State, reason: str, text: str) -> Event:
        return Event(now_us(), self._record.name, self.state, state, reason, text)

    # What may end it.

    def misses(self, first: Place) -> ReplayError | None:
        """The reason, if messages before ``first`` are gone from the log that it has still to read.

        REQUIRES: they are still stored.
        """
        run = self.run
        if run is None or self.state is State.PENDING_COMPLETE:
            return None
        begin, until = self._endpoint.next, min(first, run.live_from)
        if begin >= until:
            return None
        host = self._endpoint.host
        wanting = Wanting(self._record, host.eras, self._endpoint.accepts)
        if first_wanted(host.core, self._endpoint.filters, begin, until, wanting) is None:
            return None
        return self.unavailable("were trimmed from the log")

    def unavailable(self, what: str) -> MessageUnavailableError:
        """That messages are gone."""
        return MessageUnavailableError(
            f"messages that the replay on endpoint {self._record.name!r} had still to read {what}"
        )

    def note_progress(self) -> None:
        """A client took a message, or has room for none."""
        self._stalled_since_s = None

    def note_refusal(self) -> None:
        """A client has room, and wants nothing of what waits."""
        if self._stalled_since_s is None:
            self._stalled_since_s = time.monotonic()

    def _check_progress(self) -> None:
        run, since = self.run, self._stalled_since_s
        if run is None or run.stall_timeout_us is None or since is None:
            return
        stuck = self._endpoint.is_full or self.state is State.PENDING_COMPLETE
        if stuck and time.monotonic() - since >= run.stall_timeout_us / 1e6:
            self.fail(
                StalledError(
                    f"the replay on endpoint {self._record.name!r} went no farther for "
                    f"{run.stall_timeout_us / 1e6} s: no client's selector lets the waiting "
                    "messages pass"
                )
            )

    def progress(self) -> Progress:
        """How far it is."""
        run = self.run
        elapsed = time.monotonic() - self._started_s
        if run is None:
            return Progress(self.state, _text(self._endpoint.next), 0, 0, 0.0, 0.0, None)
        per_s = run.done / elapsed if elapsed > 0 else 0.0
        total = max(run.total or 0, run.done)
        left = total - run.done
        eta = left / per_s if per_s > 0 and not run.paused else None
        return Progress(
            self.state,
            _text(self._endpoint.next),
            run.done,
            total,
            per_s,
            elapsed,
            0.0 if left == 0 else eta,
        )


def _text(place: Place) -> str:
    return f"{place.serial}-{place.row}"

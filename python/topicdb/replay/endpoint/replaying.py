"""The replay on an endpoint: its states, and what each change does."""

from __future__ import annotations

import logging
import time
import warnings
from typing import TYPE_CHECKING

from topicdb.arguments.times import now_us
from topicdb.follow.losses import Loss
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.clients import Clients
from topicdb.replay.endpoint.contents import Contents
from topicdb.replay.endpoint.course import Course
from topicdb.replay.endpoint.interest import Interest
from topicdb.replay.endpoint.reading import first_wanted
from topicdb.replay.endpoint.saving import Saving
from topicdb.replay.endpoint.starting import Begin
from topicdb.replay.errors import (
    EndpointModifiedError,
    InactiveFlowError,
    MessageUnavailableError,
    NonExclusiveError,
    ReplayCancelledError,
    ReplayDisabledError,
    ReplayError,
    ReplayStartedError,
    StalledError,
    TemporaryEndpointError,
)
from topicdb.replay.host import Host
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.replay.records import EndpointRecord, RunRecord
from topicdb.replay.states import Event, Progress, State

if TYPE_CHECKING:
    from topicdb.replay.endpoint.flow import Flow

_logger = logging.getLogger("topicdb.replay")


class Replaying:
    """The replay on one endpoint: does what each state and each change of state needs.

    ``Course`` decides about the states; the other parts hold the messages and clients, and store
    the endpoint. The endpoint's ``Parts`` own this object, and their lock is held for every call.
    """

    def __init__(
        self,
        host: Host,
        record: EndpointRecord,
        interest: Interest,
        contents: Contents,
        clients: Clients,
        saving: Saving,
    ) -> None:
        self._host = host
        self._record = record
        self._interest = interest
        self._contents = contents
        self._clients = clients
        self._saving = saving
        self._course = Course(State(record.state), time.monotonic())

    @property
    def state(self) -> State:
        return self._course.state

    @property
    def wants_more(self) -> bool:
        """Whether it is time to read on, or to look whether the replay is complete."""
        return self._course.wants_more(self._contents.is_half_empty)

    def resume(self) -> None:
        """Goes on where an earlier process has left the endpoint, once it is opened.

        Raises OutOfResourcesError if too many replays run in this log.
        """
        if self.state is not State.INITIALIZING:
            self._contents.open()
        if self.state.runs:
            self.take_slot()

    def check_may_start(self, *, by_client: bool = False) -> None:
        """Raises ReplayError if there can be no replay on this endpoint, or not now.

        ``by_client``: whether a client starts it, and not an administrator.
        """
        if not self._record.durable:
            self._check_temporary(by_client)
        if not self._host.egress:
            raise ReplayDisabledError(
                f"the egress of replay log {self._host.name!r} is switched off"
            )

    def _check_temporary(self, by_client: bool) -> None:
        name = self._record.name
        if not self._host.temporary_replays:
            raise TemporaryEndpointError(
                f"endpoint {name!r} is temporary, and replay log {self._host.name!r} allows no "
                "replays there: see temporary_replays"
            )
        if not by_client:  # its clients would be disconnected, and it goes with the last of them
            raise TemporaryEndpointError(
                f"endpoint {name!r} is temporary: only its client may start a replay, when it binds"
            )

    def check_client_may_start(self) -> None:
        """Raises ReplayError if a client that is about to be bound cannot have a replay here."""
        name = self._record.name
        if not self._record.exclusive:
            raise NonExclusiveError(
                f"endpoint {name!r} is not exclusive: only an administrator starts a replay"
            )
        self.check_may_start(by_client=True)
        active = self._clients.active
        if active is not None:
            raise InactiveFlowError(
                f"client {active.client!r} is the active one of endpoint {name!r}: another cannot "
                "start a replay"
            )

    def take_slot(self) -> None:
        """Counts the replay in the log.

        Raises OutOfResourcesError if too many replays run there.
        """
        self._host.take_slot(self._record.name)

    def start(self, begin: Begin, run: RunRecord, requester: Flow | None) -> None:
        """Starts a replay: removes all messages, and disconnects all clients but the requester.

        REQUIRES: ``take_slot`` was called.
        """
        record = self._record
        if self.state.runs:
            self._contents.end_pacing()
            self._become(State.NONE, ReplayStartedError.reason, "another replay starts")
        error = ReplayStartedError(
            f"a replay was started on endpoint {record.name!r}: it disconnects all clients"
        )
        self._disconnect_all(error, but=requester)
        removed = self._contents.clear_for(begin.place, Place(0, 0))
        self._interest.forget_removed()
        record.run = run
        record.last_start = [now_us(), run.started_by, begin.text]
        self._course.begin(time.monotonic())
        who = run.started_by or "an administrator"
        text = f"{who} starts a replay from {begin.text}; {removed} messages were removed"
        self._become(State.INITIALIZING, "", text)
        if requester is not None:
            self.warn_of_selector(requester)

    def _disconnect_all(self, error: ReplayError, but: Flow | None = None) -> list[Flow]:
        gone = self._clients.disconnect_all(error, but)
        if gone:
            self.note_progress()  # another client may accept the messages that wait
            self._saving.touch()
        return gone

    def warn_of_selector(self, flow: Flow) -> None:
        """Warns if a client's selector may stall the replay on an exclusive endpoint.

        Nobody else can take the messages that the client does not accept.
        """
        if flow.selector is None or not self._record.exclusive or not self.state.runs:
            return
        text = (
            f"endpoint {self._record.name!r} is exclusive, and the selector of client "
            f"{flow.client!r} may leave replayed messages there for ever: the replay would stall"
        )
        self._host.emit(self._event(self.state, "", text))
        warnings.warn(text, RuntimeWarning, stacklevel=5)

    def step(self) -> None:
        """Enters the states that follow, and fails the replay if it has stalled."""
        if self.state is State.INITIALIZING:
            self._activate()
        contents = self._contents
        while (
            state := self._course.following(
                contents.has_read_all, lambda: contents.has_replayed_left
            )
        ) is not None:
            if state is State.COMPLETE:
                self._complete()
            else:
                self._become(state, "", "the end of the log was reached")
        if self.state.runs:
            self._check_progress()

    def _activate(self) -> None:
        run = self._record.run
        assert run is not None
        if (error := self._misses(self._host.first)) is not None:
            self.fail(error)
            return
        self._contents.open()
        pacer = None if run.rate is None else Pacer(parse_rate(run.rate))
        self._contents.pace(pacer, run.live_from, is_paused=run.paused)
        self._become(State.ACTIVE, "", "messages are replayed")

    def _complete(self) -> None:
        self._record.last_complete = [now_us()]
        self._end_run(State.COMPLETE, "", "all replayed messages are acknowledged")

    def fail(self, error: ReplayError) -> None:
        """Fails the replay: removes the replayed messages, and disconnects the clients.

        The state is FAILED until all these clients know it.
        """
        self._record.last_failure = [now_us(), error.reason, str(error)]
        self._course.fail(self._disconnect_all(error))
        self._contents.forget_replayed()
        self._end_run(State.FAILED, error.reason, str(error))
        self._contents.open()
        self._forget_failure()

    def cancel(self) -> None:
        """Ends the replay at the wish of an administrator. Raises ReplayError if none runs."""
        name = self._record.name
        if not self.state.runs:
            raise ReplayError(f"no replay runs on endpoint {name!r}")
        error = ReplayCancelledError(f"the replay on endpoint {name!r} was cancelled")
        self._disconnect_all(error)
        self._contents.forget_replayed()
        self._end_run(State.NONE, error.reason, str(error))
        self._contents.open()

    def drop(self) -> None:
        """Gives the slot of a replay back, as the endpoint is dropped."""
        if self.state.runs:
            self._host.give_slot(self._record.name)

    def acknowledged_by(self, flow: Flow) -> None:
        """Notes that a client knows that it was disconnected."""
        self._course.acknowledged_by(flow)
        self._forget_failure()

    def _forget_failure(self) -> None:
        if self._course.all_know_of_failure:
            self._become(State.NONE, "", "all clients know of the failure")

    def _end_run(self, state: State, reason: str, text: str) -> None:
        self._host.give_slot(self._record.name)
        self._contents.end_pacing()
        self._record.run = None
        self._become(state, reason, text)

    def _become(self, state: State, reason: str, text: str) -> None:
        event = self._event(state, reason, text)
        self._course.state = state
        self._record.state = state.value
        if state is State.ACTIVE:  # it need not be stored at once: a restart initializes it anyway
            self._saving.touch()
        else:
            self._saving.store()
        self._host.emit(event)
        _logger.info("%s: %s -> %s: %s", *event[1:4], text)

    def _tell(self, text: str) -> None:
        self._host.emit(self._event(self.state, "", text))
        _logger.warning("endpoint %s: %s", self._record.name, text)

    def _event(self, state: State, reason: str, text: str) -> Event:
        return Event(now_us(), self._record.name, self.state, state, reason, text)

    # Changes by an administrator while the replay runs.

    def set_paused(self, is_paused: bool) -> None:
        """Begins or ends a pause. Raises ReplayError if no replay runs."""
        self._running().paused = is_paused
        self._contents.set_paused(is_paused)
        self._saving.store()

    def set_rate(self, rate: str | float | None, pacer: Pacer) -> None:
        """Changes the rate, to that of ``pacer``. Raises ReplayError if no replay runs."""
        self._running().rate = rate
        self._contents.set_pacer(pacer)
        self._saving.store()

    def seek(self, begin: Begin) -> None:
        """Moves the replay to another start, and removes the messages that are here first.

        REQUIRES: a replay runs.
        """
        run = self._running()
        self._contents.clear_for(begin.place, run.live_from)
        self._clients.recount()
        run.start, run.begin, run.start_us = begin.text, begin.place, begin.start_us
        run.total, run.done = None, 0
        self._course.seek(time.monotonic())
        self._become(State.INITIALIZING, "", "goes on elsewhere")

    def check_runs(self) -> None:
        """Raises ReplayError if no replay runs."""
        self._running()

    def _running(self) -> RunRecord:
        if self._record.run is None:
            raise ReplayError(f"no replay runs on endpoint {self._record.name!r}")
        return self._record.run

    # Events that may end the replay.

    def modified(self, what: str) -> None:
        """Fails the replay if one runs, as the endpoint is about to be changed in this way."""
        if self.state.runs:
            name = self._record.name
            self.fail(EndpointModifiedError(f"endpoint {name!r} was changed in a replay: {what}"))

    def trimmed(self, first: Place) -> None:
        """Fails the replay if it has still to read messages before ``first``.

        The log will be trimmed there. REQUIRES: these messages are still stored.
        """
        if (error := self._misses(first)) is not None:
            self.fail(error)

    def lost(self, loss: Loss) -> None:
        """Notes that messages were dropped before the reader had them; it has come to that now.

        If the reader comes to it in a replay, the replay fails, unless the log itself has dropped
        them: ``trimmed`` has looked then whether the replay wants any. Otherwise the messages are
        counted, which may be more than the endpoint wanted, and an event is emitted.
        """
        if self._record.run is not None and self._contents.lost_from < self._record.live_from:
            if not self._host.has_dropped(loss):
                self.fail(self._unavailable("were dropped by retention"))
        elif (more := self._contents.count_lost(loss)) > 0:
            self._saving.touch()
            self._tell(f"up to {more:,} messages that had not come yet were dropped by retention")

    def read_failed(self, error: Exception) -> bool:
        """Fails the replay if the messages that cannot be read belong to it. Returns whether so.

        As long as messages that came before are here, it only waits: when they are acknowledged,
        reading fails once more.
        """
        if not (self.state.runs and self._has_still_to_read):
            return False
        if not self._contents.spool.has_before(self._record.live_from):
            self.fail(self._unavailable(f"cannot be read: {error}"))
        return True

    @property
    def _has_still_to_read(self) -> bool:
        return self._record.run is not None and self._contents.next < self._record.live_from

    def _misses(self, first: Place) -> ReplayError | None:
        """Returns the error if the replay has still to read messages before ``first``, or None.

        REQUIRES: these messages are still stored.
        """
        run = self._record.run
        if run is None or self.state is State.PENDING_COMPLETE:
            return None
        begin, until = self._contents.next, min(first, run.live_from)
        if begin >= until:
            return None
        admission = self._interest.admission(self._host.eras)
        filters = self._interest.filters
        if first_wanted(self._host.core, filters, begin, until, admission) is None:
            return None
        return self._unavailable("were trimmed from the log")

    def _unavailable(self, what: str) -> MessageUnavailableError:
        return MessageUnavailableError(
            f"messages that the replay on endpoint {self._record.name!r} had still to read {what}"
        )

    def note_progress(self) -> None:
        """Notes that a client took, settled or gave up messages."""
        self._course.note_progress()

    def note_refusal(self) -> None:
        """Notes that a client has room, but accepts none of the messages that wait."""
        self._course.note_refusal(time.monotonic())

    def _check_progress(self) -> None:
        run = self._record.run
        if run is None or not self._course.has_stalled(
            run, self._contents.is_full, time.monotonic()
        ):
            return
        assert run.stall_timeout_us is not None
        self.fail(
            StalledError(
                f"the replay on endpoint {self._record.name!r} went no farther for "
                f"{run.stall_timeout_us / 1e6} s: no client's selector lets the waiting "
                "messages pass"
            )
        )

    def progress(self) -> Progress:
        """Returns how far the replay is."""
        return self._course.progress(self._record.run, self._contents.next, time.monotonic())

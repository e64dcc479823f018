"""Named queues and topic endpoints, to which messages of the log come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from topicdb import _core
from topicdb.errors import AccessError
from topicdb.follow.positions import Place, lag_of
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.parts import Parts
from topicdb.replay.endpoint.starting import (
    STALL_TIMEOUT,
    OnEarly,
    ReplayStart,
    begin_of,
    messages_of,
    run_of,
)
from topicdb.replay.errors import (
    BrowserError,
    EndpointModifiedError,
    InactiveFlowError,
    NonExclusiveError,
    ReplayError,
)
from topicdb.replay.host import Host
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.replay.records import EndpointRecord
from topicdb.replay.selector.properties import selector_of
from topicdb.replay.states import Progress, State
from topicdb.times import TimeLike

WINDOW = 1_000
_RIGHTS = ("none", "read", "consume")


class Endpoint:
    """A queue, or a topic endpoint; made by ``ReplayLog.queue`` and ``ReplayLog.topic_endpoint``.

    Messages that match its subscriptions come to it as they are committed, and stay until a client
    acknowledges them. They are read from the store, of which only so many as ``spool`` sit here.

    Thread-safe. A durable endpoint outlasts its clients and the process; acknowledgements are
    stored within a second (``ReplayLog.flush`` does it at once): after a crash those of the last
    moments come again. A temporary one ends with its last client.
    """

    # Every method takes the lock of the parts, which do the work.

    def __init__(self, host: Host, record: EndpointRecord, store_interval_s: float) -> None:
        self._parts = Parts(host, record, store_interval_s)

    @property
    def record(self) -> EndpointRecord:
        """For the log: what is stored of it."""
        return self._parts.record

    # What it is.

    @property
    def name(self) -> str:
        """Unique in its log."""
        return self.record.name

    @property
    def is_exclusive(self) -> bool:
        """Whether only one client at a time is given messages."""
        return self.record.exclusive

    @property
    def subscriptions(self) -> list[str]:
        """Its topic filters."""
        with self._parts.lock:
            return self._parts.interest.subscriptions

    @property
    def selector(self) -> str | None:
        """Of a topic endpoint: what decides which messages come to it."""
        return self.record.selector

    @property
    def state(self) -> State:
        """Of the replay."""
        return self._parts.replaying.state

    @property
    def closed(self) -> bool:
        """Its log was closed, or it was dropped."""
        return self._parts.closed

    def info(self) -> dict[str, Any]:
        """How it stands.

        ``state``; ``messages``, that sit here, and their ``bytes``; ``clients``; ``last_start``
        (time in µs, client or "", from where), ``last_complete`` (time), ``last_failure`` (time,
        reason, text), each None if there was none; ``counts``: ``acknowledged`` and ``rejected``
        messages, and how often some were ``lost`` because retention dropped them.
        """
        parts = self._parts
        with parts.lock:
            record = parts.record
            return {
                "name": record.name,
                "kind": record.kind,
                "exclusive": record.exclusive,
                "durable": record.durable,
                "subscriptions": parts.interest.subscriptions,
                "selector": record.selector,
                "state": parts.replaying.state.value,
                "messages": parts.contents.spool.messages,
                "bytes": parts.contents.spool.nbytes,
                "clients": parts.clients.names,
                "last_start": record.last_start,
                "last_complete": record.last_complete,
                "last_failure": record.last_failure,
                "counts": {"acknowledged": 0, "rejected": 0, "lost": 0, **record.counts},
            }

    def lag(self) -> int:
        """Messages that are stored and did not come here yet: about, as ``Subscription.lag``."""
        with self._parts.lock:
            place, filters = self._parts.contents.next, self._parts.interest.filters
        return lag_of(self._parts.host.core, filters, 0, {0: place})

    # Subscriptions.

    def subscribe(self, filter: str) -> None:
        """Messages of this filter come, too, from now on. May be repeated.

        Fails a replay that runs. TopicError; ValueError: a topic endpoint has one.
        """
        _core.check_filter(filter)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if parts.record.kind == "topic":
                raise ValueError(
                    f"topic endpoint {self.name!r} has one subscription: see Endpoint.change"
                )
            if filter not in parts.interest.subscriptions:
                self._modified(f"subscription {filter!r} was added")
                parts.interest.add(filter, parts.host.now())
                parts.reread()

    def unsubscribe(self, filter: str) -> None:
        """Nothing more of this filter comes; what is here stays. ValueError: there is none.

        Fails a replay that runs.
        """
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if filter not in parts.interest.subscriptions or parts.record.kind == "topic":
                raise ValueError(f"{self.name!r} has no subscription {filter!r} to remove")
            self._modified(f"subscription {filter!r} was removed")
            parts.interest.remove(filter, parts.host.now())
            parts.reread()

    def change(self, filter: str, selector: str | None = None) -> None:
        """Of a topic endpoint: another subscription and selector. All messages are removed.

        Fails a replay that runs. TopicError, ValueError.
        """
        _core.check_filter(filter)
        accepts = selector_of(selector)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if parts.record.kind != "topic":
                raise ValueError(f"{self.name!r} is a queue: see Endpoint.subscribe")
            self._modified("its subscription or selector was changed")
            now = parts.host.now()
            parts.interest.replace(filter, selector, accepts, now)
            parts.contents.clear_for(now)
            parts.contents.open()
            parts.saving.store()

    def _modified(self, what: str) -> None:
        replaying = self._parts.replaying
        if replaying.state.runs:
            replaying.fail(
                EndpointModifiedError(f"endpoint {self.name!r} was changed in a replay: {what}")
            )

    # Clients.

    def bind(
        self,
        *,
        client: str = "",
        window: int = WINDOW,
        selector: str | None = None,
        replay: ReplayStart | None = None,
        end: TimeLike | None = None,
        rate: str | float | None = None,
        on_early: OnEarly = "fail",
        stall_timeout: str | timedelta | None = STALL_TIMEOUT,
    ) -> Flow:
        """Connects a client, which then receives messages; see ``Flow``.

        ``client``: its name, which the endpoint's rights are about. ``window``: messages that it
        may have without an acknowledgement. ``selector``: it gets what this condition is true of
        (of a topic endpoint's clients it is refused: see ``change``).

        ``replay``: starts one, with the other options as of ``replay``. The endpoint has to be
        exclusive, and this its active client.

        ValueError: a bad window or selector. AccessError: the client may not consume here.
        ReplayError: there can be no such replay; then nothing is changed.
        """
        if window < 1:
            raise ValueError(f"window: at least 1 is needed, got {window}")
        if selector is not None and self.record.kind == "topic":
            raise ValueError("selector: a topic endpoint has one of its own; see Endpoint.change")
        chosen = selector_of(selector)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            self._check_right(client, "consume")
            if replay is not None:
                self._check_client_may_replay()
            number = parts.clients.new_number()
            flow = Flow(parts, client or f"client-{number}", number, window, chosen)
            if replay is None:
                parts.clients.add(flow)
                parts.saving.touch()
                parts.replaying.warn_of_selector(flow)
                return flow
            begin = begin_of(parts.host, replay, on_early)
            run = run_of(parts.host, flow.client, begin, end, rate, stall_timeout)
            parts.replaying.take_slot()
            parts.clients.add(flow)
            parts.replaying.start(begin, run, flow)
        parts.host.wake(self.name)
        return flow

    def browse(self, *, client: str = "", replay: ReplayStart | None = None) -> Browser:
        """The messages that are here, in order, which stay. AccessError: not for this client.

        BrowserError: it starts no replay.
        """
        if replay is not None:
            raise BrowserError(f"endpoint {self.name!r}: who browses cannot start a replay")
        with self._parts.lock:
            self._parts.check_open()
            self._check_right(client, "read")
            browser = Browser(self._parts, client)
            self._parts.clients.add_browser(browser)
            return browser

    def _check_right(self, client: str, right: str) -> None:
        if client == self.record.owner or self.record.owner is None:
            return
        if _RIGHTS.index(self.record.others) < _RIGHTS.index(right):
            raise AccessError(
                f"client {client!r} may not {right} at endpoint {self.name!r} of "
                f"{self.record.owner!r}: others may {self.record.others}"
            )

    def _check_client_may_replay(self) -> None:
        if not self.record.exclusive:
            raise NonExclusiveError(
                f"endpoint {self.name!r} is not exclusive: only an administrator starts a replay"
            )
        self._parts.replaying.check_may_start()
        active = self._parts.clients.active
        if active is not None:
            raise InactiveFlowError(
                f"client {active.client!r} is the active one of endpoint {self.name!r}: "
                "another cannot start a replay"
            )

    # Replays, for administrators.

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
        parts = self._parts
        with parts.lock:
            parts.check_open()
            parts.replaying.check_may_start()
            begin = begin_of(parts.host, start, on_early)
            run = run_of(parts.host, "", begin, end, rate, stall_timeout)
            parts.replaying.take_slot()
            parts.replaying.start(begin, run, None)
        parts.host.wake(self.name)

    def cancel_replay(self) -> None:
        """Ends the replay, deletes what of it is here, and disconnects the clients.

        ReplayError: none runs.
        """
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.cancel()

    def pause_replay(self) -> None:
        """What was logged comes no more until ``resume_replay``. ReplayError: none runs."""
        self._set_paused(True)

    def resume_replay(self) -> None:
        """Ends a pause. ReplayError: no replay runs."""
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.set_paused(is_paused)
        self._parts.host.wake(self.name)

    def set_replay_rate(self, rate: str | float | None) -> None:
        """As ``rate`` of ``replay``. ReplayError: none runs. ValueError."""
        pacer = Pacer(parse_rate(rate))
        with self._parts.lock:
            self._parts.check_open()
            self._parts.replaying.set_rate(rate, pacer)
        self._parts.host.wake(self.name)

    def seek_replay(self, start: ReplayStart, *, on_early: OnEarly = "fail") -> None:
        """Goes on elsewhere: what was replayed and is not acknowledged is removed first.

        Clients stay; what they acknowledge of that is passed over. ReplayError, as ``replay``.
        """
        parts = self._parts
        with parts.lock:
            parts.check_open()
            parts.replaying.check_runs()
            parts.replaying.seek(begin_of(parts.host, start, on_early))
        parts.host.wake(self.name)

    def progress(self) -> Progress:
        """How far the replay is. The first time, messages are counted, as ``lag`` does it."""
        parts = self._parts
        with parts.lock:
            run, filters = parts.record.run, parts.interest.filters
        if run is not None and run.total is None:  # without the lock: it takes a while
            run.total = messages_of(parts.host.core, filters, run)
        with parts.lock:
            return parts.replaying.progress()

    # For the log, which calls these with or without its own lock.

    def step(self) -> float:
        """Goes on, and stores what is to be stored. In how many seconds to call it again."""
        with self._parts.lock:
            return self._parts.step()

    def store(self) -> None:
        """Stores how it stands, if it is durable."""
        with self._parts.lock:
            self._parts.saving.store()

    def flush(self) -> None:
        """Stores what was acknowledged."""
        with self._parts.lock:
            self._parts.saving.flush()

    def holds_from(self) -> Place:
        """What is before is not needed here. What a replay has still to read does not count."""
        with self._parts.lock:
            return self._parts.contents.holds_from()

    def trimmed(self, first: Place) -> None:
        """Before ``first`` the log is to be trimmed: a replay that needs what goes fails."""
        with self._parts.lock:
            if not self.closed:
                self._parts.replaying.trimmed(first)

    def lost_before(self, oldest: Place) -> None:
        """What was before was dropped by retention, whether it was needed here or not."""
        with self._parts.lock:
            if not self.closed:
                self._parts.replaying.lost_before(oldest)

    def fail_replay(self, error: ReplayError) -> None:
        """If one runs."""
        with self._parts.lock:
            if not self.closed and self.state.runs:
                self._parts.replaying.fail(error)

    def drop(self) -> None:
        """Disconnects all, and forgets it."""
        with self._parts.lock:
            self._parts.drop()

    def end(self) -> None:
        """For the log's end: stores it; clients get ClosedError. May be repeated."""
        with self._parts.lock:
            self._parts.end()

"""Named queues and topic endpoints, to which messages of the log come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from topicdb import _core
from topicdb.errors import AccessError
from topicdb.follow.positions import lag_of
from topicdb.replay.endpoint.controls import STALL_TIMEOUT, ReplayControls
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.starting import OnEarly, ReplayStart, begin_of
from topicdb.replay.errors import (
    BrowserError,
    EndpointModifiedError,
    InactiveFlowError,
    NonExclusiveError,
)
from topicdb.replay.records import Subscribed
from topicdb.replay.selector.properties import selector_of
from topicdb.replay.states import State
from topicdb.times import TimeLike

WINDOW = 1_000
_RIGHTS = ("none", "read", "consume")


class Endpoint(ReplayControls):
    """A queue, or a topic endpoint; made by ``ReplayLog.queue`` and ``ReplayLog.topic_endpoint``.

    Messages that match its subscriptions come to it as they are committed, and stay until a client
    acknowledges them. They are read from the store, of which only so many as ``spool`` sit here.

    Thread-safe. A durable endpoint outlasts its clients and the process; acknowledgements are
    stored within a second (``ReplayLog.flush`` does it at once): after a crash those of the last
    moments come again. A temporary one ends with its last client.
    """

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
        with self._lock:
            return [one.filter for one in self.record.subscriptions if one.until is None]

    @property
    def selector(self) -> str | None:
        """Of a topic endpoint: what decides which messages come to it."""
        return self.record.selector

    @property
    def state(self) -> State:
        """Of the replay."""
        return self._replaying.state

    @property
    def closed(self) -> bool:
        """Its log was closed, or it was dropped."""
        return self._closed

    def info(self) -> dict[str, Any]:
        """How it stands.

        ``state``; ``messages``, that sit here, and their ``bytes``; ``clients``; ``last_start``
        (time in µs, client or "", from where), ``last_complete`` (time), ``last_failure`` (time,
        reason, text), each None if there was none; ``counts``: ``acknowledged`` and ``rejected``
        messages, and how often some were ``lost`` because retention dropped them.
        """
        with self._lock:
            record = self.record
            return {
                "name": record.name,
                "kind": record.kind,
                "exclusive": record.exclusive,
                "durable": record.durable,
                "subscriptions": self.subscriptions,
                "selector": record.selector,
                "state": self.state.value,
                "messages": self.spool.messages,
                "bytes": self.spool.nbytes,
                "clients": [one.client for one in self._flows]
                + [one.client for one in self._browsers],
                "last_start": record.last_start,
                "last_complete": record.last_complete,
                "last_failure": record.last_failure,
                "counts": {"acknowledged": 0, "rejected": 0, "lost": 0, **record.counts},
            }

    def lag(self) -> int:
        """Messages that are stored and did not come here yet: about, as ``Subscription.lag``."""
        with self._lock:
            place, filters = self.next, self.filters
        return lag_of(self.host.core, filters, 0, {0: place})

    # Subscriptions.

    def subscribe(self, filter: str) -> None:
        """Messages of this filter come, too, from now on. May be repeated.

        Fails a replay that runs. TopicError; ValueError: a topic endpoint has one.
        """
        _core.check_filter(filter)
        with self._lock:
            self._check_open()
            if self.record.kind == "topic":
                raise ValueError(
                    f"topic endpoint {self.name!r} has one subscription: see Endpoint.change"
                )
            if filter not in self.subscriptions:
                self._modified(f"subscription {filter!r} was added")
                self.record.subscriptions.append(Subscribed(filter, self.host.now()))
                self._reread()

    def unsubscribe(self, filter: str) -> None:
        """Nothing more of this filter comes; what is here stays. ValueError: there is none.

        Fails a replay that runs.
        """
        with self._lock:
            self._check_open()
            known = [one for one in self.record.subscriptions if one.until is None]
            found = next((one for one in known if one.filter == filter), None)
            if found is None or self.record.kind == "topic":
                raise ValueError(f"{self.name!r} has no subscription {filter!r} to remove")
            self._modified(f"subscription {filter!r} was removed")
            found.until = self.host.now()
            self._reread()

    def change(self, filter: str, selector: str | None = None) -> None:
        """Of a topic endpoint: another subscription and selector. All messages are removed.

        Fails a replay that runs. TopicError, ValueError.
        """
        _core.check_filter(filter)
        accepts = selector_of(selector)
        with self._lock:
            self._check_open()
            if self.record.kind != "topic":
                raise ValueError(f"{self.name!r} is a queue: see Endpoint.subscribe")
            self._modified("its subscription or selector was changed")
            now = self.host.now()
            self.record.subscriptions[:] = [Subscribed(filter, now)]
            self.record.selector, self.accepts = selector, accepts
            self.clear_for(now)
            self.open_reader()
            self.store()

    def _modified(self, what: str) -> None:
        if self._replaying.state.runs:
            self._replaying.fail(
                EndpointModifiedError(f"endpoint {self.name!r} was changed in a replay: {what}")
            )

    def _reread(self) -> None:
        self.record.next = self.next
        self.open_reader()
        self.store()

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
        with self._lock:
            self._check_open()
            self._check_right(client, "consume")
            if replay is not None:
                self._check_client_may_replay()
            self._clients += 1
            name = client or f"client-{self._clients}"
            flow = Flow(self, name, self._clients, window, chosen)
            if replay is None:
                self._flows.append(flow)
                self.touch()
                self._replaying.warn_of_selector(flow)
                return flow
            begin = begin_of(self.host, replay, on_early)
            run = self._run(name, begin, end, rate, stall_timeout)
            self._replaying.take_slot()
            self._flows.append(flow)
            self._replaying.start(begin, run, flow)
        self.host.wake(self.name)
        return flow

    def browse(self, *, client: str = "", replay: ReplayStart | None = None) -> Browser:
        """The messages that are here, in order, which stay. AccessError: not for this client.

        BrowserError: it starts no replay.
        """
        if replay is not None:
            raise BrowserError(f"endpoint {self.name!r}: who browses cannot start a replay")
        with self._lock:
            self._check_open()
            self._check_right(client, "read")
            browser = Browser(self, client)
            self._browsers.append(browser)
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
        self._replaying.check_may_start()
        if self._flows:
            raise InactiveFlowError(
                f"client {self._flows[0].client!r} is the active one of endpoint {self.name!r}: "
                "another cannot start a replay"
            )

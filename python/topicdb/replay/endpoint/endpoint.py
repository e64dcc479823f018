"""Endpoints: named queues and topic endpoints, to which messages of the log come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from topicdb import _core
from topicdb.arguments.times import TimeLike
from topicdb.follow.positions import Place, lag_of
from topicdb.frames.shown import Shown
from topicdb.replay.endpoint.dead_letters import check_dead_letter, check_expired
from topicdb.replay.endpoint.direct import DirectMessage
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.parts import Parts
from topicdb.replay.endpoint.replays import Replays
from topicdb.replay.endpoint.rights import check_right
from topicdb.replay.endpoint.starting import (
    STALL_TIMEOUT,
    OnEarly,
    ReplayStart,
    begin_of,
    run_of,
)
from topicdb.replay.errors import BrowserError, ReplayError
from topicdb.replay.host import Host
from topicdb.replay.records import EndpointRecord, Expired, check_count
from topicdb.replay.selector.properties import selector_of

WINDOW = 1_000
COUNTS = ("acknowledged", "rejected", "expired", "lost", "direct", "direct_lost")


class Endpoint(Shown, Replays):
    """A queue, or a topic endpoint; made by ``ReplayLog.queue`` and ``ReplayLog.topic_endpoint``.

    Messages that match its subscriptions come to it as they are committed, and stay until a client
    acknowledges them. They are read from the database, and at most ``spool`` of them are held in
    memory.

    A durable endpoint outlasts its clients and the process. Acknowledgements are stored within a
    second, or at once by ``ReplayLog.flush``; after a crash, messages whose acknowledgement was not
    stored come again. A temporary endpoint is dropped when its last client leaves.

    The log owns this object, until the log is closed or the endpoint is dropped. Thread-safe.
    """

    # The parts do the work, under their lock, which the methods take.

    def __init__(self, host: Host, record: EndpointRecord, store_interval_s: float) -> None:
        self._parts = Parts(host, record, store_interval_s)

    @property
    def record(self) -> EndpointRecord:
        """The record of the endpoint, for the log."""
        return self._parts.record

    # Properties.

    @property
    def name(self) -> str:
        """The name of the endpoint, which is unique in its log."""
        return self.record.name

    @property
    def is_exclusive(self) -> bool:
        """Whether only one client at a time is given messages."""
        return self.record.exclusive

    @property
    def subscriptions(self) -> list[str]:
        """The topic filters whose messages come."""
        with self._parts.lock:
            return self._parts.interest.subscriptions

    @property
    def filters(self) -> list[str]:
        """The topic filters of all that may be here, also of subscriptions that have ended."""
        with self._parts.lock:
            return self._parts.interest.filters

    @property
    def selector(self) -> str | None:
        """The condition for messages that come to a topic endpoint; None: all come."""
        return self.record.selector

    def __repr__(self) -> str:
        return f"<topicdb.replay.Endpoint {self.name!r}, {self.record.kind}: {self.state.value}>"

    @property
    def closed(self) -> bool:
        """Whether the endpoint was dropped, or its log was closed."""
        return self._parts.closed

    def info(self) -> dict[str, Any]:
        """Returns the options of the endpoint and how it stands, by name.

        Returns:
            A dict. ``name``, ``kind`` (``"queue"`` or ``"topic"``), ``exclusive``, ``durable``,
            ``subscriptions``, ``selector``, ``dead_letter`` and ``expired`` are its options.
            ``state`` is that of the replay. ``messages`` and ``bytes`` say about how many messages
            are here and not done with. ``clients`` has their names. ``last_start`` says when the
            last replay was started (µs), by which client or "" for an administrator, and from
            where. ``last_complete`` says when a replay was last complete (µs), and ``last_failure``
            when one last failed (µs), the reason in short, and the text; each is None if that never
            happened. ``counts`` says how many messages were ``acknowledged``, ``rejected``, removed
            because they had ``expired``, and at most ``lost``, as retention dropped them before
            they came here. Of direct messages that were not logged, it says how many clients had
            (``direct``), and how many went although a client was there (``direct_lost``).
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
                "dead_letter": record.dead_letter,
                "expired": record.expired,
                "state": parts.replaying.state.value,
                "messages": parts.contents.spool.messages,
                "bytes": parts.contents.spool.nbytes,
                "clients": parts.clients.names,
                "last_start": record.last_start,
                "last_complete": record.last_complete,
                "last_failure": record.last_failure,
                "counts": {**dict.fromkeys(COUNTS, 0), **record.counts},
            }

    def lag(self) -> int:
        """Returns about how many stored messages have still to come; see ``Subscription.lag``."""
        with self._parts.lock:
            place, filters = self._parts.contents.next, self._parts.interest.filters
        return lag_of(self._parts.host.core, filters, 0, {0: place})

    # Subscriptions.

    def subscribe(self, filter: str) -> None:
        """Lets messages of another filter come to a queue from now on.

        If the queue has this subscription already, nothing happens; else a replay that runs fails
        with EndpointModifiedError.

        Arguments:
            filter: one topic filter.

        Raises:
            TopicError: a bad filter.
            ValueError: this is a topic endpoint.
            ClosedError: the endpoint is closed.
        """
        _core.check_filter(filter)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if parts.record.kind == "topic":
                raise ValueError(
                    f"topic endpoint {self.name!r} has one subscription: see Endpoint.change"
                )
            check_dead_letter(parts.record.dead_letter, [filter])
            if filter not in parts.interest.subscriptions:
                parts.replaying.modified(f"subscription {filter!r} was added")
                parts.interest.add(filter, parts.host.now())
                parts.reread()

    def unsubscribe(self, filter: str) -> None:
        """Ends a subscription of a queue: no more messages of this filter come.

        Messages that are here stay. A replay that runs fails with EndpointModifiedError.

        Arguments:
            filter: one of ``subscriptions``.

        Raises:
            ValueError: there is no such subscription, or this is a topic endpoint.
            ClosedError: the endpoint is closed.
        """
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if filter not in parts.interest.subscriptions or parts.record.kind == "topic":
                raise ValueError(f"{self.name!r} has no subscription {filter!r} to remove")
            parts.replaying.modified(f"subscription {filter!r} was removed")
            parts.interest.remove(filter, parts.host.now())
            parts.reread()

    def change(self, filter: str, selector: str | None = None) -> None:
        """Gives a topic endpoint another subscription and selector, which count from now on.

        All messages here are removed. Clients stay connected; if they acknowledge, reject or
        release messages that were removed, that is ignored. A replay that runs fails with
        EndpointModifiedError, which disconnects them.

        Arguments:
            filter: the new topic filter.
            selector: the new condition for messages; None: all come.

        Raises:
            TopicError: a bad filter.
            ValueError: the selector is no condition, or this is a queue.
            ImportError: sqlglot is missing: install ``topicdb[replay]``.
            ClosedError: the endpoint is closed.
        """
        _core.check_filter(filter)
        accepts = selector_of(selector)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            if parts.record.kind != "topic":
                raise ValueError(f"{self.name!r} is a queue: see Endpoint.subscribe")
            check_dead_letter(parts.record.dead_letter, [filter])
            parts.replaying.modified("its subscription or selector was changed")
            now = parts.host.now()
            parts.interest.replace(filter, selector, accepts, now)
            parts.contents.clear_for(now, now)
            parts.clients.recount()
            parts.contents.open()
            parts.saving.store()

    def set_dead_letter(self, topic: str | None, *, expired: Expired = "give") -> None:
        """Changes what becomes of rejected and of expired messages, from now on.

        Arguments:
            topic: what the endpoint removes because a client has rejected it, or because it has
                expired, is stored once more under this topic, with its own one behind. None:
                nothing is.
            expired: what becomes of a live message whose expiry interval is over before a client
                was given it: ``"give"`` or ``"remove"``, as of ``ReplayLog.queue``.

        Raises:
            TopicError: a bad topic.
            ValueError: ``expired`` is something else, or dead letters would come to this endpoint
                again.
            ClosedError: the endpoint is closed.
        """
        check_expired(expired)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            check_dead_letter(topic, parts.interest.subscriptions)
            parts.record.dead_letter, parts.record.expired = topic, expired
            parts.contents.expiry.note_all(parts.contents.spool, parts.record.live_from)
            parts.saving.store()
        parts.host.wake(self.name)

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

        If a replay runs on an exclusive endpoint, a client with a selector causes a RuntimeWarning:
        the messages that it does not accept would stall the replay.

        Arguments:
            client: the name of the client, by which ``owner`` and ``others`` decide what it may do.
                "": a client that is not the owner, and gets a name.
            window: how many messages the client may have without an acknowledgement.
            selector: the client gets only messages for which this condition is true. None: all.
                Clients of a topic endpoint cannot have one; see ``change``.
            replay: starts a replay from there, as ``replay`` does. The endpoint must be exclusive
                and have no other client; a temporary one may have a replay if the log allows it
                (``temporary_replays``). None: starts none.
            end: of that replay, as in ``replay``.
            rate: of that replay, as in ``replay``.
            on_early: of that replay, as in ``replay``.
            stall_timeout: of that replay, as in ``replay``.

        Returns:
            The client. Close it, or use ``with``.

        Raises:
            ValueError, TypeError: a bad option.
            AccessError: the client may not consume here.
            ReplayError: there can be no such replay; then nothing is changed.
            ImportError: sqlglot is missing: install ``topicdb[replay]``.
            ClosedError: the endpoint is closed.
        """
        check_count("window", window)
        if selector is not None and self.record.kind == "topic":
            raise ValueError("selector: a topic endpoint has one of its own; see Endpoint.change")
        chosen = selector_of(selector)
        parts = self._parts
        with parts.lock:
            parts.check_open()
            check_right(parts.record, client, "consume")
            if replay is not None:
                parts.replaying.check_client_may_start()
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
        """Connects a client that looks at the messages here and leaves them; see ``Browser``.

        Arguments:
            client: the name of the client, by which ``owner`` and ``others`` decide what it may do.
            replay: must be None, as a browser cannot start a replay.

        Returns:
            The client. Close it, or use ``with``.

        Raises:
            AccessError: the client may not read here.
            BrowserError: ``replay`` is given.
            ClosedError: the endpoint is closed.

        Example:
            >>> log = topicdb.replay.open(db)
            >>> endpoint = log.queue("pumps", "site/+/pump/#")
            >>> receipt = db.append([("site/north/pump/1", None, b"off")])
            >>> with endpoint.browse() as browser:
            ...     next(iter(browser)).value
            b'off'
            >>> log.close()
        """
        if replay is not None:
            raise BrowserError(f"endpoint {self.name!r}: who browses cannot start a replay")
        with self._parts.lock:
            self._parts.check_open()
            check_right(self.record, client, "read")
            browser = Browser(self._parts, client)
            self._parts.clients.add_browser(browser)
            return browser

    # What the log calls, with or without its own lock.

    def step(self) -> float:
        """Reads on, goes on with the replay, and stores the endpoint if it is time to.

        Only the log calls this and what follows.

        Returns:
            After how many seconds to call it again.
        """
        with self._parts.lock:
            return self._parts.step()

    def give_direct(self, messages: Sequence[DirectMessage]) -> None:
        """Gives direct messages that were not logged to the clients, if there are any.

        Arguments:
            messages: the messages.
        """
        with self._parts.lock:
            self._parts.give_direct(messages)

    def store(self) -> None:
        """Stores the endpoint at once, if it is durable."""
        with self._parts.lock:
            self._parts.saving.store()

    def flush(self) -> None:
        """Stores the endpoint at once if it is durable and has changed."""
        with self._parts.lock:
            self._parts.saving.flush()

    def holds_from(self) -> Place:
        """Returns the place before which nothing is needed here.

        Messages that a replay has still to read do not count: if they are trimmed, it fails.
        """
        with self._parts.lock:
            return self._parts.contents.holds_from()

    def trimmed(self, first: Place) -> None:
        """Fails a replay that has still to read messages before ``first``.

        REQUIRES: these messages are still stored.

        Arguments:
            first: where the log will begin.
        """
        with self._parts.lock:
            if not self.closed:
                self._parts.replaying.trimmed(first)

    def fail_replay(self, error: ReplayError) -> None:
        """Fails the replay if one runs.

        Arguments:
            error: what clients are told.
        """
        with self._parts.lock:
            if not self.closed and self.state.runs:
                self._parts.replaying.fail(error)

    def drop(self) -> None:
        """Disconnects all clients, closes the endpoint, and removes its record."""
        with self._parts.lock:
            self._parts.drop()

    def end(self) -> None:
        """Stores and closes the endpoint at the end of the log; clients then get ClosedError.

        Calling it again does nothing.
        """
        with self._parts.lock:
            self._parts.end()

"""The methods of a Database for those who follow what is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from topicdb._core import Batch
from topicdb.engine import Engine
from topicdb.filters import Filters, filter_list
from topicdb.follow import session_state
from topicdb.follow.consumer import Consumer
from topicdb.follow.group import Group
from topicdb.follow.losses import OnLoss, Reporter
from topicdb.follow.positions import Positions, names
from topicdb.follow.readers import OpenReaders, Reader, group_timeout_us, kept_for, readers_of
from topicdb.follow.session import PACKET_ID_MAX, Session
from topicdb.follow.subscription import (
    WINDOW,
    WINDOW_BYTES,
    Start,
    Subscription,
    check_window,
    start_of,
)
from topicdb.forms import form_of
from topicdb.times import TIMESTAMP_MAX, duration_us, timeout_us

if TYPE_CHECKING:
    from topicdb.types import Durability


class Following:
    """Methods of Database, for its engine (``_core``) and what is open of it (``_readers``)."""

    _core: Engine
    _readers: OpenReaders

    def subscribe(
        self,
        filter: Filters = "#",
        *,
        start: Start = "latest",
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        timeout: float | timedelta | None = None,
        callback: Callable[[Batch], object] | None = None,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
    ) -> Subscription:
        """Messages of ``filter``: from ``start`` on, and then as they are committed.

        Each comes once, in each shard in the order of commits. ``start``: ``"latest"``, what is
        committed from now on; ``"earliest"``, everything that is stored, too; a time: only messages
        with that timestamp or a later one, stored or to come; {shard: serial}, what was committed
        behind that (``Receipt.serials``); {shard: Place}, as of ``Delivery.next``. Shards that are
        not named are read from their oldest message on.

        ``window``, ``window_bytes``: messages, and bytes of topics and values, that may be
        delivered and not acknowledged; then nothing comes until something is. One message may be
        larger. A subscriber that is slow delays nobody, and misses nothing.

        ``timeout``: iteration ends when nothing comes for so many seconds; None: never.
        ``callback``: is called with each batch, in a thread of its own, until the subscription is
        closed; an error that it raises ends it. ``properties``, ``raw``: as of ``scan``.
        ``on_loss``: as of ``consumer``.

        ValueError: the layout ``skipstream`` keeps no commit log; a bad window or start.

        >>> with db.subscribe("site/+/pump/#", start="-24h") as messages:   # doctest: +SKIP
        ...     for message in messages:
        ...         print(message)
        """
        form = form_of(properties=properties, raw=raw)
        filters = filter_list(filter)
        places, start_us = start_of(start)
        report = Reporter("a subscription", on_loss)
        core = self._core.subscribe(filters, places, start_us, window, window_bytes)
        subscription = Subscription(
            core, self._core, filters, start_us, timeout_us(timeout), form, report
        )
        if callback is not None:
            subscription._call(callback)
        return subscription

    def consumer(
        self,
        name: str,
        filter: Filters = "#",
        *,
        start: Start = "earliest",
        takeover: bool = False,
        window: int = 10 * WINDOW,
        window_bytes: int = 4 * WINDOW_BYTES,
        timeout: float | timedelta | None = None,
        durability: Durability | None = None,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
    ) -> Consumer:
        """A reader that goes on where it was, after a restart, too; see ``Consumer``.

        The first time, it is made: it begins at ``start``, as ``subscribe`` does. From then on
        ``filter`` must be the same, and ``start`` does not count; see ``Consumer.seek``.

        ``window``, ``window_bytes``: what is read ahead of ``poll``. ``timeout``: iteration ends
        when nothing comes for so many seconds. ``durability``: of what it stores. ``properties``,
        ``raw``: as of ``scan``.

        ``on_loss``: what it does when it comes to where messages were that retention, the quota or
        ``drop_slab`` has dropped before it had them. ``"report"`` writes a warning to the log
        (``logging``), ``"raise"`` raises LossError, once for each generation; something to call is
        called with a ``Loss``. ``Consumer.lost`` counts them in any case.

        ConflictError: it is open elsewhere in this process; ``takeover=True`` ends that one.
        ValueError: it was made with another filter. ReadOnlyError: positions are stored in the
        database, which has to be open for writing, with all shards.

        >>> with db.consumer("etl", "site/#") as consumer:     # doctest: +SKIP
        ...     for batch in consumer:
        ...         load(batch)
        ...         consumer.ack(batch)
        """
        form = form_of(properties=properties, raw=raw)
        check_window(window, window_bytes)
        filters = filter_list(filter)
        report = Reporter(f"consumer {name!r}", on_loss)
        positions = Positions(self._core, "consumer", name, durability)
        kept = kept_for(self._core, positions, filters, start)

        def make() -> Consumer:
            wait_us = timeout_us(timeout)
            seen = (window, window_bytes)
            return Consumer(self._core, positions, kept, seen, wait_us, report, form)

        return self._readers.consumer(name, make, takeover=takeover)

    def session(
        self,
        client_id: str,
        *,
        expiry: str | timedelta | None = "1h",
        receive_maximum: int = 100,
        clean_start: bool = False,
        takeover: bool = False,
        durability: Durability | None = None,
    ) -> Session:
        """The MQTT session of a client, as it was left, or a new one; see ``Session``.

        ``expiry``: so long after it was last stored (by a change or ``close``) it ends; None:
        never. ``receive_maximum``: packets that the client may have without an acknowledgement.
        ``clean_start``: forgets what there was.

        ConflictError: it is connected elsewhere in this process; ``takeover=True``, as MQTT wants
        it, ends that one. ReadOnlyError: sessions are stored in the database.
        """
        if not 1 <= receive_maximum <= PACKET_ID_MAX:
            raise ValueError(f"receive_maximum: expected 1 to 65535, got {receive_maximum}")
        expiry_us = TIMESTAMP_MAX if expiry is None else duration_us(expiry, what="expiry")

        def make() -> Session:
            return Session(
                self._core,
                client_id,
                expiry_us,
                receive_maximum,
                durability,
                clean_start=clean_start,
            )

        return self._readers.session(client_id, make, takeover=takeover)

    def sessions(self) -> list[str]:
        """The client ids of all sessions that are stored, sorted."""
        return sorted(client_id for client_id, _ in session_state.stored(self._core))

    def drop_session(self, client_id: str) -> None:
        """Forgets a session. NotFoundError; ConflictError if it is connected."""
        self._readers.drop_session(client_id)

    def expire_sessions(self) -> list[str]:
        """Forgets the sessions that have ended by now, and are not connected; which ones.

        To be called from time to time; a session that has ended is never resumed anyway.
        """
        return session_state.expire(self._core, self._readers.has_session)

    def group(
        self,
        name: str,
        filter: Filters = "#",
        *,
        start: Start = "earliest",
        parts: int = 64,
        member_timeout: float | timedelta = 30.0,
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        durability: Durability | None = None,
        on_loss: OnLoss = "report",
    ) -> Group:
        """Messages of ``filter`` for many workers, each for one of them; see ``Group``.

        The first time, it is made, and begins at ``start``; from then on ``filter`` must be the
        same, and ``start`` and ``parts`` do not count. In one process it is the same object each
        time. ``parts``: into how many the topics are divided, so many members can work at once.
        ``member_timeout``: so long a member may be silent. ``window``, ``window_bytes``: what may
        be given of one part and not be acknowledged. ``on_loss``: as of ``consumer``; what it does
        happens in ``Member.poll``.

        ValueError: it was made with another filter. ReadOnlyError, as ``consumer``.

        >>> with db.group("workers", "jobs/#").join() as member:     # doctest: +SKIP
        ...     for batch in member:
        ...         work(batch)
        ...         member.ack(batch)
        """
        timeout = group_timeout_us(parts, member_timeout, window, window_bytes)
        filters = filter_list(filter)
        report = Reporter(f"group {name!r}", on_loss)
        positions = Positions(self._core, "group", name, durability)
        kept = kept_for(self._core, positions, filters, start)

        def make() -> Group:
            made = {"parts": parts, **kept}
            group = Group(self._core, positions, made, (window, window_bytes), timeout / 1e6)
            group.report_to(report)
            return group

        return self._readers.group(name, make, lambda group: group.report_to(report))

    def groups(self) -> list[str]:
        """The names of all groups that were made and not dropped."""
        return names(self._core, "group")

    def drop_group(self, name: str) -> None:
        """Forgets a group and its positions. NotFoundError; ConflictError if it is open."""
        self._readers.drop_group(name)

    def consumers(self) -> list[str]:
        """The names of all consumers that were made and not dropped."""
        return names(self._core, "consumer")

    def standings(self) -> list[Reader]:
        """Consumers and groups that were made and not dropped, and how each stands.

        Also of a handle that may only read.
        """
        return readers_of(self._core)

    def drop_consumer(self, name: str) -> None:
        """Forgets a consumer and its position. NotFoundError; ConflictError if it is open."""
        self._readers.drop_consumer(name)

"""The methods of a Database for readers that follow what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from topicdb._core import Batch, Iterator
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import form_of
from topicdb.arguments.times import TIMESTAMP_MAX, duration_us, timeout_us
from topicdb.arguments.wrong_types import iterators_of
from topicdb.database.view import opened, view_of
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow import session_state
from topicdb.follow.consumer import Consumer
from topicdb.follow.group import Group
from topicdb.follow.losses import OnLoss, Reporter
from topicdb.follow.positions import Positions, names
from topicdb.follow.readers import (
    OnChange,
    OpenReaders,
    Reader,
    group_timeout_us,
    kept_for,
    readers_of,
)
from topicdb.follow.session import PACKET_ID_MAX, Session
from topicdb.follow.subscription import (
    WINDOW,
    WINDOW_BYTES,
    Start,
    Subscription,
    check_log,
    check_window,
    start_of,
)

if TYPE_CHECKING:
    from topicdb.types import AtLeastLike, Durability


class Following:
    """Methods of Database that use its engine (``_core``) and its open readers (``_readers``)."""

    _core: Engine
    _readers: OpenReaders

    def subscribe(
        self,
        filter: Filters = "#",
        *,
        start: Start | None = None,
        given: Iterator | Sequence[Iterator] = (),
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        timeout: float | timedelta | None = None,
        callback: Callable[[Batch], object] | None = None,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Subscription:
        """Returns a subscription: messages from ``start`` on, then those that are committed.

        Each message comes once; in each shard, in the order of commits.

        Arguments:
            filter: as in ``scan``.
            start: ``"latest"``: what is committed from now on. ``"earliest"``: also everything that
                is stored. A time: only messages with that timestamp or a later one, stored or to
                come. {shard: serial}: what was committed behind that (``Receipt.serials``). {shard:
                Place}: from that place on (``Delivery.next``). Shards that are not named are read
                from their oldest message on. None: ``"latest"``, or with ``given`` ``"earliest"``.
            given: saved iterators of streams (``Page.iterator``); the subscription begins exactly
                behind them. It leaves out what they have given or passed over, and in each shard
                the generations of their classes that are older than theirs. It gives everything
                else: streams without an iterator, and what was committed since an iterator was read
                last, wherever it stands. To go on later, give the same iterators, and the places as
                ``start``.
            window: how many messages may be delivered and not acknowledged. Then nothing comes
                until you acknowledge some. A slow subscriber delays nobody, and misses nothing.
            window_bytes: how many bytes of topics and values may be delivered and not acknowledged
                (default 8 MiB). One message may be larger.
            timeout: iteration ends when nothing comes for this many seconds; None: never.
            callback: is called with each batch, in a thread of its own, until the subscription is
                closed. An error that it raises ends the subscription.
            properties: as in ``scan``.
            raw: as in ``scan``.
            on_loss: as in ``consumer``.
            partial: leaves out the shards that are missing when it begins
                (``Subscription.missing_shards``). By default a missing shard that may have such
                messages raises MissingShardError.
            at_least: as in ``scan``.

        Returns:
            The subscription. Iterate it for messages, or call ``next``.

        Raises:
            ValueError: a bad window or start.
            SchemaError: it would read a generation of the layout ``skipstream``, which keeps no
                commit log; the text names it. That is: it would begin there, messages that match go
                there now, or an iterator of ``given`` has messages to give there. A subscription
                that comes to such a generation later raises it then, behind everything that was
                committed before.
            NotFoundError: an iterator of ``given`` is of another database, or ``keep_last`` has
                merged its generation. If that happens later, reading raises it.

        Example:
            >>> with db.subscribe("site/#", start="earliest") as messages:
            ...     for message in messages:
            ...         print(message.topic, message.value)
            ...         if message.topic == "site/north/pump/2":
            ...             break
            site/north/pump/1 b'on'
            site/north/pump/2 b'off'
        """
        form = form_of(properties=properties, raw=raw)
        filters = filter_list(filter)
        iterators = iterators_of(given)
        if start is None:
            start = "earliest" if iterators else "latest"
        places, start_us = start_of(start)
        report = Reporter("a subscription", on_loss)
        view = view_of(self._core, partial=partial, at_least=at_least)

        def begin(engine: Engine) -> SubscriptionCursor:
            check_log(engine, filters, places, start_us, iterators)
            return engine.subscribe(
                filters, places, start_us, window, window_bytes, (0, 1), {}, iterators
            )

        core = opened(self._core, begin, view)
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
        on_change: OnChange = "error",
        window: int = 10 * WINDOW,
        window_bytes: int = 4 * WINDOW_BYTES,
        timeout: float | timedelta | None = None,
        durability: Durability | None = None,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
    ) -> Consumer:
        """Opens a consumer, which continues where it was, also after a restart; see ``Consumer``.

        The first call with this name makes the consumer, and it begins at ``start``. In later calls
        ``start`` does not count; see ``Consumer.seek``.

        Arguments:
            name: the name of the consumer in this database.
            filter: as in ``scan``.
            start: as in ``subscribe``.
            takeover: ends the object that has the name open in this process.
            on_change: what to do if the consumer has other filters. ``"error"`` raises ValueError.
                ``"replace"`` gives it these, from where it stands; see ``Consumer.set_filters``.
            window: how many messages are read ahead of ``poll``.
            window_bytes: how many bytes are read ahead of ``poll`` (default 32 MiB).
            timeout: iteration ends when nothing comes for this many seconds; None: never.
            durability: of the positions that it stores; None: the default of ``open``.
            properties: as in ``scan``.
            raw: as in ``scan``.
            on_loss: what to do where retention, the quota or ``drop_slab`` has dropped messages
                before the consumer had them. ``"report"`` writes a warning to the log
                (``logging``). ``"raise"`` raises LossError, once for each generation. A function is
                called with a ``Loss``. ``Consumer.lost`` counts these messages in any case.

        Returns:
            The consumer. Close it, or use ``with``.

        Raises:
            ConflictError: it is open elsewhere in this process, unless ``takeover``.
            ValueError: it has another filter, unless ``on_change="replace"``.
            ReadOnlyError: the database is not open for writing with all shards. Positions are
                stored in it.
            MissingShardError: a shard is missing.

        Example:
            >>> with db.consumer("etl", "site/#") as consumer:
            ...     for batch in consumer:
            ...         print(len(batch), "messages")
            ...         consumer.ack(batch)
            ...         break
            2 messages
        """
        form = form_of(properties=properties, raw=raw)
        check_window(window, window_bytes)
        filters = filter_list(filter)
        report = Reporter(f"consumer {name!r}", on_loss)
        positions = Positions(self._core, "consumer", name, durability)
        kept = kept_for(self._core, positions, filters, start, on_change)

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
        """Opens the MQTT session of a client, as it was left, or a new one; see ``Session``.

        Arguments:
            client_id: the client identifier of MQTT.
            expiry: the session ends this long after it was last stored (by a change or ``close``);
                None: never.
            receive_maximum: how many packets the client may have without an acknowledgement, 1 to
                65,535.
            clean_start: forgets a session that was stored.
            takeover: ends the object that has the session open in this process, as MQTT demands.
            durability: of what it stores; None: the default of ``open``.

        Returns:
            The session. Close it, or use ``with``.

        Raises:
            ConflictError: the client is connected elsewhere in this process, unless ``takeover``.
            ReadOnlyError: the database is not open for writing. Sessions are stored in it.
            MissingShardError: a shard is missing.
            ValueError: a bad option.

        Example:
            >>> with db.session("client-7") as session:
            ...     session.subscribe("site/#", qos=1)
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
        """Returns the client ids of all sessions that are stored, sorted."""
        return sorted(client_id for client_id, _ in session_state.stored(self._core))

    def drop_session(self, client_id: str) -> None:
        """Forgets a session.

        Arguments:
            client_id: the client identifier of MQTT.

        Raises:
            NotFoundError: there is no such session.
            ConflictError: the client is connected.
        """
        self._readers.drop_session(client_id)

    def expire_sessions(self) -> list[str]:
        """Forgets the sessions that have ended and are not connected, and returns their client ids.

        Call it from time to time to free their space. A session that has ended is never resumed,
        whether you called this or not.

        Returns:
            The client ids.
        """
        return session_state.expire(self._core, self._readers.has_session)

    def group(
        self,
        name: str,
        filter: Filters = "#",
        *,
        start: Start = "earliest",
        parts: int = 64,
        on_change: OnChange = "error",
        member_timeout: float | timedelta = 30.0,
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        durability: Durability | None = None,
        on_loss: OnLoss = "report",
    ) -> Group:
        """Opens a group, which divides messages of ``filter`` among workers; see ``Group``.

        The first call with this name makes the group, and it begins at ``start``. In later calls
        ``start`` and ``parts`` do not count. In one process every call returns the same object.

        Arguments:
            name: the name of the group in this database.
            filter: as in ``scan``.
            start: as in ``subscribe``.
            parts: how many parts the topics are divided into. At most this many members can work at
                once.
            on_change: as in ``consumer``; see ``Group.set_filters``.
            member_timeout: how many seconds a member may be silent before it loses its parts.
            window: how many messages of one part may be given and not acknowledged.
            window_bytes: how many bytes of one part may be given and not acknowledged (default 8
                MiB).
            durability: of the positions that it stores; None: the default of ``open``.
            on_loss: as in ``consumer``; ``Member.poll`` does it.

        Returns:
            The group.

        Raises:
            ValueError: it has another filter, unless ``on_change="replace"``; or a bad option.
            ConflictError: its filters are to be replaced while it has members.
            ReadOnlyError: the database is not open for writing with all shards.

        Example:
            >>> with db.group("workers", "site/#").join() as member:
            ...     batch = member.poll(timeout=5)
            ...     member.ack(batch)
        """
        timeout = group_timeout_us(parts, member_timeout, window, window_bytes)
        filters = filter_list(filter)
        report = Reporter(f"group {name!r}", on_loss)
        positions = Positions(self._core, "group", name, durability)
        made, changed = kept_for(self._core, positions, filters, start, on_change)

        def make() -> Group:
            kept = {"parts": parts, **made}, changed
            group = Group(self._core, positions, kept, (window, window_bytes), timeout / 1e6)
            group.report_to(report)
            return group

        def join(group: Group) -> None:
            if changed:
                group.set_filters(filters)
            group.report_to(report)

        return self._readers.group(name, make, join)

    def groups(self) -> list[str]:
        """Returns the names of all groups that were made and not dropped."""
        return names(self._core, "group")

    def drop_group(self, name: str) -> None:
        """Forgets a group and its positions.

        Arguments:
            name: the name of the group.

        Raises:
            NotFoundError: there is no such group.
            ConflictError: the group is open.
        """
        self._readers.drop_group(name)

    def consumers(self) -> list[str]:
        """Returns the names of all consumers that were made and not dropped."""
        return names(self._core, "consumer")

    def standings(self) -> list[Reader]:
        """Returns all consumers and groups that were made and not dropped, and how each stands.

        A handle that only reads can call this, too.

        Example:
            >>> db.consumer("etl", "site/#").close()
            >>> [(reader.name, reader.lag) for reader in db.standings()]
            [('etl', 2)]
        """
        return readers_of(self._core)

    def drop_consumer(self, name: str) -> None:
        """Forgets a consumer and its position.

        Arguments:
            name: the name of the consumer.

        Raises:
            NotFoundError: there is no such consumer.
            ConflictError: the consumer is open.
        """
        self._readers.drop_consumer(name)

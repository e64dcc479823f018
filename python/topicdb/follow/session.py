"""MQTT sessions: filters, positions and packets in flight that outlast a connection."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from topicdb import _core
from topicdb.arguments.times import now_us, timeout_us
from topicdb.closing import Named
from topicdb.engine import Engine
from topicdb.follow.losses import Loss, Reporter, serials_now
from topicdb.follow.packets import Packet, packet_of, packets_again, placed
from topicdb.follow.positions import Place
from topicdb.follow.session_state import (
    InFlight,
    Qos,
    SessionFilter,
    SessionRecord,
    SessionState,
    end_of,
)
from topicdb.follow.subscription import Delivery, Start, Subscription, check_log, places_of
from topicdb.mqtt.expiry import left_s
from topicdb.waiting import SLICE_S

if TYPE_CHECKING:
    from topicdb.types import Durability

PACKET_ID_MAX = 65_535
WINDOW_BYTES = 8 << 20
_TOPICS_KNOWN_MAX = 10_000


class Session(Named):
    """The stored session of an MQTT client, which comes and goes; made by ``Database.session``.

    Call ``subscribe`` and ``unsubscribe`` when the client does. ``poll`` gives the packets to send;
    ``puback``, ``pubrec`` and ``pubcomp`` take the client's answers. After a reconnection (the next
    ``Database.session`` of this client) ``poll`` first gives, with ``dup``, exactly the packets
    that were not acknowledged, under the same packet ids. ``releases`` then has the ids whose
    PUBREL you send again. A message that several filters match comes once, with the greatest QoS.
    While nobody is connected, it costs a record on disk. One thread at a time may call ``poll``;
    others may meanwhile answer, subscribe and close. Once closed, methods raise ClosedError.
    """

    _shown = ("filters", "in_flight", "expired", "closed")

    def __init__(
        self,
        core: Engine,
        client_id: str,
        expiry_us: int,
        receive_maximum: int,
        durability: Durability | None,
        *,
        clean_start: bool,
    ) -> None:
        self._core = core
        self._client_id = client_id
        self._record = SessionRecord(core, client_id, durability)
        self._receive_maximum = receive_maximum
        self._report = Reporter(f"session {client_id!r}")
        self._lock = threading.RLock()
        self._may_give = threading.Condition(self._lock)  # after an answer, or a change of filters
        self._closed = False
        self._subscription: Subscription | None = None
        self._matching: dict[str, list[SessionFilter]] = {}
        stored = self._record.stored
        self._state = SessionState(expiry_us)
        self._resumed = False
        if stored is not None and not clean_start:
            self._resumed = end_of(stored) > now_us()
        if self._resumed and stored is not None:
            self._state = SessionState.decode(stored)
            self._state.expiry_us = expiry_us
        self._again: deque[Packet] = deque()  # packets to give before anything else
        self._found_again = False
        self._changed = False
        self._expired = 0

    @property
    def resumed(self) -> bool:
        """Whether there was a session that had not ended: MQTT's "session present"."""
        return self._resumed

    # The requests of the client.

    def subscribe(self, filter: str, qos: Qos = 1, *, start: Start = "latest") -> None:
        """Subscribes to ``filter``, or changes the QoS of a subscription; stored at once.

        Arguments:
            filter: one topic filter.
            qos: the greatest QoS of the packets, 0 to 2.
            start: as in ``Database.subscribe``; it does not count for a known filter.

        Raises:
            TopicError: a bad filter.
            ValueError: a bad ``qos``.
            SchemaError: the filter would begin in a generation without a log.
        """
        if qos not in (0, 1, 2):
            raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
        _core.check_filter(filter)
        with self._lock:
            self._check_open()
            known = self._state.find(filter)
            since = {} if known is not None else self._now_at(filter, start)
            if known is None:
                check_log(self._core, [filter], since)
            with self._changed_filters():
                if known is not None:
                    known.qos = qos
                else:
                    self._add(SessionFilter(filter, qos, since))

    def _add(self, new: SessionFilter) -> None:
        state = self._state
        if not any(one.until is None for one in state.filters):
            state.places = dict(new.since)  # no filter wants earlier messages
            state.lost.restart(serials_now(self._core, [new.text]))
        elif any(new.since[shard] < place for shard, place in state.places.items()):
            state.go_back(new)
            state.lost.restart(serials_now(self._core, [new.text]))
        state.filters.append(new)
        self._restart()

    def unsubscribe(self, filter: str) -> bool:
        """Ends a subscription, except for packets in flight.

        Arguments:
            filter: as it was given to ``subscribe``.

        Returns:
            Whether there was one.
        """
        with self._lock:
            self._check_open()
            known = self._state.find(filter)
            if known is None:
                return False
            with self._changed_filters():
                known.until = dict(self._state.places)
                self._forget([])
                self._restart()
        return True

    @contextmanager
    def _changed_filters(self) -> Iterator[None]:
        """Stores what the block does to the filters; if that fails, it undoes it."""
        state = self._state
        filters = [replace(one) for one in state.filters]
        places, lost = dict(state.places), deepcopy(state.lost)
        try:
            yield
            self._save()
        except BaseException:
            state.filters, state.places, state.lost = filters, places, lost
            self._restart()
            raise

    @property
    def filters(self) -> dict[str, Qos]:
        """The QoS of each filter that the client has subscribed to."""
        return {f.text: f.qos for f in self._state.filters if f.until is None}

    # The packets to the client, and its answers.

    def poll(self, count: int = 100, timeout: float | timedelta | None = 1.0) -> list[Packet]:
        """Returns the next packets to send.

        Their ids are stored before they are given. If that fails, they count as not given, and the
        next call gives them. While ``receive_maximum`` packets with QoS 1 and 2 were given in this
        connection and are not acknowledged, nothing comes.

        Arguments:
            count: the most packets.
            timeout: how many seconds to wait; None: for ever.

        Returns:
            The packets; none if nothing comes in time, or when another thread closes the session.

        Raises:
            ClosedError: the session is closed.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        with self._lock:
            self._check_open()
        wait_us = timeout_us(timeout)
        end = None if wait_us is None else time.monotonic() + wait_us / 1e6
        while True:
            packets = self._poll_once(count, wait_us)
            if packets or self._closed or (end is not None and time.monotonic() >= end):
                return packets
            wait_us = None if end is None else max(0, round((end - time.monotonic()) * 1e6))

    def _poll_once(self, count: int, wait_us: int | None) -> list[Packet]:
        with self._lock:
            if self._closed:
                return []
            subscription = self._subscribed()
            # What has still to come again was not given in this connection, so it takes no room.
            room = self._receive_maximum - len(self._state.in_flight) + len(self._again)
            if self._again and room > 0:
                return [self._again.popleft() for _ in range(min(count, room, len(self._again)))]
            if subscription is None or room <= 0:
                self._may_give.wait(SLICE_S if wait_us is None else min(SLICE_S, wait_us / 1e6))
                return []
        delivery = subscription._next(wait_us, min(count, room))
        if delivery is None:
            return []
        with self._lock:
            if self._closed or subscription is not self._subscription:
                return []  # closed, or a filter was added or removed: these are read again
            subscription._done_with(delivery)
            return self._stored_packets(delivery)

    def _stored_packets(self, delivery: Delivery) -> list[Packet]:
        """Returns the packets of a delivery after storing their ids.

        If that fails, nothing of the delivery counts, and the next call reads it again.
        """
        state = self._state
        next_id, places, expired = state.next_id, dict(state.places), self._expired
        packets: list[Packet] = []
        try:
            packets.extend(self._packets_of(delivery))
            if any(packet.id for packet in packets):
                self._save()
        except BaseException:
            for packet in packets:
                state.in_flight.pop(packet.id, None)
            state.next_id, state.places, self._expired = next_id, places, expired
            self._restart()
            raise
        return packets

    def _packets_of(self, delivery: Delivery) -> Iterator[Packet]:
        """Gives the packets of a delivery that are wanted and have not expired, each with an id."""
        now = now_us()
        for message, place in placed(delivery.batch, delivery.rows):
            wanted = [
                one.qos for one in self._matches(message.topic) if one.wants(delivery.shard, place)
            ]
            if not wanted:
                continue
            left = left_s(message.properties, message.timestamp, now)
            if left == 0:
                self._expired += 1
                continue
            qos = max(wanted)
            id = self._take_id(delivery.shard, place, qos)
            yield packet_of(id, message, qos, left, dup=False)
        self._state.places[delivery.shard] = delivery.next
        self._changed = True

    def _matches(self, topic: str) -> list[SessionFilter]:
        found = self._matching.get(topic)
        if found is None:
            if len(self._matching) >= _TOPICS_KNOWN_MAX:
                self._matching.clear()
            found = [f for f in self._state.filters if _core.topic_matches(f.text, topic)]
            self._matching[topic] = found
        return found

    def _take_id(self, shard: int, place: Place, qos: Qos) -> int:
        if qos == 0:
            return 0
        state = self._state
        while state.next_id in state.in_flight:
            state.next_id = state.next_id % PACKET_ID_MAX + 1
        packet = InFlight(state.next_id, shard, place, qos)
        state.in_flight[packet.id] = packet
        state.next_id = state.next_id % PACKET_ID_MAX + 1
        return packet.id

    def puback(self, *ids: int) -> None:
        """Says that the client has packets of QoS 1.

        This is stored with the next change or ``close``: after a crash they may come again.

        Arguments:
            *ids: of the packets.

        Raises:
            ValueError: a packet is not in flight.
        """
        with self._lock:
            self._forget(self._known(ids, 1))

    def pubrec(self, *ids: int) -> None:
        """Says that the client has packets of QoS 2: send PUBREL. May be repeated.

        This is stored when it returns: they do not come again.

        Arguments:
            *ids: of the packets.

        Raises:
            ValueError: a packet is not in flight.
        """
        with self._lock:
            packets = [packet for packet in self._known(ids, 2) if not packet.received]
            for packet in packets:
                packet.received = True
            try:
                self._save()
            except BaseException:
                for packet in packets:
                    packet.received = False
                raise
            self._answered(ids)

    def pubcomp(self, *ids: int) -> None:
        """Says that the client has released ids of QoS 2.

        Stored with the next change or ``close``: after a crash you may have to send PUBREL again.

        Arguments:
            *ids: of the packets.

        Raises:
            ValueError: a packet is not in flight, or had no PUBREC.
        """
        with self._lock:
            packets = self._known(ids, 2)
            for packet in packets:
                if not packet.received:
                    raise ValueError(f"packet {packet.id}: PUBCOMP without PUBREC")
            self._forget(packets)

    @property
    def releases(self) -> list[int]:
        """Ids, of QoS 2, whose PUBREL is not answered: to be sent again after a reconnection."""
        return [packet.id for packet in self._state.in_flight.values() if packet.received]

    @property
    def expired(self) -> int:
        """How many messages had expired (MQTT 5) and were not given, since it was opened."""
        return self._expired

    @property
    def in_flight(self) -> list[int]:
        """Ids of packets that are not acknowledged to the end."""
        return list(self._state.in_flight)

    def _known(self, ids: Iterable[int], qos: Qos) -> list[InFlight]:
        self._check_open()
        packets = []
        for id in ids:
            packet = self._state.in_flight.get(id)
            if packet is None or packet.qos != qos:
                raise ValueError(f"packet {id}: none of QoS {qos} with this id is in flight")
            packets.append(packet)
        return packets

    def _forget(self, packets: list[InFlight]) -> None:
        state = self._state
        for packet in packets:
            state.in_flight.pop(packet.id, None)
        self._answered([packet.id for packet in packets])
        self._may_give.notify_all()
        if not state.in_flight:  # filters that were removed are needed no longer
            state.filters = [one for one in state.filters if one.until is None]
            self._matching.clear()
        self._changed = True

    def _answered(self, ids: Iterable[int]) -> None:
        """Lets packets that the client has answered not come again."""
        if self._again:
            answered = set(ids)
            self._again = deque(packet for packet in self._again if packet.id not in answered)

    # Reading.

    def _subscribed(self) -> Subscription | None:
        """Returns the subscription, after making it and finding what is in flight if need be."""
        state = self._state
        if self._subscription is None and state.filters:
            filters = [one.text for one in state.filters]
            core = self._core.subscribe(
                filters,
                dict(state.places),
                0,
                self._receive_maximum,
                WINDOW_BYTES,
                (0, 1),
                state.lost.start_all(self._core.schema["shards"]),
            )
            self._subscription = Subscription(
                core, self._core, filters, 0, None, "stored", self._lose
            )
        if self._subscription is not None and not self._found_again:
            packets, gone = packets_again(self._subscription._core, state.in_flight)
            if gone:
                self._forget(gone)
            self._again, self._found_again = deque(packets), True
        return self._subscription

    def _lose(self, loss: Loss) -> None:
        with self._lock:
            more = self._state.lost.add(loss)
            self._changed = True
        if more:
            self._report(loss)

    @property
    def lost(self) -> int:
        """How many messages were dropped with their generation before they could be sent, at most.

        They are counted when ``poll`` comes to where they were.
        """
        with self._lock:
            return self._state.lost.total

    def _restart(self) -> None:
        """Ends the subscription after a change of filters; the next one continues where it was."""
        self._may_give.notify_all()
        self._matching.clear()
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def _now_at(self, filter: str, start: Start) -> dict[int, Place]:
        """Returns for each shard where the messages of a filter begin that ``start`` asks for."""
        found = places_of(self._core, [filter], start)
        return {
            shard: found.get(shard, Place(1, 0)) for shard in range(self._core.schema["shards"])
        }

    # Storing.

    def _save(self) -> None:
        """Stores the state, on condition that the stored one is what this object has stored."""
        try:
            self._record.save(self._state)
        except (_core.PreconditionError, _core.ConflictError):
            self._end()
            raise self._lost() from None
        self._changed = False

    def flush(self) -> None:
        """Stores changes that are not stored yet."""
        with self._lock:
            self._check_open()
            if self._changed:
                self._save()

    def close(self) -> None:
        """Stores what is not stored yet; from now on ``expiry`` runs. May be repeated."""
        with self._lock:
            if self._closed:
                return
            try:
                if self._record.stored is not None or self._changed:
                    self._save()
            finally:
                self._end()

    def abandon(self) -> None:
        """Ends it for a takeover, without storing anything more."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._closed = True
        self._may_give.notify_all()
        if self._subscription is not None:
            self._subscription.close()
        self._give_up()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or another connection has taken it over."""
        return self._closed

    @property
    def client_id(self) -> str:
        """The client id of the session."""
        return self._client_id

    def _check_open(self) -> None:
        if self._closed:
            raise self._lost()

    def _lost(self) -> _core.ClosedError:
        return _core.ClosedError(
            f"session {self._client_id!r} is closed, or another connection has taken it over"
        )

    def __repr__(self) -> str:
        return f"<topicdb.Session {self._client_id!r}{' (closed)' if self._closed else ''}>"

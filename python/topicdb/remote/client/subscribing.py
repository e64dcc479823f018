"""Subscriptions to a database in another process."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.remote.client.connection import Stream
from topicdb.remote.client.lease import Lease, RemoteHandle
from topicdb.remote.records import About
from topicdb.remote.wire import batch_of, decode
from topicdb.results import Delivered
from topicdb.waiting import wait_for

_TRANSIT_S = 5.0


class _Arrived:
    """Messages that the server has sent, and how many of them the reader has taken.

    The lock of ``RemoteSubscription`` guards it.
    """

    def __init__(self, arrow: pa.RecordBatch, about: About) -> None:
        self.arrow = arrow
        self.about = about
        self.taken = 0

    @property
    def left(self) -> int:
        return int(self.arrow.num_rows) - self.taken

    @property
    def bytes_left(self) -> int:
        """Returns the bytes of topics and values that are left."""
        left = self.arrow.slice(self.taken)
        sizes = (pc.sum(pc.binary_length(left.column(name))) for name in ("topic", "value"))
        return sum(size.as_py() or 0 for size in sizes)

    def place(self, row: int) -> tuple[int, int]:
        """Returns the place of one of its messages: the serial of the commit, and the row in it."""
        return self.arrow.column("serial")[row].as_py(), self.arrow.column("row")[row].as_py()

    def take(self, rows_max: int) -> Delivered:
        """Takes up to ``rows_max`` messages, and returns what ``_core.Subscription.next`` would."""
        rows = min(rows_max, self.left)
        part = self.arrow.slice(self.taken, rows)
        self.taken += rows
        about = self.about
        serial, row = about.serial, about.row
        if self.left:
            serial, last = self.place(self.taken - 1)
            row = last + 1
        return Delivered(
            batch=batch_of(part),
            seqno=about.seqno - self.left,
            shard=about.shard,
            serial=serial,
            row=row,
            is_live=about.is_live,
            rows=part.column("row").to_numpy().copy(),
            loss=about.loss,
        )


class RemoteSubscription:
    """A subscription at the server, used as ``_core.Subscription`` is. Thread-safe.

    A thread takes what the server sends, within the window, so that ``next`` finds it here. It ends
    with the subscription, also when that is garbage collected.
    """

    def __init__(
        self, lease: Lease, number: int, missing: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """``missing``: the shards that it leaves out."""
        self._handle = RemoteHandle(lease, number)
        self._lease = lease
        self._missing = missing
        self._changed = threading.Condition()
        self._arrived: deque[_Arrived] = deque()
        self._seqno_arrived = 0
        self._delivered = 0
        self._acknowledged = 0
        self._lost = 0  # messages of the losses that ``next`` has given
        self._paused = False
        self._closed = False
        self._ended = False
        self._error: BaseException | None = None
        self._tokens: list[tuple[_core.ReadyTokens, int]] = []
        self._reader = lease.read("subscription", number)
        lease.end_with(self._reader)
        weakref.finalize(self, self._reader.cancel).atexit = False
        threading.Thread(
            target=_receive,
            args=(weakref.ref(self), lease, self._reader),
            name="topicdb-subscription-reader",
            daemon=True,
        ).start()

    def _add(self, arrived: _Arrived) -> None:
        with self._changed:
            self._arrived.append(arrived)
            self._seqno_arrived = arrived.about.seqno
            self._tell()

    def _has_ended(self, error: BaseException | None) -> None:
        with self._changed:
            self._error = error
            self._ended = True
            self._tell()

    def _tell(self) -> None:
        """Wakes up whoever waits for a change. REQUIRES: ``_changed`` is held."""
        self._changed.notify_all()
        for tokens, token in self._tokens:
            tokens.give(token)

    def next(self, timeout_us: int | None, rows_max: int) -> Delivered | None:
        """Returns what ``_core.Subscription.next`` does; None if nothing came in time."""
        self._lease.connection.check_process()
        with self._changed:
            timeout_s = None if timeout_us is None else timeout_us / 1e6
            if not wait_for(
                self._changed,
                lambda: self._closed or self._has_any() or self._ended,
                timeout_s,
            ):
                return None
            if self._closed:
                return None
            if self._has_any():
                return self._take(rows_max)
        raise self._end()

    def _has_any(self) -> bool:
        return bool(self._arrived) and not self._paused

    def _take(self, rows_max: int) -> Delivered:
        first = self._arrived[0]
        found = first.take(rows_max)
        if not first.left:
            self._arrived.popleft()
        self._delivered = found.seqno
        if found.loss is not None:
            self._lost += found.loss.messages
        return found

    def _end(self) -> BaseException:
        if self._lease.lost:
            return self._lease.why()
        return self._error or UnavailableError(
            f"{self._lease.connection.url}: the server has ended the subscription"
        )

    def acknowledge(self, seqno: int) -> None:
        """Acknowledges messages up to ``seqno``; does not wait until the server is told.

        Raises ValueError if they were not delivered, or are acknowledged already.
        """
        with self._changed:
            if seqno > self._delivered:
                raise ValueError(
                    f"ack: message {seqno} was not delivered: the last one is {self._delivered}"
                )
            if seqno <= self._acknowledged:
                raise ValueError(f"ack: message {seqno} is acknowledged already")
            self._acknowledged = seqno
        self._lease.acknowledge(self._handle.number, seqno)

    def on_ready(self, tokens: _core.ReadyTokens, token: int) -> None:
        """Has the token given whenever there may be something for ``next``."""
        with self._changed:
            self._tokens.append((tokens, token))
            if self._arrived or self._ended:
                tokens.give(token)

    def info(self) -> dict[str, Any]:
        """Returns the server's figures, with what has arrived here and is not taken yet."""
        if self._closed:
            return self._closed_info()
        self._lease.flush()
        info: dict[str, Any] = self._handle.call("subscription.info")
        with self._changed:
            # What the server has sent counts as waiting once it is here, so wait for that.
            self._changed.wait_for(
                lambda: self._ended or self._seqno_arrived >= info["delivered"], _TRANSIT_S
            )
            for arrived in reversed(self._arrived):
                if arrived.left:
                    info["places"][arrived.about.shard] = arrived.place(arrived.taken)
            info["waiting"] += sum(arrived.left for arrived in self._arrived)
            info["waiting_bytes"] += sum(arrived.bytes_left for arrived in self._arrived)
            info["delivered"] = self._delivered
            info["acknowledged"] = self._acknowledged
        return info

    def _closed_info(self) -> dict[str, Any]:
        return {
            "state": "closed",
            "delivered": self._delivered,
            "acknowledged": self._acknowledged,
            "waiting": 0,
            "waiting_bytes": 0,
            "places": {},
            "lost": self._lost,
        }

    def find(
        self, shard: int, places: Sequence[tuple[int, int]]
    ) -> tuple[_core.Batch, npt.NDArray[np.uint32]]:
        """Returns the messages that are at these places, and their rows."""
        pairs = [(serial, row) for serial, row in places]
        found: tuple[_core.Batch, npt.NDArray[np.uint32]] = self._handle.call(
            "subscription.find", shard, pairs
        )
        return found

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""
        return dict(self._missing)

    def pause(self) -> None:
        """Gives nothing until ``resume``; the server reads nothing ahead."""
        self._lease.connection.check_open()
        with self._changed:
            self._paused = True
        if not self._closed:
            self._handle.call("subscription.pause")

    def resume(self) -> None:
        """Goes on after ``pause``."""
        if not self._closed:
            self._handle.call("subscription.resume")
        with self._changed:
            self._paused = False
            self._tell()

    def close(self) -> None:
        """Ends the subscription. May be repeated."""
        if self._lease.connection.is_forked:
            self._closed = True
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._arrived.clear()
            self._tell()
        self._reader.cancel()
        self._handle.close()

    @property
    def closed(self) -> bool:
        """Returns whether ``close`` was called."""
        return self._closed


def _receive(reference: weakref.ref[RemoteSubscription], lease: Lease, reader: Stream) -> None:
    """Takes what the server sends, until one side ends the stream.

    While it waits, it does not keep the subscription alive.
    """
    ended_by: BaseException | None = None
    try:
        with lease.connection.told(), suppress(StopIteration):
            while True:
                chunk = reader.read_chunk()
                about = About.from_plain(decode(chunk.app_metadata.to_pybytes()))
                subscription = reference()
                if subscription is None:
                    break
                subscription._add(_Arrived(chunk.data, about))
                del chunk, subscription
    except BaseException as error:
        ended_by = error
    lease.forget(reader)
    if (left := reference()) is not None:
        left._has_ended(ended_by)

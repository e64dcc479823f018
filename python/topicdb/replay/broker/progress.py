"""The state and the progress of a replay into a broker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from topicdb.replay.pacing import Pacer

State: TypeAlias = Literal[
    "stopped", "connecting", "replaying", "paused", "retrying", "complete", "failed"
]
_WORKING = ("connecting", "replaying", "retrying")
_WINDOW_S = 5.0
_SAMPLE_S = 0.1


class Progress(NamedTuple):
    """The progress of a replay into a broker; made by ``BrokerReplay.progress``.

    The counts are since the start of the replay or the last seek, but for ``sent_again`` and
    ``reconnects``, which a start does not reset.

    Attributes:
        state: ``"stopped"`` (also before the first start), ``"connecting"``, ``"replaying"``,
            ``"paused"``, ``"retrying"`` (nothing was confirmed since the last error),
            ``"complete"`` or ``"failed"`` (``last_error`` has ended it).
        position: a timestamp in µs. All older messages are confirmed, refused or expired. With
            ``start=position`` a replay goes on there, and sends messages of this very timestamp
            again.
        done: how many messages the broker has confirmed, or with QoS 0 the socket has taken.
        total: how many messages the replay has, or None while they are not counted.
        per_s: messages a second, over about the last five seconds.
        elapsed_s: seconds that the replay has worked, without pauses.
        eta_s: seconds that are left, or None if that cannot be told.
        unconfirmed: how many messages are on their way.
        refused: how many messages were passed over, as the broker refuses them.
        sent_again: how many messages were sent again after lost connections.
        reconnects: how many times a lost connection was replaced.
        last_error: the last error as text, which may be over, or None.
        expired: how many messages were not sent, as they had expired (MQTT 5).
    """

    state: State
    position: int
    done: int
    total: int | None
    per_s: float
    elapsed_s: float
    eta_s: float | None
    unconfirmed: int
    refused: int
    sent_again: int
    reconnects: int
    last_error: str | None
    expired: int = 0


class Tracker:
    """Keeps the progress of one replay up to date.

    BrokerReplay owns this object, and ``Work`` reports to it. Thread-safe.
    """

    def __init__(self, position: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._state: State = "stopped"
        self._error: BaseException | None = None
        self._sent_again = self._reconnects = 0
        self._reset(position)

    def _reset(self, position: int) -> None:
        self._position = position
        self._done = self._refused = self._expired = self._unconfirmed = 0
        self._total: int | None = None
        self._last_us: int | None = None
        self._worked_s = 0.0
        self._since_s = self._clock()
        self._samples: deque[tuple[float, int]] = deque([(0.0, 0)])

    @property
    def state(self) -> State:
        return self._state

    @property
    def position(self) -> int:
        return self._position

    @property
    def error(self) -> BaseException | None:
        """The last error, which may be over, or None."""
        return self._error

    def begin(self, position: int) -> None:
        """Counts anew, from this timestamp on."""
        with self._lock:
            self._reset(position)

    def enter(self, state: State, error: BaseException | None = None) -> None:
        """Enters a state, which may be the same one, and notes the error, if any."""
        with self._lock:
            now = self._clock()
            if self._state in _WORKING:
                self._worked_s += now - self._since_s
            self._since_s = now
            self._state = state
            self._error = error or self._error

    def counted(self, total: int, last_us: int) -> None:
        """Notes how many messages the replay has, and the timestamp of the last one."""
        with self._lock:
            self._total, self._last_us = total, last_us

    def moved(self, position: int, confirmed: int, unconfirmed: int) -> None:
        """Adds messages that were confirmed since the last call.

        All messages before the timestamp ``position`` are done with, and ``unconfirmed`` are on
        their way.
        """
        with self._lock:
            self._position, self._unconfirmed = position, unconfirmed
            if confirmed == 0:
                return
            self._done += confirmed
            worked_s = self._elapsed_s()
            if worked_s - self._samples[-1][0] >= _SAMPLE_S:
                self._samples.append((worked_s, self._done))
                while len(self._samples) > 2 and worked_s - self._samples[0][0] > _WINDOW_S:
                    self._samples.popleft()

    def refused(self) -> None:
        with self._lock:
            self._refused += 1

    def expired(self) -> None:
        with self._lock:
            self._expired += 1

    def reconnected(self, sent_again: int) -> None:
        with self._lock:
            self._reconnects += 1
            self._sent_again += sent_again

    def progress(self, pacer: Pacer) -> Progress:
        """Returns the progress; what is left is estimated for this pace."""
        with self._lock:
            per_s = self._per_s()
            return Progress(
                self._state,
                self._position,
                self._done,
                self._total,
                per_s,
                self._elapsed_s(),
                self._eta_s(pacer, per_s),
                self._unconfirmed,
                self._refused,
                self._sent_again,
                self._reconnects,
                None if self._error is None else str(self._error) or repr(self._error),
                self._expired,
            )

    def _elapsed_s(self) -> float:
        going_s = self._clock() - self._since_s if self._state in _WORKING else 0.0
        return self._worked_s + going_s

    def _per_s(self) -> float:
        elapsed_s = self._elapsed_s()
        since_s, done = self._samples[0]
        if self._state not in _WORKING or elapsed_s - since_s < _SAMPLE_S:
            since_s, done = 0.0, 0  # over the whole replay
        return (self._done - done) / (elapsed_s - since_s) if elapsed_s > since_s else 0.0

    def _eta_s(self, pacer: Pacer, per_s: float) -> float | None:
        if self._state == "complete":
            return 0.0
        if self._total is None or self._last_us is None or self._state not in _WORKING:
            return None
        left = max(0, self._total - self._done - self._refused - self._expired)
        paced_s = pacer.due_s(self._last_us)
        if (limit_per_s := pacer.rate.per_s) is not None:
            paced_s = left / limit_per_s
        if per_s > 0 and pacer.rate.factor is None:
            return max(paced_s, left / per_s)
        return paced_s if paced_s > 0 else None

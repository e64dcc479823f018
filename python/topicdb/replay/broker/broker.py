"""Replay of stored messages into an MQTT broker, with paho-mqtt."""

from __future__ import annotations

import atexit
import os
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

from topicdb import _core
from topicdb.closing import first_error
from topicdb.follow.waiting import wait_for
from topicdb.forward.options import Seconds, finite_seconds, seconds
from topicdb.replay.broker.link import Naming, Publishing, Target
from topicdb.replay.broker.marks import REPLAY_PROPERTY, Doubles
from topicdb.replay.broker.progress import Progress, State, Tracker
from topicdb.replay.broker.remap import Remap
from topicdb.replay.broker.work import Controls, Job, Work
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.times import TimeLike, time_range_us, time_us

if TYPE_CHECKING:
    from topicdb.database.database import Database

GIVE_UP_AFTER_S = 60.0

__all__ = ["REPLAY_PROPERTY", "BrokerReplay", "NewTopics"]

NewTopics: TypeAlias = "Mapping[str, str] | Callable[[str], str] | None"


class BrokerReplay:
    """Publishes stored messages of a filter to an MQTT broker, by timestamp, at a pace of yours.

    At least once, in order: what a lost connection left unconfirmed is sent again before anything
    else. A broker that is not there is given up after a minute (``give_up_after``). What was
    appended while it runs does not come.

    ``run`` it, or ``start`` and ``stop`` it, or use it in ``with``. After ``stop`` or an error it
    goes on where it was, after its end from the beginning. Thread-safe.
    """

    def __init__(
        self,
        database: Database,
        filter: str = "#",
        *,
        host: str,
        port: int | None = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        rate: str | float | None = "max",
        qos: Literal[0, 1, 2] | None = 1,
        retain: bool | None = False,
        remap: NewTopics = None,
        refused: Literal["stop", "skip"] = "stop",
        retry_max: Seconds = 30.0,
        give_up_after: Seconds | None = GIVE_UP_AFTER_S,
        count: bool = True,
        mark: bool = True,
        stored_again: Literal["refuse", "allow"] = "refuse",
        expired: Literal["skip", "send"] = "skip",
        protocol: Literal["5", "3.1.1"] = "5",
        tls: bool | ssl.SSLContext = False,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        keepalive: int = 60,
        connect_timeout: Seconds = 5.0,
        unconfirmed_max: int = 1_000,
    ) -> None:
        """
        - ``start``, ``end``: as of ``Database.scan``. ``rate``: ``"1x"`` as it was, ``"10x"``,
          messages a second (``500`` or ``"500/s"``), ``"max"``.
        - ``qos``, ``retain``: of all messages; None: as it was, where a bridge has stored that
          (others: QoS 1, not retained). What is retained replaces what the broker holds now.
        - ``remap``: {filter: new name}, see ``Remap``, or a function of the topic.
        - ``refused``: what happens with a message that the broker will never take, as it is too
          large: ``"stop"`` (it fails there) or ``"skip"`` (it is counted).
        - ``retry_max``: seconds between attempts to connect, at most; ``give_up_after``: it fails
          when nothing was confirmed for so many seconds in spite of them. None: never.
        - ``count``: finds the total beforehand, beside the replay; it reads all messages once.
        - ``mark``: each message has the user property ``topicdb-replay`` (MQTT 5), the ``id`` of
          this replay, by which bridges pass it by.
        - ``stored_again``: what happens if a bridge of this database follows the topics in the same
          broker and cannot tell what is replayed, since one of them speaks MQTT 3.1.1:
          ``"refuse"`` (ValueError, here, or as ``remap`` gives such a topic), or ``"allow"``.
        - ``expired``: what happens with a message whose expiry interval (MQTT 5, as a bridge has
          stored it) is over: ``"skip"`` (it is counted; others are sent with what they have left)
          or ``"send"`` (of all messages the interval begins anew).
        - ``host`` (which may be a URL) and the others: as of ``MqttSink``. The broker may allow
          fewer than ``unconfirmed_max``.

        Raises ImportError without paho-mqtt; ValueError, TopicError for options.
        """
        _check(filter, qos, retain, refused, stored_again, expired)
        self._first_us, end_us = time_range_us(start, end)
        self._begin_us = self._first_us or 0
        target = Target(
            host,
            port,
            topic="-",  # each message has its own
            qos=1 if qos is None else qos,
            client_id=client_id,
            username=username,
            password=password,
            tls=tls,
            protocol=protocol,
            keepalive=keepalive,
            connect_timeout=connect_timeout,
            unconfirmed_max=unconfirmed_max,
        )
        self._id = secrets.token_hex(8)
        mark_of_all = self._id if mark and protocol == "5" else None
        naming = _naming(remap)
        if stored_again == "refuse":
            doubles = Doubles(database._core, *target.place, mark_of_all is not None)
            if remap is None:
                doubles.check(filter)
            elif doubles:
                naming = doubles.checked(naming)
        self._job = Job(
            database,
            filter,
            end_us,
            target,
            Publishing(qos, retain, naming, protocol == "5", mark_of_all, expired == "send"),
            refused == "skip",
            finite_seconds(retry_max, "retry_max"),
            seconds(give_up_after, "give_up_after"),
            count,
        )
        self._controls = Controls(Pacer(parse_rate(rate)))
        self._changed = self._controls.changed
        self._tracker = Tracker(self._begin_us)
        self._runner: threading.Thread | None = None  # while it runs

    # Controls.

    def start(self) -> None:
        """Replays in a thread of its own. RuntimeError if it runs already."""
        thread = threading.Thread(target=self._run_quietly, name="topicdb-replay", daemon=True)
        self._claim(thread)
        _running.add(self)
        thread.start()

    def run(self) -> None:
        """Replays in this thread, until all is confirmed or ``stop`` is called.

        Raises what makes it fail: PermanentError (the broker refuses a message, with ``"stop"``),
        OSError (after ``give_up_after``), CorruptionError, ClosedError, what ``remap`` raises;
        RuntimeError if it runs already.
        """
        self._claim(threading.current_thread())
        self._run()

    def stop(self, timeout: Seconds = 10.0) -> bool:
        """Sends nothing more, and waits for confirmations, ``timeout`` seconds at most.

        Without a connection it does not wait. Returns whether all that was sent is confirmed; the
        rest comes again with the next ``start``. May be repeated. In the replay's own thread, such
        as in a signal handler, it only asks for the end, and returns False.
        """
        timeout_s = finite_seconds(timeout, "timeout")
        with self._changed:
            if self._runner is not None:
                self._controls.stop_at = time.monotonic() + timeout_s
                self._changed.notify_all()
                if self._runner is threading.current_thread():
                    return False
                wait_for(self._changed, lambda: self._runner is None)
        return self.progress().unconfirmed == 0

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Until it has ended, ``timeout`` seconds at most. Whether it has."""
        with self._changed:
            return wait_for(
                self._changed, lambda: self._runner is None, seconds(timeout, "timeout")
            )

    def pause(self) -> None:
        """Sends nothing until ``resume``; the connection stays. May be repeated."""
        self._controls.set_paused(True)

    def resume(self) -> None:
        """Goes on; the gaps between messages are as if the pause had not been."""
        self._controls.set_paused(False)

    def set_rate(self, rate: str | float | None) -> None:
        """From now on. ValueError."""
        parsed = parse_rate(rate)
        with self._changed:
            self._controls.pacer.set_rate(parsed)

    def seek(self, time: TimeLike) -> None:
        """Goes on with the first message of this time or later, also before ``start``.

        What is on its way is confirmed before. Counts begin anew. If it does not run, the next
        ``start`` begins there. ValueError: it is not before ``end``.
        """
        to_us = time_us(time, what="time")
        end_us = self._job.end_us
        if end_us is not None and to_us >= end_us:
            raise ValueError(f"time: {time!r} is not before the end of the replay")
        with self._changed:
            if self._runner is not None:
                self._controls.seek_us = to_us
            else:
                self._begin_at(to_us)

    def _begin_at(self, to_us: int) -> None:
        self._begin_us = to_us
        self._tracker.begin(to_us)

    def progress(self) -> Progress:
        """How far it is."""
        with self._changed:
            return self._tracker.progress(self._controls.pacer)

    @property
    def id(self) -> str:
        """What the messages are marked with, in the user property ``topicdb-replay``."""
        return self._id

    @property
    def error(self) -> BaseException | None:
        """What ended it, if it has failed."""
        with self._changed:
            return self._tracker.error if self._tracker.state == "failed" else None

    # The thread that replays.

    def _claim(self, runner: threading.Thread) -> None:
        with self._changed:
            if self._runner is not None:
                raise RuntimeError("the replay runs already")
            self._runner = runner
            self._controls.stop_at = self._controls.seek_us = None
            self._controls.pacer.restart()
            self._tracker.enter("connecting")

    def _run_quietly(self) -> None:
        with suppress(Exception):  # progress tells
            self._run()

    def _run(self) -> None:
        work = Work(self._job, self._controls, self._tracker)
        try:
            work.begin(self._begin_us)
            is_complete = work.run()
        except Exception as error:
            self._end(work, "failed", error)
            raise
        except BaseException:  # Ctrl-C
            self._end(work, "stopped")
            raise
        self._end(work, "complete" if is_complete else "stopped")

    def _end(self, work: Work, state: State, error: Exception | None = None) -> None:
        try:
            work.close()
        finally:
            _running.discard(self)
            with self._changed:
                is_complete = state == "complete"
                self._begin_us = (self._first_us or 0) if is_complete else self._tracker.position
                self._tracker.enter(state, error)
                if self._controls.seek_us is not None:  # it came too late, or was stopped before
                    self._begin_at(self._controls.seek_us)
                self._runner = None
                self._changed.notify_all()

    def __enter__(self) -> BrokerReplay:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with first_error(error):
            self.stop()

    def __repr__(self) -> str:
        state = self._tracker.state
        return (
            f"<topicdb.BrokerReplay of {self._job.filter!r} to {self._job.target.address}: {state}>"
        )


def _check(
    filter: str,
    qos: int | None,
    retain: bool | None,
    refused: str,
    stored_again: str,
    expired: str,
) -> None:
    _core.check_filter(filter)
    if qos not in (0, 1, 2, None):
        raise ValueError(f"qos: expected 0, 1, 2 or None (as it was), got {qos!r}")
    if retain not in (True, False, None):
        raise ValueError(f"retain: expected True, False or None (as it was), got {retain!r}")
    if refused not in ("stop", "skip"):
        raise ValueError(f"refused: expected 'stop' or 'skip', got {refused!r}")
    if stored_again not in ("refuse", "allow"):
        raise ValueError(f"stored_again: expected 'refuse' or 'allow', got {stored_again!r}")
    if expired not in ("skip", "send"):
        raise ValueError(f"expired: expected 'skip' or 'send', got {expired!r}")


def _naming(remap: NewTopics) -> Naming:
    if remap is None:
        return str
    if callable(remap):
        return remap
    if not isinstance(remap, Mapping):
        raise TypeError(f"remap: expected a mapping or a function, got {type(remap).__name__}")
    return Remap(remap)


_process_id = os.getpid()
_running: set[BrokerReplay] = set()  # those with a thread of their own


@atexit.register
def _stop_all() -> None:
    # A thread that goes on while Python takes itself apart would abort the process.
    if os.getpid() == _process_id:
        for replay in list(_running):
            replay.stop(timeout=1.0)

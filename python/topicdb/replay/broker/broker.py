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
from topicdb.arguments.times import TimeLike, time_range_us, time_us
from topicdb.closing import first_error
from topicdb.forward.options import Seconds, finite_seconds, seconds
from topicdb.replay.broker.link import Naming, Publishing, Target
from topicdb.replay.broker.marks import REPLAY_PROPERTY, Doubles
from topicdb.replay.broker.progress import Progress, State, Tracker
from topicdb.replay.broker.remap import Remap
from topicdb.replay.broker.work import Controls, Job, Work
from topicdb.replay.pacing import Pacer, parse_rate
from topicdb.waiting import wait_for

if TYPE_CHECKING:
    from topicdb.database.database import Database

GIVE_UP_AFTER_S = 60.0

__all__ = ["REPLAY_PROPERTY", "BrokerReplay", "NewTopics"]

NewTopics: TypeAlias = "Mapping[str, str] | Callable[[str], str] | None"


class BrokerReplay:
    """Publishes the stored messages of a filter to an MQTT broker, ordered by timestamp.

    Each message is published at least once, in order: messages that a lost connection left
    unconfirmed are sent again before anything else. If the broker does not answer, the replay fails
    after a minute (``give_up_after``). Messages that are appended while it runs do not come.

    Call ``run``; or ``start`` and ``stop``; or use it in ``with``, which starts and stops it. If it
    is started again after ``stop`` or an error, it goes on where it was; after it was complete, it
    begins anew. Thread-safe.

    Example:
        >>> with topicdb.open("plant.db", mode="r") as db:  # doctest: +SKIP
        ...     BrokerReplay(db, "site/#", host="broker.local", start="-24h", rate="10x").run()
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
        """Makes a replay; ``run`` or ``start`` begins it.

        Arguments:
            database: the database that is read.
            filter: the topic filter of the messages.
            host: the broker: a name, an address, or a URL, as in ``MqttSink``.
            port: as in ``MqttSink``.
            start: as in ``Database.scan``.
            end: as in ``Database.scan``.
            rate: ``"1x"`` is as fast as the messages came, ``"10x"`` ten times as fast; ``500`` or
                ``"500/s"`` are messages a second; ``"max"`` or None is as fast as possible.
            qos: of all messages. None: of each message the QoS of the time when a bridge stored it;
                messages that no bridge has stored have QoS 1.
            retain: of all messages. None: as with ``qos``; messages that no bridge has stored are
                not retained. A retained message replaces the one that the broker retains for its
                topic.
            remap: gives messages other topics: {filter: new name}, see ``Remap``, or a function
                that takes a topic and returns one. None: topics stay as they are.
            refused: what happens with a message that the broker will never take, such as one that
                is too large. ``"stop"``: the replay fails there. ``"skip"``: the message is passed
                over and counted.
            retry_max: the longest pause between attempts to connect, in seconds.
            give_up_after: the replay fails if connections fail and nothing was confirmed for this
                many seconds. None: it never gives up.
            count: whether to find the total beside the replay, which reads all messages once.
            mark: whether each message has the user property ``topicdb-replay`` (MQTT 5) with the
                ``id`` of this replay, by which bridges recognise and skip it.
            stored_again: what happens if a bridge of this database follows the topics in the same
                broker and cannot recognise replayed messages, because ``mark`` is False or one side
                speaks MQTT 3.1.1. ``"refuse"``: raises ValueError, here or, with ``remap``, when a
                message gets such a topic. ``"allow"``: replays all the same.
            expired: what happens with a message whose expiry interval (MQTT 5, as a bridge has
                stored it) is over. ``"skip"``: it is not sent but counted, and others are sent with
                what they have left of theirs. ``"send"``: it is sent, and the intervals of all
                messages begin anew.
            protocol: as in ``MqttSink``.
            tls: as in ``MqttSink``.
            username: as in ``MqttSink``.
            password: as in ``MqttSink``.
            client_id: as in ``MqttSink``.
            keepalive: as in ``MqttSink``.
            connect_timeout: as in ``MqttSink``.
            unconfirmed_max: at most this many messages are on their way; fewer if the broker allows
                fewer.

        Raises:
            ImportError: paho-mqtt is missing: install ``topicdb[mqtt]``.
            TopicError: a bad filter.
            ValueError, TypeError: another bad option.
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
        """Starts the replay in a thread of its own.

        What makes it fail is in ``error`` and ``progress``.

        Raises:
            RuntimeError: it runs already.
        """
        thread = threading.Thread(target=self._run_quietly, name="topicdb-replay", daemon=True)
        self._claim(thread)
        _running.add(self)
        thread.start()

    def run(self) -> None:
        """Replays in this thread, until all messages are confirmed or ``stop`` is called.

        Raises:
            PermanentError: the broker refuses a message (with ``refused="stop"``).
            OSError: the broker did not answer for ``give_up_after``.
            CorruptionError, ClosedError: the database is damaged or closed. What ``remap`` raises
                comes through, too.
            RuntimeError: the replay runs already.
        """
        self._claim(threading.current_thread())
        self._run()

    def stop(self, timeout: Seconds = 10.0) -> bool:
        """Stops sending, waits for confirmations, and ends the replay.

        Without a connection it does not wait. In the thread that replays, such as in a signal
        handler, it only asks for the end, and returns False. You may call it when no replay runs.

        Arguments:
            timeout: the most seconds to wait for confirmations.

        Returns:
            Whether all messages that were sent are confirmed; the next ``start`` sends the others
            again.
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
        """Waits until the replay has ended.

        Arguments:
            timeout: the most seconds to wait; None: for ever.

        Returns:
            Whether it has ended.
        """
        with self._changed:
            return wait_for(
                self._changed, lambda: self._runner is None, seconds(timeout, "timeout")
            )

    def pause(self) -> None:
        """Lets no more messages go until ``resume``. The connection stays."""
        self._controls.set_paused(True)

    def resume(self) -> None:
        """Ends a pause. The gaps between messages are as if there had been no pause."""
        self._controls.set_paused(False)

    def set_rate(self, rate: str | float | None) -> None:
        """Changes the rate from now on.

        Arguments:
            rate: as of ``BrokerReplay``.

        Raises:
            ValueError, TypeError: it is no rate.
        """
        parsed = parse_rate(rate)
        with self._changed:
            self._controls.pacer.set_rate(parsed)

    def seek(self, time: TimeLike) -> None:
        """Goes on with the first message of this time or later, which may be before ``start``.

        The replay first waits until the messages on their way are confirmed. The counts begin anew.
        If the replay does not run, the next ``start`` begins there.

        Arguments:
            time: a time, as in ``Database.scan``.

        Raises:
            ValueError: ``time`` is not before ``end``.
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
        """Returns how far the replay is."""
        with self._changed:
            return self._tracker.progress(self._controls.pacer)

    @property
    def id(self) -> str:
        """The value of the user property ``topicdb-replay``, with which messages are marked."""
        return self._id

    @property
    def error(self) -> BaseException | None:
        """The error that ended the replay if it has failed, or None."""
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
        with suppress(Exception):  # progress() and error tell it
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
                if self._controls.seek_us is not None:  # the seek came too late for this run
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
    # A thread that goes on while the interpreter ends would abort the process.
    if os.getpid() == _process_id:
        for replay in list(_running):
            replay.stop(timeout=1.0)

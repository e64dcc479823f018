"""Decides which of the messages that an endpoint reads come to its queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from topicdb._core import Batch
from topicdb.arguments.times import TIMESTAMP_MAX
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.spool import DONE, UNWANTED, WAITING
from topicdb.replay.records import EndpointRecord, RunRecord, Subscribed
from topicdb.replay.rules import Era, Matcher
from topicdb.types import Message

Mask = npt.NDArray[np.bool_]
States = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.uint32]
Accepts: TypeAlias = Callable[[Message], bool]


def are_before(serials: npt.NDArray[np.uint64], rows: Rows, place: Place) -> Mask:
    """Returns for each message whether it is before a place."""
    same = (serials == place.serial) & (rows < place.row)
    before: Mask = (serials < place.serial) | same
    return before


class Admission:
    """Decides which messages one endpoint wants of those that one core subscription delivers.

    - A replay wants messages before ``live_from`` if the log kept them and they are in the replay's
      range of time. It does not matter when the subscriptions were made.
    - Otherwise a subscription counts from when it was made until it was removed.
    - Of what was read before a restart, the endpoint wants only what was not done with.
    - A topic endpoint wants nothing that its selector refuses.

    It lives as long as the ``Reader`` that owns it. Not thread-safe: one thread at a time reads.
    """

    def __init__(
        self, record: EndpointRecord, eras: Callable[[], Sequence[Era]], selector: Accepts | None
    ) -> None:
        self._subscriptions = record.subscriptions
        self._run = record.run
        self._eras = eras
        self._selector = selector
        self._resume_until = record.next
        self._held = list(record.held)
        self._matchers: dict[str, Matcher] = {}

    def states(self, batch: Batch, rows: Rows) -> States | None:
        """Returns the state of each message of a batch, or None if the endpoint wants all of them.

        A state is WAITING for a message that is wanted, UNWANTED for one that is not, and DONE for
        one that was done with before a restart.
        """
        serials = batch.serials
        assert serials is not None
        mask: Mask = np.ones(len(batch), np.bool_)
        replayed: Mask = np.zeros(len(batch), np.bool_)
        if self._run is not None:
            replayed = are_before(serials, rows, self._run.live_from)
            if replayed.any():
                self._leave_out_not_replayed(mask, batch, rows, replayed, self._run)
        if not replayed.all():
            self._leave_out_not_subscribed(mask, batch, rows, ~replayed)
        if self._selector is not None:
            for index in np.flatnonzero(mask).tolist():
                mask[index] = self._selector(batch[index])
        done = self._done(serials, rows)
        if done is None and mask.all():
            return None
        states: States = np.where(mask, np.uint32(WAITING), np.uint32(UNWANTED)).astype(np.uint32)
        if done is not None:
            states[done & mask] = DONE
        return states

    def _leave_out_not_replayed(
        self, mask: Mask, batch: Batch, rows: Rows, replayed: Mask, run: RunRecord
    ) -> None:
        serials, times = batch.serials, batch.timestamps
        assert serials is not None
        end_us = TIMESTAMP_MAX if run.end_us is None else run.end_us - 1
        mask &= ~replayed | ((times >= run.start_us) & (times <= end_us))
        eras = self._eras()
        # What is older than the oldest era was trimmed since the replay began, which goes on only
        # if it wants none of that. What it held before a restart it had let in already.
        trimmed = are_before(serials, rows, eras[0].since)
        mask &= ~(replayed & trimmed & ~are_before(serials, rows, self._resume_until))
        for era, following in zip(eras, [*eras[1:], None], strict=True):
            if era.logs_everything:
                continue
            here = replayed & mask & ~are_before(serials, rows, era.since)
            if following is not None:
                here &= are_before(serials, rows, following.since)
            for index in np.flatnonzero(here).tolist():
                mask[index] = era.logs(batch[index].topic)

    def _leave_out_not_subscribed(self, mask: Mask, batch: Batch, rows: Rows, live: Mask) -> None:
        serials = batch.serials
        assert serials is not None
        first = Place(int(serials[0]), int(rows[0]))
        if all(one.until is None and one.since <= first for one in self._subscriptions):
            return
        for index in np.flatnonzero(live & mask).tolist():
            place = Place(int(serials[index]), int(rows[index]))
            mask[index] = self._is_subscribed(batch[index].topic, place)

    def _is_subscribed(self, topic: str, place: Place) -> bool:
        return any(one.wants(place) and self._matches(one, topic) for one in self._subscriptions)

    def _matches(self, one: Subscribed, topic: str) -> bool:
        matcher = self._matchers.get(one.filter)
        if matcher is None:
            matcher = self._matchers[one.filter] = Matcher([one.filter])
        return matcher(topic)

    def _done(self, serials: npt.NDArray[np.uint64], rows: Rows) -> Mask | None:
        """Returns which messages were read before a restart and are not held: they are done with.

        Returns None if all messages come after those that were read before.
        """
        if self._resume_until <= Place(int(serials[0]), int(rows[0])):
            return None
        done = are_before(serials, rows, self._resume_until)
        for first, last in self._held:
            behind = Place(last.serial, last.row + 1)
            done &= are_before(serials, rows, first) | ~are_before(serials, rows, behind)
        return done

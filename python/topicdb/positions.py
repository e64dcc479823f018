"""Named positions that are stored in the database, each with one owner.

Kept among TopicDB's own topics, as maps are:

- ``$topicdb/<kind>/<name>/state``, in the home shard of the name: JSON with the ``epoch``, what the
  kind wants to keep, and the places at the beginning of the epoch;
- ``$topicdb/<kind>/<name>/fence``, in every shard: the epoch, eight bytes, big-endian;
- ``$topicdb/<kind>/<name>/at/<key>``, in any shard: epoch, serial (eight bytes each) and row
  (four), big-endian. Of several of the epoch the last place counts.

So a place can be stored by a transaction of any shard, together with what that writes. Every owner
has an epoch of its own; it begins with the fences, so that a transaction of an earlier owner that
is still open cannot be committed, and ends with the state: whatever is interrupted in between, the
places of the last complete epoch hold.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb import _core
from topicdb.map import escape, unescape
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.database import Durability

_AT = struct.Struct(">QQI")
_FENCE = struct.Struct(">Q")
_ALL = (1 << 63) - 1
KINDS = ("consumer", "group")
STATE_BYTES_MAX = 64 << 20
PARTS_MAX = 4_096  # of a group


class Place(NamedTuple):
    """Of a message among those committed to its shard: the commit, and its place in that."""

    serial: int
    row: int


class Positions:
    """Those of one name. Thread-safe but for ``open`` and ``restart``."""

    def __init__(
        self, core: _core.Database, kind: str, name: str, durability: Durability | None
    ) -> None:
        self._core = core
        self.label = name
        self.name = f"{kind} {name!r}"
        self._prefix = f"$topicdb/{kind}/{escape(name)}/"
        _core.check_topic(self._prefix + "at/4294967295")
        self._durability = durability
        self._shards = range(core.schema["shards"])
        self.home: int = _core.shard_of(self._prefix, len(self._shards))
        self._epoch = 0

    def kept(self) -> dict[str, Any] | None:
        """What is kept with the name; None if there is none."""
        state = self._load()
        return None if state is None else state["kept"]

    def open(self, made: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Place]]:
        """Becomes the owner. What is kept with the name, and the places, by key.

        ``made``: what is kept if the name is new; with None that is a NotFoundError.
        """
        state = self._load()
        if state is None:
            if made is None:
                raise self.missing()
            state = {"epoch": 0, "kept": dict(made), "places": {}}
        fence = max(state["epoch"], *(self._fence_of(shard) for shard in self._shards)) + 1
        self._raise_fences(fence)
        places = self._places(state)
        self._begin_epoch(fence, state["kept"], places)
        return state["kept"], places

    def _places(self, state: Mapping[str, Any]) -> dict[str, Place]:
        places = {key: Place(*place) for key, place in state["places"].items()}
        for key, epoch, place in self._stored():
            if epoch == state["epoch"]:
                places[key] = max(places.get(key, place), place)
        return places

    def lag(self) -> int:
        """Messages that are stored and not acknowledged, about, whoever has it open.

        Of a group, counted from the part that is farthest behind.
        """
        state = self._load()
        if state is None:
            return 0
        kept = state["kept"]
        start = {int(shard): Place(*place) for shard, place in kept["start"].items()}
        parts = [f"{part}-" for part in range(kept["parts"])] if "parts" in kept else [""]
        places = self._places(state)
        farthest: dict[int, Place] = {}
        for shard in self._shards:
            begin = start.get(shard, Place(1, 0))
            farthest[shard] = min(places.get(f"{part}{shard}", begin) for part in parts)
        return lag_of(self._core, kept["filters"], kept["start_us"], farthest)

    def restart(self, kept: Mapping[str, Any], places: Mapping[str, Place]) -> None:
        """Other places, also earlier ones, and what is to be kept with the name."""
        fence = self._epoch + 1
        self._raise_fences(fence)
        self._begin_epoch(fence, kept, places)

    def save(self, places: Mapping[str, Place]) -> None:
        """Stores places by a transaction of their own. ConflictError: it has another owner now."""
        with self._begun(self.home) as transaction:
            self.write(transaction, self.home, places)
            try:
                transaction.commit()
            except (_core.PreconditionError, _core.ConflictError):
                raise self.lost() from None

    def write(
        self, transaction: _core.Transaction, shard: int, places: Mapping[str, Place]
    ) -> None:
        """Has a transaction store places; PreconditionError at its commit: another owner."""
        transaction.require(self._prefix + "fence", 0, _FENCE.pack(self._epoch))
        for key, place in places.items():
            value = _AT.pack(self._epoch, *place)
            transaction.write(f"{self._prefix}at/{key}", 0, value, reserved=True)

    def drop(self) -> None:
        """Removes all of it."""
        for shard in sorted(self._shards, key=lambda shard: shard == self.home):
            with self._begun(shard) as transaction:
                transaction.delete(self._prefix + "#", None, None, reserved=True)
                transaction.commit()

    def missing(self) -> _core.NotFoundError:
        """That there is no such name."""
        return _core.NotFoundError(f"there is no {self.name} in {self._core.path}")

    def lost(self) -> _core.ConflictError:
        """That it has another owner."""
        return _core.ConflictError(
            f"{self.name} is not this object's any more: it was taken over or dropped"
        )

    def _begun(self, shard: int) -> AbstractContextManager[_core.Transaction]:
        return begun(self._core, shard, self._durability)

    def _load(self) -> dict[str, Any] | None:
        with self._begun(self.home) as transaction:
            value = transaction.get(self._prefix + "state", 0)
        return None if value is None else _state_of(value)

    def _fence_of(self, shard: int) -> int:
        with self._begun(shard) as transaction:
            value = transaction.get(self._prefix + "fence", 0)
        return 0 if value is None else int(_FENCE.unpack(value)[0])

    def _raise_fences(self, epoch: int) -> None:
        for shard in self._shards:
            with self._begun(shard) as transaction:
                transaction.write(self._prefix + "fence", 0, _FENCE.pack(epoch), reserved=True)
                transaction.commit()

    def _stored(self) -> Iterator[tuple[str, int, Place]]:
        for shard in self._shards:
            with self._begun(shard) as transaction:
                scan = transaction.scan(self._prefix + "at/+", None, None)
                while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                    for topic, _, value in batch:
                        epoch, serial, row = _AT.unpack(value)
                        yield topic[len(self._prefix) + 3 :], epoch, Place(serial, row)

    def _begin_epoch(
        self, epoch: int, kept: Mapping[str, Any], places: Mapping[str, Place]
    ) -> None:
        state = {"epoch": epoch, "kept": dict(kept), "places": dict(places)}
        with self._begun(self.home) as transaction:
            transaction.require(self._prefix + "fence", 0, _FENCE.pack(epoch))
            text = json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()
            transaction.write(self._prefix + "state", 0, text, reserved=True)
            try:
                transaction.commit()
            except (_core.PreconditionError, _core.ConflictError):
                raise self.lost() from None
        self._epoch = epoch


def check_stored(topic: str, value: bytes | None) -> None:
    """ValueError: this would be the state of a consumer or group, and none can be read from it."""
    levels = topic.split("/")
    is_own = len(levels) == 4 and levels[0] == "$topicdb" and levels[1] in KINDS
    if is_own and levels[3] == "state":
        try:
            _state_of(value or b"")
        except ValueError as error:
            raise ValueError(f"{topic!r}: {error}") from None


def _state_of(value: bytes) -> dict[str, Any]:
    """ValueError."""
    if len(value) > STATE_BYTES_MAX:
        raise ValueError(f"the state of a name has {STATE_BYTES_MAX} bytes at most")
    try:
        state = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no state of a name: {type(error).__name__}") from None
    is_state = isinstance(state, dict) and all(
        isinstance(state.get(key), kind)
        for key, kind in (("epoch", int), ("kept", dict), ("places", dict))
    )
    if not is_state:
        raise ValueError("this is no state of a name: it has no epoch, no places, or keeps nothing")
    parts = state["kept"].get("parts", 1)
    if not isinstance(parts, int) or not 1 <= parts <= PARTS_MAX:
        raise ValueError(f"the state of a name has 1 to {PARTS_MAX} parts, not {parts!r}")
    found: dict[str, Any] = state
    return found


def lag_of(
    core: _core.Database, filters: list[str] | None, start_us: int, places: Mapping[int, Place]
) -> int:
    """Messages from these places on; from the oldest of shards without one."""
    lag = 0
    for shard in range(core.schema["shards"]):
        after = max(places.get(shard, Place(1, 0)).serial, 1) - 1
        lag += core.measure_log(shard, filters, after, None, start_us or None, _ALL, _ALL)[1]
    return lag


def names(core: _core.Database, kind: str) -> list[str]:
    """Of all that there are, sorted."""
    prefix = f"$topicdb/{kind}/"
    found = []
    for shard in range(core.schema["shards"]):
        with begun(core, shard, None) as transaction:
            scan = transaction.scan(f"{prefix}+/state", None, None)
            while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                found += [unescape(topic[len(prefix) :].split("/")[0]) for topic in batch.topics]
    return sorted(found)


def lags(core: _core.Database, kind: str) -> dict[str, float]:
    """Of all names of a kind, what they lag behind; see ``Positions.lag``.

    NaN: what is stored of it cannot be read.
    """
    found: dict[str, float] = {}
    for name in names(core, kind):
        try:
            found[name] = Positions(core, kind, name, None).lag()
        except _core.ClosedError:
            raise
        except Exception:  # whatever somebody has written there
            found[name] = math.nan
    return found

"""Named positions that are stored in the database, each with one owner.

They are stored under TopicDB's own topics, as maps are:

- ``$topicdb/<kind>/<name>/state``, in the home shard of the name: JSON with the ``epoch``, what the
  kind wants to keep (``kept``), the places at the beginning of the epoch, and what was ``lost``
  until then;
- ``$topicdb/<kind>/<name>/fence``, in every shard: the epoch, eight bytes, big-endian;
- ``$topicdb/<kind>/<name>/at/<key>``, in any shard: epoch, serial (eight bytes each) and row
  (four), big-endian. The key ends with ``-`` and a shard, or is a shard. If something was lost in
  that shard, two numbers of eight bytes follow: the commit up to which drops are counted, and the
  messages lost. If several shards have a place of the key in this epoch, the last place counts.

So a transaction of any shard can store a place, together with what else it writes. Every owner has
an epoch of its own. An epoch begins with the fences, the one in the home shard first, so that an
open transaction of an earlier owner can no longer commit. Then it stores the state. Whatever is
interrupted in between, the places of the last complete epoch hold.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb import _core
from topicdb.engine import Engine, TransactionEngine
from topicdb.follow.losses import LossCount, serials_now
from topicdb.map import escape, unescape
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.types import Durability

_AT = struct.Struct(">QQI")
_AT_LOST = struct.Struct(">QQIQQ")
_FENCE = struct.Struct(">Q")
_ALL = (1 << 63) - 1
KINDS = ("consumer", "group")
STATE_BYTES_MAX = 64 << 20
PARTS_MAX = 4_096  # the most parts of a group


class Place(NamedTuple):
    """A place among the messages that were committed to a shard.

    Attributes:
        serial: the number of a commit, from 1.
        row: the index of a message in it, from 0.

    Example:
        >>> receipt = db.append([("site/south/pump/1", None, b"on")])
        >>> place = topicdb.Place(receipt.serials[0], 0)
        >>> with db.subscribe("site/#", start={0: place}) as subscription:
        ...     [message.topic for message in subscription.next(timeout=30).batch]
        ['site/south/pump/1']
    """

    serial: int
    row: int


class Standing(NamedTuple):
    """How a consumer or group stands.

    Attributes:
        filters: its topic filters; None: every topic.
        lag: about how many messages are stored and not acknowledged. For a group it is counted from
            the part that is farthest behind.
        lost: how many messages were dropped before it could read them, at most.
        places: for each shard, the place before which everything is acknowledged; for a group
            that of the part that is farthest behind.
    """

    filters: list[str] | None
    lag: int
    lost: int
    places: dict[int, Place]


class Positions:
    """The stored positions of one name.

    Its consumer or group owns it. One thread at a time may call ``open``, ``restart`` and
    ``losses``.
    """

    def __init__(self, core: Engine, kind: str, name: str, durability: Durability | None) -> None:
        self._core = core
        self.label = name
        self.name = f"{kind} {name!r}"
        self._prefix = f"$topicdb/{kind}/{escape(name)}/"
        _core.check_topic(self._prefix + "at/4294967295")
        self._durability = durability
        self._shards = range(core.schema["shards"])
        self.home: int = _core.shard_of(self._prefix, len(self._shards))
        self._epoch = 0
        self.losses = LossCount()

    def kept(self) -> dict[str, Any] | None:
        """Returns what is kept with the name; None if there is no such name."""
        state = self._load()
        return None if state is None else state["kept"]

    def open(
        self, made: Mapping[str, Any] | None, changed: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Place]]:
        """Becomes the owner; returns what is kept with the name, and the places by key.

        Arguments:
            made: what to keep if the name is new. Raises NotFoundError if the name is new and it is
                None.
            changed: what to keep from now on instead of what is kept.
        """
        if made is None and self._load() is None:
            raise self.missing()
        epoch, state = self._fence_off_others()
        if state is None:
            if made is None:
                raise self.missing()
            serials = serials_now(self._core, made["filters"])
            lost = {str(shard): [serial, 0] for shard, serial in serials.items()}
            state = {"epoch": 0, "kept": dict(made), "places": {}, "lost": lost}
        places, self.losses = self._places(state)
        kept = {**state["kept"], **(changed or {})}
        self._begin_epoch(epoch, kept, places, self.losses)
        return kept, places

    def _places(self, state: Mapping[str, Any]) -> tuple[dict[str, Place], LossCount]:
        places = {key: Place(*place) for key, place in state["places"].items()}
        lost = LossCount.of_json(state.get("lost"))
        for key, epoch, place, counted, messages in self._stored():
            if epoch == state["epoch"]:
                places[key] = max(places.get(key, place), place)
                shard = _shard_of(key)
                lost.counted[shard] = max(lost.counted.get(shard, 0), counted)
                lost.messages[shard] = max(lost.messages.get(shard, 0), messages)
        return places, LossCount(lost.counted, lost.messages)

    def standing(self) -> Standing:
        """Returns how the reader of this name stands, whoever has it open.

        Raises:
            NotFoundError: there is no such name.
        """
        state = self._load()
        if state is None:
            raise self.missing()
        kept = state["kept"]
        filters: list[str] | None = kept["filters"]
        start_us: int = kept["start_us"]
        places, lost = self._places(state)
        farthest = self._farthest(kept, places)
        messages = lost.total
        for shard in self._shards:
            messages += self._core.count_dropped(
                shard, filters, start_us, farthest[shard], lost.start(shard)
            )
        lag = lag_of(self._core, filters, start_us, farthest)
        return Standing(filters, lag, messages, farthest)

    def farthest(self) -> dict[int, Place]:
        """Returns for each shard where a reader of this name would go on.

        For a group that is where the part stands that is farthest behind.

        Raises:
            NotFoundError: there is no such name.
        """
        state = self._load()
        if state is None:
            raise self.missing()
        return self._farthest(state["kept"], self._places(state)[0])

    def _farthest(self, kept: Mapping[str, Any], places: Mapping[str, Place]) -> dict[int, Place]:
        start = {int(shard): Place(*place) for shard, place in kept["start"].items()}
        parts = [f"{part}-" for part in range(kept["parts"])] if "parts" in kept else [""]
        return {
            shard: min(
                places.get(f"{part}{shard}", start.get(shard, Place(1, 0))) for part in parts
            )
            for shard in self._shards
        }

    def restart(
        self, kept: Mapping[str, Any], places: Mapping[str, Place], losses: LossCount
    ) -> None:
        """Stores other places, which may be earlier ones, and what is to be kept with the name.

        ``losses`` counts from then on. No transaction that is still open can store a place any
        more.

        Raises:
            ConflictError: the name has another owner now.
        """
        epoch, _ = self._fence_off_others(owned=True)
        self._begin_epoch(epoch, kept, places, losses)
        self.losses = losses

    def reread(self) -> dict[str, Place]:
        """Returns the places that are stored, by key.

        No transaction that is still open can store others any more.

        Raises:
            ConflictError: the name has another owner now.
        """
        epoch, state = self._fence_off_others(owned=True)
        if state is None:
            raise self.lost()
        places, losses = self._places(state)
        self._begin_epoch(epoch, state["kept"], places, losses)
        return places

    def save(self, places: Mapping[str, Place]) -> None:
        """Stores places in a transaction of their own.

        Raises:
            ConflictError: the name has another owner now.
        """
        with self._begun(self.home) as transaction:
            self.write(transaction, self.home, places)
            try:
                transaction.commit()
            except (_core.PreconditionError, _core.ConflictError):
                raise self.lost() from None

    def write(
        self, transaction: TransactionEngine, shard: int, places: Mapping[str, Place]
    ) -> None:
        """Lets ``transaction`` store places.

        Its commit raises PreconditionError if the name has another owner.
        """
        transaction.require(self._prefix + "fence", 0, _FENCE.pack(self._epoch))
        for key, place in places.items():
            value = _AT.pack(self._epoch, *place)
            if messages := self.losses.messages.get(_shard_of(key), 0):
                counted = self.losses.counted.get(_shard_of(key), 0)
                value = _AT_LOST.pack(self._epoch, *place, counted, messages)
            transaction.write(f"{self._prefix}at/{key}", 0, value, reserved=True)

    def drop(self) -> None:
        """Removes everything that is stored of the name."""
        for shard in sorted(self._shards, key=lambda shard: shard == self.home):
            with self._begun(shard) as transaction:
                transaction.delete(self._prefix + "#", None, None, reserved=True)
                transaction.commit()

    def missing(self) -> _core.NotFoundError:
        """Returns the error that there is no such name."""
        return _core.NotFoundError(f"there is no {self.name} in {self._core.path}")

    def lost(self) -> _core.ConflictError:
        """Returns the error that the name has another owner."""
        return _core.ConflictError(
            f"{self.name} is not this object's any more: it was taken over or dropped"
        )

    def _begun(self, shard: int) -> AbstractContextManager[TransactionEngine]:
        return begun(self._core, shard, self._durability)

    def _load(self) -> dict[str, Any] | None:
        for _, value in stored(self._core, self._prefix + "state"):
            return _state_of(value)
        return None

    def _fence(self) -> int:
        """Returns the highest fence of all shards."""
        fences = stored(self._core, self._prefix + "fence")
        return max((int(_FENCE.unpack(value)[0]) for _, value in fences), default=0)

    def _fence_off_others(self, *, owned: bool = False) -> tuple[int, dict[str, Any] | None]:
        """Raises the fences of all shards; returns the epoch that may begin, and the state.

        No transaction of an earlier owner can store a place any more. The fence in the home shard
        goes first. It decides who comes first if several clients do this at once, so that no two
        have the same epoch.

        ``owned``: raise ConflictError, and change nothing, if the name has another owner. Also
        raises ConflictError if a later owner raises fences meanwhile.
        """
        while (fenced := self._fence_home(owned)) is None:
            pass  # another client was faster: what it has stored counts
        epoch, state = fenced
        for shard in self._shards:
            while shard != self.home and not self._raise_fence(shard, epoch):
                pass
        return epoch, state

    def _fence_home(self, owned: bool) -> tuple[int, dict[str, Any] | None] | None:
        """Raises the fence of the home shard; None if another client did so at the same time."""
        highest = self._fence()
        with self._begun(self.home) as transaction:
            fence = transaction.get(self._prefix + "fence", 0)
            value = transaction.get(self._prefix + "state", 0)
            state = None if value is None else _state_of(value)
            if owned and (state is None or state["epoch"] != self._epoch):
                raise self.lost()
            known = 0 if fence is None else _FENCE.unpack(fence)[0]
            epoch = max(highest, known, 0 if state is None else state["epoch"]) + 1
            transaction.write(self._prefix + "fence", 0, _FENCE.pack(epoch), reserved=True)
            try:
                transaction.commit()
            except _core.ConflictError:
                return None
        return epoch, state

    def _raise_fence(self, shard: int, epoch: int) -> bool:
        """Raises the fence of another shard; False if something else was written at the same time.

        Raises ConflictError if a later owner has raised it.
        """
        with self._begun(shard) as transaction:
            fence = transaction.get(self._prefix + "fence", 0)
            if fence is not None and _FENCE.unpack(fence)[0] >= epoch:
                raise self.lost()
            transaction.write(self._prefix + "fence", 0, _FENCE.pack(epoch), reserved=True)
            try:
                transaction.commit()
            except _core.ConflictError:
                return False
        return True

    def _stored(self) -> Iterator[tuple[str, int, Place, int, int]]:
        """Gives key, epoch, place, the commit up to which drops are counted, and messages lost."""
        for topic, value in stored(self._core, self._prefix + "at/+"):
            key = topic[len(self._prefix) + 3 :]
            if len(value) == _AT_LOST.size:
                epoch, serial, row, counted, messages = _AT_LOST.unpack(value)
            else:
                epoch, serial, row = _AT.unpack(value)
                counted = messages = 0
            yield key, epoch, Place(serial, row), counted, messages

    def _begin_epoch(
        self, epoch: int, kept: Mapping[str, Any], places: Mapping[str, Place], losses: LossCount
    ) -> None:
        lost = losses.as_json()
        state = {"epoch": epoch, "kept": dict(kept), "places": dict(places), "lost": lost}
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
    """Raises ValueError if ``value`` is to be the state of a name and cannot be read as such."""
    levels = topic.split("/")
    is_own = len(levels) == 4 and levels[0] == "$topicdb" and levels[1] in KINDS
    if is_own and levels[3] == "state":
        try:
            _state_of(value or b"")
        except ValueError as error:
            raise ValueError(f"{topic!r}: {error}") from None


def _state_of(value: bytes) -> dict[str, Any]:
    """Returns the state of a name. Raises ValueError if ``value`` is none."""
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
    core: Engine,
    filters: list[str] | None,
    start_us: int,
    places: Mapping[int, Place],
    shards: Iterable[int] | None = None,
) -> int:
    """Returns how many messages there are from these places on, in ``shards`` (None: in all).

    Shards without a place count from their oldest message.
    """
    lag = 0
    for shard in range(core.schema["shards"]) if shards is None else shards:
        after = max(places.get(shard, Place(1, 0)).serial, 1) - 1
        span = core.measure_log(shard, filters, after, None, start_us or None, _ALL, _ALL)
        lag += span.messages
    return lag


def stored(core: Engine, filter: str) -> Iterator[tuple[str, bytes]]:
    """Gives TopicDB's own topics that match, and their values; also for handles that only read."""
    scan = core.scan(filter, None, None, "stream", None)
    try:
        while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
            for topic, _, value in batch:
                yield topic, value
    finally:
        scan.close()


def check_whole(core: Engine, topic: str) -> None:
    """Raises MissingShardError if a shard is missing.

    ``topic``: one of TopicDB's own. A read of it needs all shards, as any read does.
    """
    if core.missing_shards(topic):
        for _ in stored(core, topic):
            break


def names(core: Engine, kind: str) -> list[str]:
    """Returns the names of all consumers or all groups, sorted."""
    prefix = f"$topicdb/{kind}/"
    topics = (topic for topic, _ in stored(core, f"{prefix}+/state"))
    return sorted(unescape(topic[len(prefix) :].split("/")[0]) for topic in topics)


def standings(core: Engine, kind: str) -> dict[str, Standing | None]:
    """Returns how all names of a kind stand; None for one whose stored state cannot be read."""
    found: dict[str, Standing | None] = {}
    for name in names(core, kind):
        try:
            found[name] = Positions(core, kind, name, None).standing()
        except _core.ClosedError:
            raise
        except Exception:  # anybody may have written anything there
            found[name] = None
    return found


def _shard_of(key: str) -> int:
    """Returns the shard in the key of a consumer, or of a part of a group."""
    return int(key.rpartition("-")[2])

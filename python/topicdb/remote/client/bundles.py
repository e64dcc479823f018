"""Which appends travel in one call, and which of them a server stores as one."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb.arguments.wrong_types import has_arrow
from topicdb.engines.appends import fulfil
from topicdb.errors import AccessError
from topicdb.remote.client.appending import REPEAT_S, error_after, id_for
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.outgoing import (
    check_topics,
    check_topics_of_rows,
    table_of,
    table_of_batch,
)
from topicdb.types import Keys, Receipt

ROWS_OF_SMALL_MAX = 16
"""An append with more messages is stored alone, since it gains little from others."""
SMALL_MIN = 128
"""Small appends between others are stored as one if at least this many come in a row."""
TOGETHER_MAX = 10_000
TOGETHER_BYTES_MAX = 4 << 20
# A server takes 64 KiB of JSON with a call, which here has the count and the id of each bundle.
TOGETHER_JSON_BYTES_MAX = 32 << 10
JSON_BYTES_OF_BUNDLE = 32  # at most, without the id
BUNDLES_MAX = 1_000


@dataclass(eq=False, slots=True)
class Waiting:
    """An append that waits.

    Attributes:
        messages: rows as a batch of the core, or Arrow data with the columns that the caller gave.
        rows: the number of messages.
        bytes: their size.
        durability: as in ``AppendQueue.start``.
        id: the one that the caller gave.
        shard: where all messages go, if the server may store them as one with others there.
        future: gets the outcome.
        since: when the append was queued, in seconds of the monotonic clock.
    """

    messages: _core.Batch | pa.RecordBatch
    rows: int
    bytes: int
    durability: str | None
    id: str | None
    shard: int | None
    future: Future[Receipt]
    since: float = 0.0

    def is_like(self, other: Waiting) -> bool:
        """Returns whether the two may travel in one call."""
        if self.durability != other.durability:
            return False
        if isinstance(self.messages, _core.Batch) or isinstance(other.messages, _core.Batch):
            return type(self.messages) is type(other.messages)
        return bool(self.messages.schema.equals(other.messages.schema))


class Bundle:
    """Appends that the server stores as one: several in one shard, or a single one.

    The appender owns it until all of its appends have their outcomes. It is never empty, and stays
    what it is while it is sent again, since the server knows it by its id. Not thread-safe.
    """

    def __init__(self, members: Sequence[Waiting], id: str | None) -> None:
        self.members = members
        self.id = id
        self.rows = sum(one.rows for one in members)
        self.bytes = sum(one.bytes for one in members)
        self.is_doubtful = False  # whether an attempt was not answered
        self.is_over = False  # whether its appends have their outcomes

    @property
    def json_bytes(self) -> int:
        """Returns how much JSON it adds to a call, at most."""
        return JSON_BYTES_OF_BUNDLE + (0 if self.id is None else len(json.dumps(self.id)))

    @property
    def give_up_at(self) -> float:
        """Returns until when it is sent again, if it has an id, while the server is away."""
        return self.members[0].since + REPEAT_S

    def is_fault_of_one(self, error: BaseException) -> bool:
        """Returns whether one append may have kept the others from being stored.

        None of them is stored then. They may be sent again, each in a bundle of its own.
        """
        is_of_one = isinstance(error, (AccessError, ValueError))
        return len(self.members) > 1 and not self.is_doubtful and is_of_one

    def succeed(self, receipt: Receipt) -> None:
        """Gives each append its receipt."""
        self.is_over = True
        for one in self.members:
            serials, durability = dict(receipt.serials), receipt.durability
            fulfil(one.future, Receipt(serials, one.rows, durability, receipt.repeated))

    def fail(self, error: BaseException) -> None:
        """Gives each append the error, or what it means after attempts that were not answered."""
        self.is_over = True
        for one in self.members:
            fulfil(one.future, error_after(error, self.is_doubtful))


class _Taken:
    """Appends from the front of a queue that may travel together."""

    def __init__(self, queue: deque[Waiting], bytes_max: int) -> None:
        self.appends: list[Waiting] = []
        self._queue = queue
        self._room = bytes_max

    @property
    def count(self) -> int:
        return len(self.appends)

    @property
    def next(self) -> Waiting:
        return self._queue[0]

    @property
    def has_next(self) -> bool:
        """Returns whether there is another one that may travel with these."""
        if not self._queue or not self.appends:
            return bool(self._queue)
        return self.next.bytes <= self._room and self.next.is_like(self.appends[0])

    def take(self) -> Waiting:
        taken = self._queue.popleft()
        self.appends.append(taken)
        self._room -= taken.bytes
        return taken

    def put_back(self, count: int) -> None:
        """Puts the last ones back."""
        self._queue.extendleft(reversed(self.appends[-count:]))
        del self.appends[-count:]


class Bundler:
    """Decides which appends travel in one call, and which of them the server stores as one.

    Small appends of one shard become a bundle: that spares the server and this client most of what
    an append costs. A server stores the bundles of a call in their order, and so the appends to a
    shard stay in theirs. The appender owns it. Immutable, so thread-safe.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        schema = connection.hello["schema"]
        self._shards: int = schema["shards"]
        self._is_by_topic: bool = schema.get("shard_by", "topic") == "topic"
        # A call has some bytes beside its messages, for which the other half is more than enough.
        self._bytes_max = min(TOGETHER_BYTES_MAX, connection.hello["append_bytes_max"] // 2)

    def waiting(
        self,
        messages: Any,
        durability: str | None,
        *,
        escapes: bool,
        id: str | None,
        key: Keys | None,
    ) -> Waiting:
        """Returns an append of copies of the messages, which may be none.

        Raises TopicError, ValueError or TypeError for messages that cannot be stored.
        """
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is queued cannot be taken back
        if key is not None or has_arrow(messages):
            table = table_of(messages, escapes=escapes, key=key)
            check_topics(table)
            rows, size = table.num_rows, table.nbytes
            batches = table.combine_chunks().to_batches()
            data = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
            return Waiting(data, rows, size, durability, id, None, future)
        batch = _core.batch_of_rows(messages, escapes)
        topics = batch.topics
        check_topics_of_rows(topics)
        shard = None if id is not None else self._shard_of(topics)
        return Waiting(batch, len(topics), batch.nbytes, durability, id, shard, future)

    def bundles_of(self, queue: deque[Waiting]) -> list[Bundle]:
        """Takes appends that may travel together from the front of a queue, and bundles them."""
        some = _Taken(queue, self._bytes_max)
        while some.count < TOGETHER_MAX and some.has_next and some.next.shard is not None:
            some.take()
        is_long = some.count >= SMALL_MIN
        if some.count > 0 and (is_long or not some.has_next or some.next.shard is not None):
            by_shard: dict[int | None, list[Waiting]] = {}
            for one in some.appends:
                by_shard.setdefault(one.shard, []).append(one)
            return [self.bundle(members) for members in by_shard.values()]
        run = 0  # small appends at the end
        while some.count < BUNDLES_MAX and run < SMALL_MIN and some.has_next:
            run = 0 if some.take().shard is None else run + 1
        if run == SMALL_MIN:
            some.put_back(run)  # they become a bundle later
        return [self.bundle([one]) for one in some.appends]

    def bundle(self, members: Sequence[Waiting]) -> Bundle:
        """Returns a bundle of appends, none of which may be stored or on its way."""
        given = members[0].id
        return Bundle(members, id_for(self._connection) if given is None else given)

    def call_of(self, bundles: deque[Bundle]) -> list[Bundle]:
        """Takes what goes into one call from the front of a queue of bundles.

        They go together only as far as the server takes them. One that is too large goes alone.
        """
        some: list[Bundle] = []
        size = json_bytes = 0
        while bundles and len(some) < BUNDLES_MAX:
            size += bundles[0].bytes
            json_bytes += bundles[0].json_bytes
            is_large = size > self._bytes_max or json_bytes > TOGETHER_JSON_BYTES_MAX
            if some and (is_large or not bundles[0].members[0].is_like(some[0].members[0])):
                break
            some.append(bundles.popleft())
        return some

    def _shard_of(self, topics: Sequence[str]) -> int | None:
        """Returns the shard of a small append all of whose messages go there."""
        if not 0 < len(topics) <= ROWS_OF_SMALL_MAX:
            return None
        if self._shards == 1:
            return 0
        if not self._is_by_topic:
            return None
        shards = {_core.shard_of(topic, self._shards) for topic in topics}
        return shards.pop() if len(shards) == 1 else None


def table_of_bundles(bundles: Sequence[Bundle]) -> pa.Table:
    """Returns the messages of bundles that travel together, in their order."""
    messages: list[Any] = [one.messages for bundle in bundles for one in bundle.members]
    if isinstance(messages[0], _core.Batch):
        return table_of_batch(_core.batch_of_batches(messages))
    return pa.Table.from_batches(messages).combine_chunks()

"""What the cursors do that an engine gives; ``topicdb.engine`` has the rest of the contract.

All times are integers: microseconds since 1970-01-01 UTC. A timeout of None waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from topicdb._core import Batch, ReadyTokens, Stream
from topicdb.arguments.forms import Form
from topicdb.results import Delivered
from topicdb.types import ArrowArray

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Serials: TypeAlias = dict[int, int]
"""The serial of a commit by shard."""
RowPlace: TypeAlias = tuple[int, int]
"""Serial of a commit, number of a row in it."""


class ScanCursor(Protocol):
    """A running read.

    Whoever opened it owns it and closes it. Not thread-safe: one thread at a time.
    """

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False, /
    ) -> Batch | None:
        """Returns the next messages as they are stored, or None at the end.

        With ``with_serials`` the batch has the serial of each message's commit.
        """

    def next_arrow(
        self, rows_max: int, bytes_max: int, form: Form = "stored", /
    ) -> ArrowArray | None:
        """Returns the next messages with their values in ``form``, or None at the end."""

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> object:
        """Returns the rest as a PyCapsule "arrow_array_stream", which takes over this cursor."""

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""

    def close(self) -> None:
        """Frees what the cursor holds. May be repeated."""


class TailCursor(Protocol):
    """Commits in their order, those that are stored and those that follow.

    Whoever opened it owns it. One thread at a time reads; another may close it.
    """

    def next_batch(
        self, rows_max: int, bytes_max: int, timeout_us: int | None, with_serials: bool = False, /
    ) -> Batch | None:
        """Returns whole commits of one shard, or None if there are none for ``timeout_us``."""

    def serials(self) -> Serials:
        """Returns the serials up to which it has given every message."""

    def shards(self) -> list[int]:
        """Returns the shards that it reads."""

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""

    def close(self) -> None:
        """Frees what the cursor holds, and ends a call that waits. May be repeated."""


class StreamCursor(Protocol):
    """Streams as they come to be. One thread at a time reads; another may close it."""

    def next_streams(self, timeout_us: int | None, /) -> list[Stream]:
        """Returns all new streams; waits for the first. Empty if none comes for ``timeout_us``."""

    def close(self) -> None:
        """Frees what the cursor holds, and ends a call that waits. May be repeated."""


class SubscriptionCursor(Protocol):
    """Messages that are stored, and then those that are committed. Thread-safe."""

    def next(self, timeout_us: int | None, rows_max: int, /) -> Delivered | None:
        """Returns at most ``rows_max`` messages, or a loss; None after ``timeout_us``."""

    def acknowledge(self, seqno: int, /) -> None:
        """Frees the window of the messages up to ``seqno``.

        Raises ValueError if they were not given, or are acknowledged already.
        """

    def on_ready(self, tokens: ReadyTokens, token: int, /) -> None:
        """Gives ``token`` whenever ``next`` has something again after it had nothing."""

    def info(self) -> dict[str, Any]:
        """Returns the state, counts and places that ``topicdb.Subscription.info`` documents."""

    def find(
        self, shard: int, places: Sequence[RowPlace], /
    ) -> tuple[Batch, npt.NDArray[np.uint32]]:
        """Returns those messages of its filters that are at these places, and the row of each."""

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""

    def pause(self) -> None:
        """Gives nothing until ``resume``."""

    def resume(self) -> None:
        """Ends a pause."""

    def close(self) -> None:
        """Frees what the cursor holds, and ends a call that waits. May be repeated."""

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or the database is closed."""

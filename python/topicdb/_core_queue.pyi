"""The queue in the typed stub of the C++ extension; at runtime these names are in ``_core``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from topicdb.queue.files import QueueInfo
from topicdb.queue.records import Damage, QueueReceipt

@final
class QueueBudget:
    """A limit of bytes that several queues share. Thread-safe.

    Arguments:
        total_bytes: the limit.

    Example:
        >>> budget = topicdb.QueueBudget(1 << 20)
        >>> with topicdb.Queue.open("a.q", budget=budget) as queue:
        ...     receipt = queue.append([b"first"])
        ...     budget.bytes > len(b"first"), budget.share(2)
        (True, 524288)
    """

    def __init__(self, total_bytes: int) -> None: ...
    @property
    def total_bytes(self) -> int:
        """The limit."""
    @property
    def bytes(self) -> int:
        """The bytes that the queues hold and that are not acknowledged, with headers."""
    def share(self, queues: int) -> int:
        """Returns an equal part of the limit, for ``max_total_bytes``.

        Arguments:
            queues: how many queues share the limit.

        Returns:
            The bytes of one queue.
        """

@final
class QueueCursor:
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...
    def pop(
        self,
        count: int,
        bytes: int,
        at_least: bool,
        stop_before: Callable[[bytes], bool] | None,
        timeout_us: int | None,
    ) -> tuple[list[bytes], tuple[tuple[int, int], ...]]: ...  # items, (first number, count)
    def ack(self, arg0: Sequence[tuple[int, int]]) -> None: ...
    def nack(self, arg0: Sequence[tuple[int, int]]) -> None: ...
    def peek(self) -> bytes | None: ...
    def stats(self) -> dict[str, Any]: ...

@final
class Queue:
    def __init__(
        self,
        path: str,
        *,
        mode: str,
        format: str | None,
        segment_bytes: int,
        max_total_bytes: int,
        item_bytes_max: int,
        weighed: bool,
        overflow: str,
        block_timeout_us: int | None,
        durability: str,
        flush_interval_us: int,
        sync_interval_us: int | None,
        budget: QueueBudget | None,
        memory_is_high: bool | Callable[[], bool],
        on_drop: Callable[[str, str, int, int, int], object] | None,
    ) -> None: ...
    def append(
        self, items: Iterable[object], durability: str | None, weights: Sequence[int] | None
    ) -> QueueReceipt: ...
    def cursor(self, name: str, from_newest: bool) -> QueueCursor: ...
    def remove_cursor(self, name: str) -> None: ...
    def flush(self) -> None: ...
    def purge(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def path(self) -> str: ...

@final
class QueueInspector:
    def __init__(self, path: str) -> None: ...
    def info(self) -> QueueInfo: ...
    def next(self) -> list[tuple[int, bytes]]: ...  # some with their numbers; none at the end

def repair_queue(path: str) -> list[Damage]: ...

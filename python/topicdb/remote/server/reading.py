"""The calls of a server that begin a read of messages which filters match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topicdb.engine import Engine, ScanCursor
from topicdb.remote.server.handles import Caller, Limits
from topicdb.remote.server.objects import Subscription, Tail, Watch
from topicdb.remote.wire import PARTIAL, PARTIAL_CALLS
from topicdb.rights import served_methods


class Reads:
    """The calls that begin reads with one engine. Thread-safe.

    A ``Service`` owns two: one whose reads fail if a shard is missing that they need, and one whose
    reads leave missing shards out. The names of the calls of the second begin with ``PARTIAL``.
    """

    def __init__(self, core: Engine, limits: Limits, prefix: str = "") -> None:
        self._core = core
        self._limits = limits
        self._prefix = prefix

    @classmethod
    def of_part(cls, core: Engine, limits: Limits) -> Reads:
        """Returns the calls whose reads leave out missing shards."""
        return cls(core.partial(), limits, PARTIAL)

    def scans(self) -> dict[str, Callable[..., ScanCursor]]:
        """Returns the calls that begin a scan, by name."""
        return self._named({"scan": self._scan, "last": self._last})

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Returns the calls that open something that lasts, by name."""
        return self._named({"tail": self._tail, "watch": self._watch, "subscribe": self._subscribe})

    def served(self) -> dict[str, Callable[..., Any]]:
        """Returns the methods of the engine that are passed on unchanged, by name."""
        names = served_methods()
        if self._prefix:
            names = {name: right for name, right in names.items() if name in PARTIAL_CALLS}
        return self._named({name: _method_of(self._core, name) for name in names})

    def _named(self, calls: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        return {self._prefix + name: call for name, call in calls.items()}

    def _scan(
        self, caller: Caller, filter: Any, start: Any, end: Any, order: Any, streams: Any
    ) -> ScanCursor:
        caller.access.check_read(filter)
        return self._core.scan(filter, start, end, order, streams)

    def _last(self, caller: Caller, filter: Any, start: Any, end: Any) -> ScanCursor:
        caller.access.check_read(filter)
        return self._core.last(filter, start, end)

    def _tail(
        self, caller: Caller, filters: Any, after: Any, until: Any, given: Any = ()
    ) -> tuple[int, Any]:
        caller.access.check_read(filters)
        tail = self._core.tail(filters, after, until, given)
        return caller.client.keep(Tail(tail)), tail.serials()

    def _watch(self, caller: Caller, filter: str, existing: bool) -> int:
        caller.access.check_read(filter)
        return caller.client.keep(Watch(self._core.watch_streams(filter, existing)))

    def _subscribe(
        self,
        caller: Caller,
        filters: Any,
        places: Any,
        start_us: int,
        window: int,
        window_bytes: int,
        part: Any,
        counted: Any,
        given: Any = (),
    ) -> int:
        caller.access.check_read(filters)
        size = self._limits.window_bytes(window_bytes)
        core = self._core.subscribe(filters, places, start_us, window, size, part, counted, given)
        return caller.client.keep(Subscription(core, size))


def _method_of(core: Engine, name: str) -> Callable[..., Any]:
    """Returns a method of an engine. An engine of a third party may lack it."""

    def lacking(*args: Any) -> Any:
        raise NotImplementedError(f"the engine of this server has no {name}()")

    found: Callable[..., Any] = getattr(core, name, lacking)
    return found

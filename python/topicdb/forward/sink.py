"""What a forwarder delivers to: the protocols of sinks, and the simplest sink."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeAlias, runtime_checkable

from topicdb._core import Error


class PermanentError(Error):
    """Raised by a sink: these items will not be taken, however often they are sent.

    Only for what lies in the items, never for a connection that is gone or refused: what a
    forwarder does with it (``poison``) may be to drop them.
    """


@runtime_checkable
class Sink(Protocol):
    """A sink that takes one batch at a time.

    Called by one thread at a time. After an attempt has failed, ``close`` and ``open`` are called
    before the next one.
    """

    def open(self) -> None:
        """Gets ready, by connecting for example. What it raises is retried."""

    def deliver(self, items: list[bytes]) -> None:
        """Returns when the items are safe where they belong; they are forgotten here then.

        Raises PermanentError if it makes no sense to try again, anything else to be called again
        with the same items, of which some may have been delivered.
        """

    def close(self) -> None:
        """Frees what ``open`` made. May be called without it, and repeatedly; must not block."""


@runtime_checkable
class AsyncSink(Protocol):
    """A sink that is given further batches while earlier ones are not confirmed.

    Called by one thread at a time. After an attempt has failed, ``close`` and ``open`` are called
    before anything is sent again.
    """

    def open(self) -> None:
        """Gets ready, by connecting for example. What it raises is retried."""

    def begin(self, items: list[bytes]) -> Future[None]:
        """Starts to deliver the items behind those of earlier calls.

        The future gets its result when they are safe where they belong, or an exception: see
        ``Sink.deliver``. Any thread may set it. Raising is as good as setting the exception.
        """

    def close(self) -> None:
        """Gives up what is not confirmed, so that nothing of it is delivered later, as far as that
        can be had. May be called without ``open``, and repeatedly; must not block.
        """


@runtime_checkable
class PolledSink(AsyncSink, Protocol):
    """An AsyncSink without a thread of its own: it works, and sets its futures, in ``poll``."""

    def poll(self, timeout: float) -> None:
        """Works until something was confirmed, or for ``timeout`` seconds. Called at least ten
        times a second while the sink is open. What it raises is a failed attempt.
        """


Deliver: TypeAlias = Callable[[list[bytes]], object]
AnySink: TypeAlias = "Sink | AsyncSink | Deliver"


class CallableSink:
    """Calls a function with each batch; when it returns, the batch is delivered."""

    def __init__(self, function: Deliver) -> None:
        self._function = function

    def open(self) -> None: ...

    def deliver(self, items: list[bytes]) -> None:
        self._function(items)

    def close(self) -> None: ...


class InTurn:
    """An AsyncSink over a Sink: ``begin`` returns when the batch is delivered."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.open = sink.open
        self.close = sink.close

    def begin(self, items: list[bytes]) -> Future[None]:
        self._sink.deliver(items)
        return _CONFIRMED


def as_async(sink: AnySink) -> AsyncSink:
    """TypeError if it is no sink."""
    if isinstance(sink, AsyncSink):
        return sink
    if isinstance(sink, Sink):
        return InTurn(sink)
    if callable(sink):
        return InTurn(CallableSink(sink))
    raise TypeError(
        f"sink: expected a function, or an object with open, deliver (or begin) and close, "
        f"got {type(sink).__name__}"
    )


def failed(error: BaseException) -> Future[None]:
    """A future that has failed."""
    future: Future[None] = Future()
    future.set_exception(error)
    return future


def has_failed(future: Future[None]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


_CONFIRMED: Future[None] = Future()
_CONFIRMED.set_result(None)

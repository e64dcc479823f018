"""The protocols of sinks, to which a forwarder delivers, and the simplest sink."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeAlias, runtime_checkable

from topicdb._core import Error


class PermanentError(Error):
    """Raised by a sink that will not take these items, however often they are sent.

    Only for a fault of the items, never for a connection that is lost or refused: a forwarder may
    drop the items (``poison``).
    """


@runtime_checkable
class Sink(Protocol):
    """A sink that takes one batch at a time.

    Implement these three methods to forward to something of your own. One thread at a time calls
    them. After a failed attempt, ``close`` and ``open`` are called before the next one.

    Example:
        >>> class FileSink:
        ...     def open(self): self.file = open("items.bin", "ab")
        ...     def deliver(self, items):
        ...         self.file.writelines(items)
        ...         self.file.flush()
        ...     def close(self): self.file.close()
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"started"])
        ...     topicdb.Forwarder(queue, FileSink()).run(until_empty=True)
    """

    def open(self) -> None:
        """Gets ready, by connecting for example. If it raises, it is called again after a pause."""

    def deliver(self, items: list[bytes]) -> None:
        """Returns when the items are safe at their destination; the forwarder then forgets them.

        Arguments:
            items: a batch of at least one item.

        Raises:
            PermanentError: it makes no sense to try again. After any other error it is called again
                with the same items, of which some may have been delivered.
        """

    def close(self) -> None:
        """Frees what ``open`` made. May be called without it, and repeatedly; must not block."""


@runtime_checkable
class AsyncSink(Protocol):
    """A sink that takes further batches while earlier ones are not confirmed.

    One thread at a time calls it. After a failed attempt, ``close`` and ``open`` are called before
    anything is sent again. ``KafkaSink`` and ``MqttSink`` are such sinks.

    Example:
        >>> from concurrent.futures import Future
        >>> class PrintSink:
        ...     def open(self): pass
        ...     def begin(self, items):
        ...         confirmed = Future()
        ...         print(items)
        ...         confirmed.set_result(None)
        ...         return confirmed
        ...     def close(self): pass
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"started"])
        ...     topicdb.Forwarder(queue, PrintSink()).run(until_empty=True)
        [b'started']
    """

    def open(self) -> None:
        """Gets ready, by connecting for example. If it raises, it is called again after a pause."""

    def begin(self, items: list[bytes]) -> Future[None]:
        """Starts to deliver the items behind those of earlier calls.

        Arguments:
            items: a batch of at least one item.

        Returns:
            A future that gets its result when the items are safe at their destination, or an
            exception: see ``Sink.deliver``. Any thread may set it. To raise is the same as to set
            the exception.
        """

    def close(self) -> None:
        """Gives up what is not confirmed.

        As far as possible nothing of it is delivered later. It may be called without ``open``, and
        repeatedly; it must not block.
        """


@runtime_checkable
class PolledSink(AsyncSink, Protocol):
    """An AsyncSink without a thread of its own: it works, and sets its futures, in ``poll``.

    Example:
        >>> from topicdb.forward import KafkaSink, PolledSink
        >>> issubclass(KafkaSink, PolledSink)
        True
    """

    def poll(self, timeout: float) -> None:
        """Works until something is confirmed, or for ``timeout`` seconds.

        It is called at least ten times a second while the sink is open. If it raises, the attempt
        has failed.

        Arguments:
            timeout: how many seconds it may take.
        """


Deliver: TypeAlias = Callable[[list[bytes]], object]
AnySink: TypeAlias = "Sink | AsyncSink | Deliver"


class CallableSink:
    """Calls a function with each batch. When the function returns, the batch is delivered.

    ``Forwarder`` makes one of a function that it is given.

    Arguments:
        function: is called with a list of bytes.

    Example:
        >>> from topicdb.forward import CallableSink
        >>> CallableSink(print).deliver([b"started"])
        [b'started']
    """

    def __init__(self, function: Deliver) -> None:
        self._function = function

    def open(self) -> None: ...

    def deliver(self, items: list[bytes]) -> None:
        self._function(items)

    def close(self) -> None: ...


class InTurn:
    """An AsyncSink made of a Sink: ``begin`` returns when the batch is delivered."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.open = sink.open
        self.close = sink.close

    def begin(self, items: list[bytes]) -> Future[None]:
        self._sink.deliver(items)
        return _CONFIRMED


def as_async(sink: AnySink) -> AsyncSink:
    """Returns ``sink`` as an AsyncSink.

    Raises:
        TypeError: it is no sink.
    """
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
    """Returns a future that has failed with ``error``."""
    future: Future[None] = Future()
    future.set_exception(error)
    return future


def has_failed(future: Future[None]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


_CONFIRMED: Future[None] = Future()
_CONFIRMED.set_result(None)

"""What a check of a promise works with: an engine, ways to open it again, threads, and readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Generic, TypeVar

from topicdb import _core
from topicdb._core import Batch
from topicdb.conformance import expect
from topicdb.conformance.expect import BrokenPromiseError, NotCheckedError
from topicdb.conformance.subject import Subject
from topicdb.database.database import Database
from topicdb.engine import AppendQueue, Engine, Filters, ScanCursor, TransactionEngine
from topicdb.engines.features import Feature, lacks_of
from topicdb.types import Receipt

Result = TypeVar("Result")
PATIENCE_S = 120.0
"""How long a check waits for what must come. It comes long before, unless the engine is broken."""
ROWS, BYTES = 10_000, 8 << 20


class Lab:
    """One engine under test, whose data is in a directory of its own.

    The check of a promise uses it in one thread, and ends the ``with`` of whoever made it. What was
    opened is closed then.
    """

    def __init__(self, subject: Subject, directory: Path, patience_s: float = PATIENCE_S) -> None:
        self.subject = subject
        self.directory = directory
        self.patience_s = patience_s
        self.path = str(directory / "engine")
        self._stack = ExitStack()
        self._tasks: list[Task[Any]] = []
        self.engine: Engine = self._stack.enter_context(subject.opened(self.path))

    def need(self, features: Iterable[Feature]) -> None:
        """Raises NotCheckedError if the engine lacks one of these features."""
        missing = sorted(lacks_of(self.engine) & frozenset(features))
        if missing:
            raise NotCheckedError(f"the engine lacks {', '.join(missing)}")

    def has(self, feature: Feature) -> bool:
        """Returns whether the engine has a feature."""
        return feature not in lacks_of(self.engine)

    def need_arrow(self) -> Any:
        """Returns the module pyarrow, or raises NotCheckedError if it is not installed."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise NotCheckedError("pyarrow is not installed") from None
        return pyarrow

    @property
    def shards(self) -> int:
        """How many shards the engine has."""
        shards: int = self.engine.schema["shards"]
        return shards

    @property
    def keeps_all(self) -> bool:
        """Whether messages with the same topic and timestamp are all kept."""
        return bool(self.engine.schema["layout"] != "skipstream")

    def close(self) -> None:
        """Closes the engine and all that belongs to it. May be repeated."""
        self._stack.close()

    def reopen(self) -> Engine:
        """Closes the engine, and opens the same data again."""
        self.close()
        self.engine = self._stack.enter_context(self.subject.opened(self.path))
        return self.engine

    def reader(self) -> AbstractContextManager[Engine]:
        """Opens the same data for reading alone; raises NotCheckedError if the subject cannot."""
        if self.subject.open_to_read is None:
            raise NotCheckedError("the subject has no open_to_read")
        return self.subject.opened(self.path, to_read=True)

    def without(self, shard: int) -> AbstractContextManager[Engine]:
        """Closes the engine, and opens the same data as if this shard had been lost.

        ``reopen`` opens all of it again, once the block is over. Raises NotCheckedError if the
        subject cannot.
        """
        if self.subject.open_without is None or self.shards == 1:
            raise NotCheckedError("the subject does not open without one of several shards")
        self.close()
        return self.subject.opened(self.path, without=shard)

    def queue(self) -> AppendQueue:
        """Returns a queue for what nobody waits for; closing it closes the engine."""
        queue = self.subject.appends(self.engine)
        self._stack.callback(queue.close_engine)
        return queue

    def database(self) -> Database:
        """Returns a database over the engine; closing it closes the engine."""
        return Database.over(self.engine, appends=self.queue())

    # Writing and reading in few words.

    def append(self, *rows: tuple[str, int | None, bytes]) -> Receipt:
        """Appends rows in one call."""
        return self.engine.append_rows(rows, None)

    def messages(
        self,
        filter: Filters = "#",
        start: int | None = None,
        end: int | None = None,
        order: str = "stream",
    ) -> list[tuple[str, int, bytes]]:
        """Returns what a scan gives."""
        return read(self.engine.scan(filter, start, end, order, None))

    def everything(self) -> list[tuple[str, int, bytes]]:
        """Returns all messages, sorted."""
        return sorted(self.messages(None, order="none"))

    def serials(self) -> dict[int, int]:
        """Returns the last serial of each shard."""
        return {shard["shard"]: shard["serial"] for shard in self.engine.stats()["shards"]}

    @contextmanager
    def nothing_changes(self, what: str) -> Iterator[None]:
        """Checks that the block changes neither messages nor serials."""
        before = self.everything(), self.serials()
        yield
        expect.equal((self.everything(), self.serials()), before, f"{what}: what is stored")

    def shard_of(self, topic: str) -> int:
        """Returns the shard of a topic."""
        return _core.shard_of(topic, self.shards)

    def topic_in(self, shard: int, prefix: str = "t") -> str:
        """Returns a topic that lives in a shard, or raises NotCheckedError if there is none."""
        if shard >= self.shards:
            raise NotCheckedError(f"the subject has no shard {shard}")
        return next(t for n in range(100_000) if self.shard_of(t := f"{prefix}/{n}") == shard)

    @contextmanager
    def transaction(self, shard: int = 0) -> Iterator[TransactionEngine]:
        """Begins a transaction; the end of the block commits it, an error rolls it back."""
        transaction = self.engine.begin(shard, None, None)
        try:
            yield transaction
            if transaction.open:
                transaction.commit()
        finally:
            transaction.rollback()

    # Waiting.

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Returns when ``holds()`` is true; raises BrokenPromiseError if it never becomes so."""
        give_up_at = time.monotonic() + self.patience_s
        while not holds():
            if time.monotonic() > give_up_at:
                raise BrokenPromiseError(f"{what}: this is not so after {self.patience_s:g} s")
            time.sleep(0.002)

    def beside(self, function: Callable[[], Result]) -> Task[Result]:
        """Runs a function in a thread of its own."""
        task = Task(function, self.patience_s)
        self._tasks.append(task)
        return task

    def together(self, functions: Sequence[Callable[[], Result]]) -> list[Result]:
        """Runs functions side by side, and returns their results; raises the first error."""
        return [task.result() for task in [self.beside(function) for function in functions]]

    @property
    def patience_us(self) -> int:
        """The patience as a timeout of a call, which then gives nothing."""
        return round(self.patience_s * 1e6)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise
        finally:
            for task in self._tasks:
                task.leave()


class Task(Generic[Result]):
    """A function that runs in a thread of its own, which does not keep the process alive."""

    def __init__(self, function: Callable[[], Result], patience_s: float) -> None:
        self._function = function
        self._patience_s = patience_s
        self._outcome: list[Result] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.append(self._function())
        except BaseException as error:
            self._error = error

    @property
    def over(self) -> bool:
        """Whether the function has returned or raised."""
        return not self._thread.is_alive()

    def result(self) -> Result:
        """Waits for the end; returns the result, or raises the error."""
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            raise BrokenPromiseError(f"a call has not returned after {self._patience_s:g} s")
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def leave(self) -> None:
        """Waits a little for the end, so that no thread is left behind where that can be helped."""
        self._thread.join(1)


def plain(batch: Batch | None) -> list[tuple[str, int, bytes]]:
    """Returns the messages of a batch as tuples; None is a batch of none."""
    return [] if batch is None else [(m.topic, m.timestamp, m.value) for m in batch]


def batches_of(scan: ScanCursor, rows: int = ROWS, size: int = BYTES) -> Iterator[Batch]:
    """Yields the batches of a scan, and closes it."""
    try:
        while (batch := scan.next_batch(rows, size)) is not None:
            expect.true(len(batch) > 0, "a batch has a message at least")
            yield batch
    finally:
        scan.close()


def read(scan: ScanCursor, rows: int = ROWS) -> list[tuple[str, int, bytes]]:
    """Returns the messages of a scan, and closes it."""
    return [message for batch in batches_of(scan, rows) for message in plain(batch)]


def values(messages: Iterable[tuple[str, int, bytes]]) -> list[bytes]:
    """Returns the values of messages."""
    return [value for _, _, value in messages]

"""The history of a run: what each client asked for, what it was told, and when."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import topicdb

# A call that raises one of these has done nothing, and never will.
REFUSED = (
    topicdb.ConflictError,
    topicdb.NoQuorumError,
    topicdb.PreconditionError,
    topicdb.QuotaError,
    topicdb.ReadOnlyError,
)


class NothingDoneError(Exception):
    """An operation has surely done nothing, because of another error."""

    def __init__(self, why: BaseException) -> None:
        super().__init__(str(why))
        self.why = why


def _failed(error: BaseException) -> dict[str, Any]:
    """Returns the result of an operation that has done nothing."""
    return {"failed": type(error).__name__, "why": str(error)}


@dataclass(frozen=True)
class Operation:
    """A line of a history.

    Attributes:
        client: the number of the client.
        operation: what it did, such as ``put``.
        argument: with what.
        result: what it was told. None: nobody knows whether it took effect. ``failed``: it surely
            did nothing, because of the error of this name, whose text is ``why``.
        begin_ns: when it began, on the monotonic clock.
        end_ns: when it ended; None if its outcome is unknown.
    """

    client: int
    operation: str
    argument: dict[str, Any]
    result: dict[str, Any] | None
    begin_ns: int
    end_ns: int | None

    @property
    def is_unknown(self) -> bool:
        return self.end_ns is None

    @property
    def has_failed(self) -> bool:
        return self.result is not None and "failed" in self.result

    @property
    def is_done(self) -> bool:
        return self.result is not None and not self.has_failed


class History:
    """All operations of a run, in the order of their ends. Thread-safe.

    It also has the file, with a JSON object a line, that the checker reads. Close it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._changed = threading.Condition()
        self._operations: list[Operation] = []
        self._done = 0

    def run(
        self,
        client: int,
        operation: str,
        argument: dict[str, Any],
        action: Callable[[], dict[str, Any]],
    ) -> dict[str, Any] | None:
        """Runs an operation and notes it. Returns its result, or None if it was not done.

        ``action`` returns the result. NothingDoneError and the errors of ``REFUSED`` say that it
        did nothing. After any other error of TopicDB, its outcome is unknown.
        """
        begin = time.monotonic_ns()
        result: dict[str, Any] | None
        end: int | None
        try:
            result = action()
        except NothingDoneError as error:
            result = _failed(error.why)
        except REFUSED as error:
            result = _failed(error)
        except topicdb.Error:
            result = None
        end = None if result is None else time.monotonic_ns()
        self.add(Operation(client, operation, argument, result, begin, end))
        return None if result is None or "failed" in result else result

    def add(self, operation: Operation) -> None:
        """Adds an operation that has ended."""
        with self._changed:
            self._file.write(json.dumps(asdict(operation)) + "\n")
            self._operations.append(operation)
            self._done += operation.is_done
            self._changed.notify_all()

    def await_more(self, count: int, patience_s: float) -> bool:
        """Waits until this many more operations are done, or for so long; returns whether they are.

        Operations that were refused, or whose outcome is unknown, do not count.
        """
        with self._changed:
            target = self._done + count
            return self._changed.wait_for(lambda: self._done >= target, patience_s)

    @property
    def operations(self) -> list[Operation]:
        """What has ended so far."""
        with self._changed:
            return list(self._operations)

    @property
    def done(self) -> int:
        """How many operations were done so far."""
        with self._changed:
            return self._done

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

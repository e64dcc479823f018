"""Checks many promises one after the other."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from topicdb.conformance.expect import BrokenPromiseError, NotCheckedError
from topicdb.conformance.lab import PATIENCE_S
from topicdb.conformance.promise import Promise
from topicdb.conformance.subject import Subject


@dataclass(frozen=True)
class Outcome:
    """What came of the check of one promise.

    - ``verdict``: ``"kept"``; ``"broken"``; or ``"not checked"``, since the engine lacks something.
    - ``text``: why it is not kept, or not checked.
    - ``trace``: where an error came from that the engine should not have raised.
    """

    promise: Promise
    verdict: Literal["kept", "broken", "not checked"]
    text: str = ""
    trace: str = ""


def run(
    subject: Subject,
    promises: Iterable[Promise],
    *,
    directory: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[Outcome]:
    """Checks promises, and yields what came of each.

    - ``directory``: where the data of the engines is put, and left; None: in a temporary directory,
      which is removed.
    - ``patience_s``: how long to wait for what must come, in seconds.
    """
    root = Path(tempfile.mkdtemp(prefix="topicdb-conformance-")) if directory is None else directory
    try:
        for promise in promises:
            place = root / promise.name
            place.mkdir(parents=True)
            yield _outcome(subject, promise, place, patience_s)
    finally:
        if directory is None:
            shutil.rmtree(root, ignore_errors=True)


def _outcome(subject: Subject, promise: Promise, place: Path, patience_s: float) -> Outcome:
    try:
        promise.check(subject, place, patience_s=patience_s)
    except NotCheckedError as reason:
        return Outcome(promise, "not checked", str(reason))
    except BrokenPromiseError as broken:
        return Outcome(promise, "broken", str(broken), _trace(broken.__cause__))
    except Exception as error:
        return Outcome(promise, "broken", f"{type(error).__name__}: {error}", _trace(error))
    return Outcome(promise, "kept")


def _trace(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))

"""Jobs of tasks that do not see the directory of the database: they stage for its server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from topicdb import jobs
from topicdb._core import UnavailableError
from topicdb.spark.columns import in_batches, located
from topicdb.spark.place import Remote, check_writable, open_to_write, place_of

if TYPE_CHECKING:
    from topicdb.spark.place import Place
    from topicdb.types import Key


def stage_partition(
    messages: Iterable[Any],
    job: str,
    path: str | None = None,
    *,
    key: Callable[[Any], Key | None] | None = None,
    remote: str | Remote | None = None,
) -> Iterator[jobs.Staged]:
    """Stages one partition for a job, for ``mapPartitions``. ``commit_job`` makes it count.

    Each attempt of a task stages for itself, and only those count whose results are committed. So
    each message is stored once, whatever Spark repeats.

    Arguments:
        messages: (topic, µs or None, value) tuples, or Arrow record batches with these columns and
            perhaps ``key``, of any shards.
        job: 1 to 128 letters, digits, ``-``, ``_`` or ``.``; the same in all tasks of a job and in
            no other job.
        path: the directory of the database. None: ``remote`` has it.
        key: is called with each tuple, and returns its key or None, if the database shards by key.
        remote: the server that has the database open for writing: its address as text, or with a
            token or TLS a ``Remote``. The token needs ``--everything``.

    Returns:
        An iterator of one ``topicdb.jobs.Staged``, or of none if there are no messages.

    Raises:
        TopicError, ValueError, TypeError: a row is malformed; the text tells its place.
        UnavailableError: the server does not answer.
        AccessError: the token may not write.

    Example:
        >>> from topicdb.spark import commit_job, stage_partition
        >>> topicdb.open("staged.db").close()
        >>> staged = stage_partition([("site/1", None, b"on")], "load-1", "staged.db")
        >>> commit_job("load-1", staged, "staged.db").messages
        1
    """
    place = place_of(path, remote)
    seen = 0
    with open_to_write(place) as target, jobs.StagedWriter(target, job) as writer:
        for batch in in_batches(iter(messages)):
            keys = (
                [key(row) for row in batch] if key is not None and isinstance(batch, list) else None
            )
            try:
                writer.append(batch, key=keys)
            except (ValueError, TypeError) as error:
                raise located(error, f"rows from {seen} of a partition") from None
            seen += len(batch)
    if seen:
        yield writer.staged


def commit_job(
    job: str,
    staged: Iterable[jobs.Staged],
    path: str | None = None,
    *,
    remote: str | Remote | None = None,
) -> jobs.Committed:
    """Commits what ``stage_partition`` has staged, on the driver, as ``topicdb.jobs.commit`` does.

    Arguments:
        job: as given to ``stage_partition``.
        staged: its results, of the attempts that count.
        path: as given to ``stage_partition``.
        remote: as given to ``stage_partition``.

    Returns:
        What was committed.

    Raises:
        UnavailableError: the server does not answer. The commit may be repeated.

    Example:
        >>> from topicdb.spark import commit_job
        >>> rdd = rdd.mapPartitions(lambda rows: stage_partition(rows, "a", remote=server))
        ... # doctest: +SKIP
        >>> commit_job("a", rdd.collect(), remote=server).messages  # doctest: +SKIP
        1000000
    """
    place = place_of(path, remote)
    with open_to_write(place) as target:
        return jobs.commit(target, job, staged)


def run_job(place: Remote, stage: Callable[[str], list[jobs.Staged]]) -> jobs.Committed:
    """Runs ``stage`` with the name of a new job, and commits what it returns.

    If it fails, what was staged is removed, as far as the server can be reached.
    """
    check_writable(place)
    job = f"spark-{uuid.uuid4().hex}"
    try:
        return commit_job(job, stage(job), remote=place)
    except BaseException:
        _abort(place, job)
        raise


def _abort(place: Place, job: str) -> None:
    with suppress(UnavailableError), open_to_write(place) as target:  # its next start does it, too
        jobs.abort(target, job)

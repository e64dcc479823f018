"""Writing with ``format("topicdb")``: tasks stage, the driver commits (``topicdb.jobs``).

A batch is one job. A micro-batch of a stream is the job with the number ``batch id + 1`` of the
sequence that is named after the query's id, so one that Spark repeats is stored once.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import topicdb
from topicdb import jobs
from topicdb.spark.columns import check_columns, located
from topicdb.spark.place import check_writable, open_to_write

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from topicdb.spark.options import WriteOptions
    from topicdb.spark.place import Place

_logger = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskDone(WriterCommitMessage):
    """The message of a task to the commit, which runs in another process and has no other state."""

    job: str
    sequence: str
    staged: jobs.Staged


def check_schema(schema: StructType, place: Place) -> None:
    """Checks, before a job begins, the columns of rows for the database at ``place``.

    Raises what ``check_columns`` and ``check_writable`` raise.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len(types) < len(schema.fields):
        raise ValueError(f"columns: two have the same name, of {schema.names}")
    check_columns(types, needs_timestamp=False, place=place)
    check_writable(place)


def _complete(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Returns the rows that have a topic and a value, and how many have not."""
    keep = pc.and_(pc.is_valid(batch.column("topic")), pc.is_valid(batch.column("value")))
    kept = batch.filter(keep)
    return kept, batch.num_rows - kept.num_rows


def _stage(
    batches: Iterable[pa.RecordBatch], options: WriteOptions, job: str, sequence: str
) -> TaskDone:
    """Stages rows, in a task. Errors name the partition and the row."""
    without = seen = 0
    with (
        open_to_write(options.place) as target,
        jobs.StagedWriter(target, job, drop_malformed=options.drop_malformed) as writer,
    ):
        for batch in batches:
            if options.drop_malformed:
                batch, dropped = _complete(batch)
                without += dropped
            try:
                writer.append(batch)
            except (ValueError, TypeError) as error:
                where = f"partition {_context().partitionId()}, rows from {seen}"
                raise located(error, where) from None
            seen += batch.num_rows
    staged = writer.staged
    counted = jobs.Staged(staged.file, staged.messages, staged.bytes, staged.malformed + without)
    return TaskDone(job, sequence, counted)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _commit(done: list[TaskDone], options: WriteOptions, number: int) -> None:
    if not done:
        return
    with open_to_write(options.place) as target:
        committed = jobs.commit(
            target,
            done[0].job,
            [task.staged for task in done],
            sequence=done[0].sequence or None,
            number=number,
            timeout=timedelta(seconds=options.commit_timeout),
        )
    malformed = sum(task.staged.malformed for task in done)
    if malformed:
        _logger.warning("%s: %d malformed messages were left out", options.place, malformed)
    if committed.pending:
        _logger.warning(
            "%s: committed, but shards %s are open elsewhere and were not served within %s s",
            options.place,
            committed.pending,
            options.commit_timeout,
        )


def _abort(names: set[str], options: WriteOptions) -> None:
    """Removes what jobs have staged. If the server has gone, that is done by its next start."""
    try:
        with open_to_write(options.place) as target:
            for job in names:
                jobs.abort(target, job)
    except topicdb.UnavailableError as error:
        _logger.warning("what was staged stays for some hours: %s", error)


class BatchWriter(DataSourceArrowWriter):
    """The writer of one job. The driver makes it; tasks get a pickled copy."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job = f"spark-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        return _stage(iterator, self._options, self._job, "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit([done for done in messages if isinstance(done, TaskDone)], self._options, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort({self._job}, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of the micro-batches of a query.

    Spark keeps no state of it between ``write`` and ``commit`` but the messages of the tasks.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        query = _property(_QUERY_ID)
        # A run of a query writes a batch once. Its attempts share a job; other runs have others.
        job = f"{query}-{_property(_BATCH_ID)}-{_property(_RUN_ID)}"
        return _stage(iterator, self._options, job, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        done = [task for task in messages if isinstance(task, TaskDone)]
        _commit(done, self._options, batchId + 1)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _abort({task.job for task in messages if isinstance(task, TaskDone)}, self._options)


def _property(name: str) -> str:
    value: Any = _context().getLocalProperty(name)
    if value is None:
        raise RuntimeError(f"Spark has not said the property {name} of this streaming query")
    return re.sub(r"[^A-Za-z0-9_-]", "-", str(value))

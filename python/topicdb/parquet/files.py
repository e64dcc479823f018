"""Export of a part of a database as Parquet files that any tool reads, and import without loss.

The columns are ``topic`` (string), ``timestamp`` (timestamp[us, UTC]) and ``value`` (binary), none
of them null. Needs the extra ``topicdb[arrow]``.

>>> with topicdb.open("fleet.db") as db:                              # doctest: +SKIP
...     db.export_parquet("june.parquet", start="2025-06-01T00:00:00Z", end="2025-07-01T00:00:00Z")
>>> with topicdb.open("copy.db") as db:                               # doctest: +SKIP
...     db.import_parquet("june.parquet")
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from topicdb import _core, jobs
from topicdb.arguments.filters import any_of, filter_list
from topicdb.arguments.forms import Form
from topicdb.arguments.times import TimeLike, time_range_us
from topicdb.cooperating import Directory
from topicdb.creating import checked_path
from topicdb.cursor.scan import SLICE_BYTES_MAX, Scan, missing_metadata
from topicdb.cursor.tail import Tail
from topicdb.engine import Engine
from topicdb.engines.features import lacks_of
from topicdb.engines.staging import staging_of
from topicdb.parquet.results import Exported as Exported
from topicdb.parquet.results import Imported as Imported
from topicdb.types import Slice

if TYPE_CHECKING:
    import pyarrow as pa

    from topicdb.parquet.reading import Rows, Source
    from topicdb.parquet.writing import About

ROWS_PER_FILE = 10_000_000
_FORM: Form = "stored"  # messages are read with their properties
# The limits of a batch that is read; the scan itself needs further memory.
_SCAN_ROWS = 100_000
_SCAN_BYTES = 16 << 20
_BYTES_OF_A_SLAB = (1 << 63) - 1  # of a slice that is not cut
# With the layout skipstream a shard stores a job in one batch, of 1 GiB at most.
_STATE_BYTES_MAX = 256 << 20

Progress: TypeAlias = "Callable[[int, int | None], object]"
"""Called now and then with the rows that are done, and how many there will be (None: unknown)."""
PathLike: TypeAlias = "str | os.PathLike[str]"
Read: TypeAlias = "Callable[[Engine, About], Iterator[_core.Batch]]"
"""Gives the messages of an export."""


def export(
    engine: Engine,
    path: PathLike,
    filter: str | Sequence[str] | None,
    *,
    times: tuple[TimeLike | None, TimeLike | None],
    rows_per_file: int | None,
    properties: bool | None,
    progress: Progress | None,
    partial: bool = False,
) -> Exported:
    """Exports messages, as ``Database.export_parquet`` says. ``times``: start and end.

    ``partial``: the engine leaves out missing shards.
    """
    # Before anything is read: a shard that comes back meanwhile may be named although it is there.
    missing = engine.missing_shards(any_of(filter)) if partial else {}
    about, read = _plan(engine, filter, times, properties)
    while True:
        try:
            return _export(engine, Path(path), about, read, rows_per_file, progress, missing)
        except _PropertiesFoundError:
            about = replace(about, properties=True)
        except _NoLogError:
            read = _streamed


def import_files(
    engine: Engine,
    path: PathLike | Iterable[PathLike],
    *,
    key: str | None,
    repeat: bool,
    progress: Progress | None,
) -> Imported:
    """Imports files, as ``Database.import_parquet`` says."""
    check_quota = partial(_check_quota, engine)
    engine.append_rows([], None)  # raises the error of a handle that is closed or only reads
    check_quota()
    place = staging_of(engine)
    work = _Import(place, engine.path, engine.schema, _paths(path), key, repeat, progress)
    return work.run(_applied(engine), check_quota)


def _check_quota(engine: Engine) -> None:
    found = engine.quota()
    if 0 < found.quota_bytes <= found.disk_bytes:
        raise _core.QuotaError(
            f"{engine.path} has {found.disk_bytes} bytes, its quota is {found.quota_bytes}: delete "
            "or drop something, or raise quota_bytes"
        )


def _applied(engine: Engine) -> set[str]:
    return {job.sequence for job in engine.jobs()}


def import_into(
    database_path: PathLike,
    path: PathLike | Iterable[PathLike],
    *,
    key: str | None = None,
    repeat: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Imports files into a database that another process may have open; see ``import_parquet``.

    That process then shows the messages. Its ``quota_bytes`` is not checked.

    Arguments:
        database_path: the directory of the database.
        path: as in ``Database.import_parquet``.
        key: as in ``Database.import_parquet``.
        repeat: as in ``Database.import_parquet``.
        progress: as in ``Database.import_parquet``.

    Returns:
        How much was stored.

    Raises:
        NotFoundError: there is no database. What ``Database.import_parquet`` raises comes through,
            too.
    """
    options = _core.OpenOptions()
    options.read_only = True
    with closing(_core.Database.open(checked_path(database_path), options)) as engine:
        applied = _applied(engine)
        place = Directory(engine.path)
        work = _Import(place, engine.path, engine.schema, _paths(path), key, repeat, progress)
    return work.run(applied, lambda: None)


def schema_for(path: PathLike | Iterable[PathLike], *, key: str | None = None) -> dict[str, Any]:
    """Returns options of ``topicdb.open`` for a new database that can hold what these files hold.

    These are the layout, and whether there are timestamps. Files that TopicDB has not written are
    taken for messages.

    Arguments:
        path: as in ``Database.import_parquet``.
        key: the column with keys, which the files must have; None: messages go by their topics.

    Returns:
        Arguments of ``topicdb.open``. It raises what ``Database.import_parquet`` raises before that
        looks at rows.

    Example:
        >>> exported = db.export_parquet("site.parquet", "site/#")
        >>> topicdb.parquet.schema_for("site.parquet")["layout"]
        'columnar'
    """
    _require_pyarrow("import")
    from topicdb.parquet import reading

    origins = [source.about for source in reading.open_sources(_paths(path), key)]
    if any(about is None or about.layout != "skipstream" for about in origins):
        return {"layout": "columnar"}
    widths = [about.timestamp_bytes for about in origins if about is not None]
    return {"layout": "skipstream", "timestamp_bytes": max(widths)}


def _paths(path: PathLike | Iterable[PathLike]) -> list[Path]:
    if isinstance(path, (str, os.PathLike)):
        return [Path(path)]
    paths = [Path(one) for one in path]
    if not paths:
        raise ValueError("path: no file is given to import")
    return paths


def _require_pyarrow(what: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{what} needs pyarrow; run: pip install "topicdb[arrow]"', name=error.name
        ) from None


def _export(
    engine: Engine,
    path: Path,
    about: About,
    read: Read,
    rows_per_file: int | None,
    progress: Progress | None,
    missing: dict[int, str],
) -> Exported:
    from topicdb.parquet import writing

    single = path.suffix == writing.SUFFIX
    rows_max = ROWS_PER_FILE if rows_per_file is None else rows_per_file
    if rows_max < 1:
        raise ValueError(f"rows_per_file: expected at least 1, got {rows_max}")
    if single and rows_per_file is not None:
        raise ValueError(
            f"rows_per_file: {path} is one file; a directory does not end with .parquet"
        )
    metadata = {writing.ABOUT_KEY: about.encode(), **(missing_metadata(missing) or {})}
    schema = writing.message_schema(about.form).with_metadata(metadata)
    with writing.appearing(path) as part:
        tables = _counted(
            writing.row_groups(_messages(engine, about, read)), _estimate(engine, about), progress
        )
        if single:
            rows = writing.write_file(part, tables, schema)
        else:
            rows = writing.write_directory(part, tables, schema, rows_max)
    files = [path] if single else sorted(path.iterdir())
    size = sum(file.stat().st_size for file in files)
    return Exported([str(file) for file in files], rows, size, missing)


def _plan(
    engine: Engine,
    filter: str | Sequence[str] | None,
    times: tuple[TimeLike | None, TimeLike | None],
    properties: bool | None,
) -> tuple[About, Read]:
    """Returns what the files will say of the export, and what gives its messages."""
    _require_pyarrow("export_parquet")
    from topicdb.parquet.writing import About

    filters = filter if filter is None or isinstance(filter, str) else list(filter)
    for text in [filters] if isinstance(filters, str) else filters or []:
        _core.check_filter(text)
    schema = engine.schema
    bounds = time_range_us(*times)  # once: relative times move
    about = About(filters, *bounds, schema["layout"], schema["timestamp_bytes"], properties)
    layouts = _layouts(engine, about) or {about.layout}
    # Only that layout can hold several messages of one topic and time.
    about = replace(about, layout="columnar" if "columnar" in layouts else "skipstream")
    if isinstance(filters, str) or len(layouts) > 1:
        return about, _streamed
    return about, _logged if about.layout == "columnar" else _states


def _layouts(engine: Engine, about: About) -> set[str]:
    """Returns the layouts of the generations that have messages to export."""
    if "slices" in lacks_of(engine):
        return set()
    filters = filter_list(about.filter)
    found = engine.slices(filters, about.start, about.end, {}, {}, _BYTES_OF_A_SLAB)
    return {Slice(*fields).layout for fields in found}


class _PropertiesFoundError(Exception):
    """An export without columns for properties has found a message with properties."""


class _NoLogError(Exception):
    """An export that reads the log has come to a generation that keeps none."""


def _messages(engine: Engine, about: About, read: Read) -> Iterator[pa.RecordBatch]:
    """Gives the messages to export; those of a topic with equal timestamps keep their order."""
    import pyarrow as pa

    for stored in read(engine, about):
        batch = stored.read_as(about.form)
        if about.properties is None and batch is not stored:
            raise _PropertiesFoundError
        yield _within(pa.record_batch(batch), about)


def _slices(engine: Engine, about: About) -> list[Slice]:
    filters = filter_list(about.filter)
    found = engine.slices(filters, about.start, about.end, {}, {}, SLICE_BYTES_MAX)
    return [Slice(*fields) for fields in found]


def _streamed(engine: Engine, about: About) -> Iterator[_core.Batch]:
    """Gives messages stream by stream, older generations first, whatever their layouts."""
    read = partial(engine.scan, any_of(about.filter), about.start, about.end, "stream", None)
    yield from Scan(read, _FORM).batches(_SCAN_ROWS, bytes_max=_SCAN_BYTES)


def _logged(engine: Engine, about: About) -> Iterator[_core.Batch]:
    """Gives messages in the order of commits, up to now.

    Slices have no order; so it reads the commits that they cover from the log. Raises _NoLogError
    where a generation keeps none.
    """
    filters = filter_list(about.filter)
    for shard, after, until in _commits(_slices(engine, about)):
        # The tail reads nothing of the other shards.
        ends = dict.fromkeys(range(engine.schema["shards"]), 0) | {shard: until}
        try:
            with Tail(engine.tail(filters, {shard: after}, ends), None, _FORM) as tail:
                yield from tail.batches(_SCAN_ROWS, bytes_max=_SCAN_BYTES)
        except _core.SchemaError as error:
            raise _NoLogError from error


def _commits(slices: Iterable[Slice]) -> Iterator[tuple[int, int, int]]:
    """Gives the runs of commits that the slices cover, each once, as (shard, after, until)."""
    shard, first, last = -1, 0, 0
    for one in sorted(slices, key=lambda one: (one.shard, one.after)):
        if one.shard == shard and one.after <= last:
            last = max(last, one.until)
            continue
        if shard >= 0:
            yield shard, first, last
        shard, first, last = one.shard, one.after, one.until
    if shard >= 0:
        yield shard, first, last


def _states(engine: Engine, about: About) -> Iterator[_core.Batch]:
    """Gives messages of the layout skipstream, older generations first.

    A topic and timestamp is in a generation at most once, so its newest value comes last.
    """
    by_generation: dict[int, list[Slice]] = {}
    for one in _slices(engine, about):
        by_generation.setdefault(one.generation, []).append(one)
    for _, slices in sorted(by_generation.items()):
        read = partial(engine.scan_slices, filter_list(about.filter), slices)
        yield from Scan(read, _FORM).batches(_SCAN_ROWS, bytes_max=_SCAN_BYTES)


def _within(batch: pa.RecordBatch, about: About) -> pa.RecordBatch:
    """Returns the rows in the range of times. Reads of the log of commits ignore that range."""
    if isinstance(about.filter, str) or about.start is about.end is None:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc

    times = batch.column("timestamp").cast(pa.int64())
    wanted = pc.greater_equal(times, about.start or 0)
    if about.end is not None:
        wanted = pc.and_(wanted, pc.less(times, about.end))
    return batch.filter(wanted)


def _estimate(engine: Engine, about: About) -> Callable[[], int]:
    return lambda: sum(one.messages for one in _slices(engine, about))


def _counted(
    tables: Iterator[pa.Table], estimate: Callable[[], int], progress: Progress | None
) -> Iterator[pa.Table]:
    """Gives the tables, and calls ``progress`` after each was written."""
    if progress is None:
        yield from tables
        return
    total = estimate()
    rows = 0
    for table in tables:
        yield table
        rows += table.num_rows
        progress(rows, max(rows, total))


class _Import:
    """One import: the files that are read, and the jobs that store them."""

    def __init__(
        self,
        place: Directory,
        database_path: str,
        schema: dict[str, Any],
        paths: list[Path],
        key: str | None,
        repeat: bool,
        progress: Progress | None,
    ) -> None:
        _require_pyarrow("import_parquet")
        from topicdb.parquet import reading

        if key is not None and schema.get("shard_by", "topic") != "key":
            raise _core.SchemaError(
                f"key: {database_path} is sharded by topic, and its messages have no keys: leave "
                "the option out, or import into a database that was created with shard_by='key'"
            )
        self._place = place
        self._is_state = schema["layout"] == "skipstream"
        self._sources = reading.open_sources(paths, key)
        for source in self._sources:
            _check_width(source, schema["timestamp_bytes"])
        # A later import of the same files gets the same name, and finds that it is done.
        self._name = f"parquet-{reading.digest_of(self._sources, key)}"
        if repeat:
            self._name += f"-{secrets.token_hex(8)}"
        self._progress = progress or (lambda rows, total: None)
        self._staged: list[tuple[str, jobs.Staged]] = []

    def run(self, applied: set[str], check_before_commit: Callable[[], None]) -> Imported:
        if self._job(0) in applied and not self._is_state:
            return self._imported(repeated=True, pending=[])
        try:
            self._stage()
            check_before_commit()
            committed = [jobs.commit(self._place, job, [staged]) for job, staged in self._staged]
        except BaseException:
            for job, _ in self._staged:
                jobs.abort(self._place, job)  # unless it is committed
            raise
        return self._imported(
            repeated=bool(committed) and all(one.repeated for one in committed),
            pending=sorted({shard for one in committed for shard in one.pending}),
        )

    def _job(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _stage(self) -> None:
        """Stages all rows: in one job, or with the layout skipstream in as many as are needed."""
        pieces = self._pieces()
        rows = next(pieces, None)
        while rows is not None:
            job, size = self._job(len(self._staged)), 0
            with jobs.StagedWriter(self._place, job) as writer:
                while rows is not None and (size < _STATE_BYTES_MAX or not self._is_state):
                    _append(writer, rows)
                    size += rows.batch.nbytes
                    rows = next(pieces, None)
            self._staged.append((job, writer.staged))

    def _pieces(self) -> Iterator[Rows]:
        from topicdb.parquet import reading

        total = sum(source.rows for source in self._sources)
        done = 0
        for source in self._sources:
            for rows in reading.read(source):
                yield rows
                done += rows.batch.num_rows
                self._progress(done, total)

    def _imported(self, *, repeated: bool, pending: list[int]) -> Imported:
        from topicdb.parquet import reading

        return Imported(
            [str(source.path) for source in self._sources],
            sum(source.rows for source in self._sources),
            reading.files_bytes(self._sources),
            repeated,
            pending,
        )


def _check_width(source: Source, timestamp_bytes: int) -> None:
    if source.about is not None and source.about.timestamp_bytes > timestamp_bytes:
        raise _core.SchemaError(
            f"{source.path}: exported from a database with timestamps; this one has "
            "timestamp_bytes=0 and would lose them"
        )


def _append(writer: jobs.StagedWriter, rows: Rows) -> None:
    from topicdb.parquet import reading

    try:
        writer.append(rows.batch, raw=rows.is_stored)
    except (_core.TopicError, ValueError) as error:
        raise reading.naming(rows, error) from error

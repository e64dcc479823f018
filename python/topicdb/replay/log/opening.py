"""Opens and drops the replay logs of a database."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary, WeakValueDictionary

from topicdb import _core
from topicdb.arguments.filters import Filters, filter_list
from topicdb.follow.positions import Place
from topicdb.follow.subscription import check_log
from topicdb.replay.log.log import REPLAYS_MAX, ReplayLog
from topicdb.replay.log.upkeep import checked_quota
from topicdb.replay.records import SHARD, LogRecord, Records, stored
from topicdb.replay.rules import EVERYTHING, Era, Promotion, checked_promotions, filters_of

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import Durability

STORE_INTERVAL_S = 1.0


@runtime_checkable
class HasLogsElsewhere(Protocol):
    """A database of another process, which has its replay logs."""

    def _open_replay_log(self, name: str, options: Mapping[str, Any]) -> ReplayLog:
        """Opens a log as ``open`` does; ``options`` are those that were given."""
        ...

    def _drop_replay_log(self, name: str) -> None:
        """Removes a log as ``drop`` does."""
        ...


_lock = threading.Lock()
_opened: WeakKeyDictionary[Database, WeakValueDictionary[str, ReplayLog]] = WeakKeyDictionary()


def open(
    database: Database,
    name: str = "default",
    *,
    include: Filters = None,
    exclude: Filters = None,
    quota_bytes: int | None = None,
    promote: Sequence[Promotion | str] | None = None,
    temporary_replays: bool | None = None,
    replays_max: int = REPLAYS_MAX,
    durability: Durability | None = None,
) -> ReplayLog:
    """Opens the replay log ``name`` of a database as it was left, or makes a new one.

    All messages that the database already has belong to a new log, if its filters match them.
    Filters that differ from those before count from now on, and fail replays that were left
    running.

    If ``topicdb.connect`` gave the database, the server has the log: it opens it if that was not
    done yet, and keeps it open until it ends itself. Any number of clients may open it. Options
    change the log that is open, but for ``replays_max`` and ``durability``.

    Arguments:
        database: a database that is open for writing, with one shard; or one of a server.
        name: the name of the log in the database.
        include: topic filters of what is logged. None: as before, or every topic but those that
            begin with ``$`` for a new log.
        exclude: topic filters of what is not logged, although ``include`` matches it. None: as
            before, or nothing.
        quota_bytes: how many bytes of topics and values the log may have; 0 stands for any number.
            A log that has more than 90 % of them is trimmed. None: as before, or 0.
        promote: which direct messages are logged; see ``Promotion``. None: as before, or none.
        temporary_replays: whether a client of a temporary endpoint may start a replay when it
            binds. None: as before, or False.
        replays_max: at most this many endpoints have a replay at once.
        durability: how safely the log stores its own records and those of endpoints. None: as the
            database does by default.

    Returns:
        The log. Close it before the database.

    Raises:
        SchemaError: the database has several shards, so that its messages have no order; or what
            ``include`` matches goes to a generation of the layout ``skipstream``, which keeps no
            commit log, or for a new log is in one.
        ConflictError: the log is open already in this process.
        ReadOnlyError: the database is open for reading only.
        TopicError: a bad filter, or the name is too long.
        ValueError: another bad option.
        OutOfResourcesError: more than ``replays_max`` replays were left running.
        AccessError: the server does not let this client do that.

    Example:
        >>> log = topicdb.replay.open(db, quota_bytes=10 << 30)
        >>> log.quota_bytes
        10737418240
        >>> log.close()
    """
    _check_options(include, exclude, quota_bytes, promote, replays_max)
    if isinstance(database, HasLogsElsewhere):
        given = _given(
            include=include,
            exclude=exclude,
            quota_bytes=quota_bytes,
            promote=promote,
            temporary_replays=temporary_replays,
            replays_max=None if replays_max == REPLAYS_MAX else replays_max,
            durability=durability,
        )
        return database._open_replay_log(name, given)
    core = database._core
    if not isinstance(core, _core.Database):
        raise TypeError("replay.open: expected a database of topicdb.open or topicdb.connect")
    _check_schema(core)
    with _lock:
        logs = _opened.setdefault(database, WeakValueDictionary())
        known = logs.get(name)
        if known is not None and not known.closed:
            raise _core.ConflictError(f"replay log {name!r} is open already in this process")
        records = Records(core, name, durability)
        record = records.log()
        _check_log(core, record, include)
        if record is None:
            record = _new(records.origin(), include, exclude)
        if promote is not None:
            record.promote = checked_promotions(promote)
        if quota_bytes is not None:
            record.quota_bytes = checked_quota(quota_bytes)
        if temporary_replays is not None:
            record.temporary_replays = bool(temporary_replays)
        log = ReplayLog(
            database,
            name,
            record,
            records,
            replays_max=replays_max,
            store_interval_s=STORE_INTERVAL_S,
        )
        logs[name] = log
    if include is not None or exclude is not None:
        log.set_filters(include or log.include, exclude if exclude is not None else log.exclude)
    return log


def _given(**options: Any) -> dict[str, Any]:
    """Returns those options that were given: None stands for one that was not."""
    return {name: value for name, value in options.items() if value is not None}


def names(database: Database) -> list[str]:
    """Returns the names of the logs that are stored in a database, sorted."""
    found = stored(database._core)
    return sorted({log for log, endpoint, _ in found if endpoint == ""})


def opened(database: Database, name: str) -> ReplayLog | None:
    """Returns the log of this name if it is open in this process, or None."""
    with _lock:
        logs = _opened.get(database)
        found = None if logs is None else logs.get(name)
    return None if found is None or found.closed else found


def change(log: ReplayLog, options: Mapping[str, Any]) -> None:
    """Gives a log that is open these options of ``open``, all or none.

    Raises:
        ValueError: for options that count only when a log is opened, or that are none, and what
            ``open`` raises for wrong ones.
    """
    known = {"include", "exclude", "quota_bytes", "promote", "temporary_replays"}
    for name in options:
        if name not in known:
            raise ValueError(
                f"{name}: replay log {log.name!r} is open already, without that option"
            )
    include, exclude = options.get("include"), options.get("exclude")
    quota_bytes, promote = options.get("quota_bytes"), options.get("promote")
    _check_options(include, exclude, quota_bytes, promote, 1)
    if include is not None or exclude is not None:
        log.set_filters(include or log.include, exclude if exclude is not None else log.exclude)
    if promote is not None:
        log.set_promotion(promote)
    if options.get("temporary_replays") is not None:
        log.temporary_replays = options["temporary_replays"]
    if quota_bytes is not None:
        log.quota_bytes = quota_bytes


def _new(origin: int, include: Filters, exclude: Filters) -> LogRecord:
    record = LogRecord(origin)
    included = EVERYTHING if include is None else tuple(filters_of(include, "include"))
    record.eras = [Era(Place(0, 0), True, included, filter_list(exclude) or [])]
    return record


def _check_schema(core: _core.Database) -> None:
    schema = core.schema
    if schema["shards"] != 1:
        raise _core.SchemaError(
            f"{core.path} has {schema['shards']} shards: a replay log needs one order of all "
            "messages, which one shard has; make a database with shards=1 (topicdb export, topicdb "
            "import --shards 1), or several databases with a log each"
        )


def _check_log(core: _core.Database, record: LogRecord | None, include: Filters) -> None:
    """Raises SchemaError if messages of the log are in a generation that keeps no commit log.

    They are those that will be logged, and for a new log also those that are stored.
    """
    if include is not None:
        included = filters_of(include, "include")
    else:
        included = list(EVERYTHING if record is None else record.eras[-1].include)
    check_log(core, included, None)
    if record is None:
        check_log(core, included, {SHARD: Place(0, 0)})


def _check_options(
    include: Filters,
    exclude: Filters,
    quota_bytes: int | None,
    promote: Sequence[Promotion | str] | None,
    replays_max: int,
) -> None:
    if include is not None:
        filters_of(include, "include")
    filter_list(exclude)
    checked_quota(quota_bytes or 0)
    checked_promotions(promote or ())
    if replays_max < 1:
        raise ValueError(f"replays_max: at least 1 is needed, got {replays_max}")


@atexit.register
def _end_threads() -> None:
    # A thread that the core wakes up while the interpreter ends would abort the process.
    for logs in list(_opened.values()):
        for log in list(logs.values()):
            with suppress(Exception):
                log.close()


def drop(database: Database, name: str = "default") -> None:
    """Removes a replay log and its endpoints from a database. The messages stay.

    Arguments:
        database: a database that is open for writing.
        name: of the log.

    Raises:
        NotFoundError: there is no such log.
        ConflictError: the log is open in this process.

    Example:
        >>> topicdb.replay.open(db).close()
        >>> topicdb.replay.drop(db)
    """
    if isinstance(database, HasLogsElsewhere):
        database._drop_replay_log(name)
        return
    with _lock:
        logs = _opened.get(database)
        known = None if logs is None else logs.get(name)
        if known is not None and not known.closed:
            raise _core.ConflictError(f"replay log {name!r} is open: close it first")
        records = Records(database._core, name, None)
        if records.log() is None:
            raise _core.NotFoundError(f"there is no replay log {name!r} in {database.path}")
        records.drop()

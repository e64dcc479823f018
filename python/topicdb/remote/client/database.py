"""The database that ``topicdb.connect`` returns, with the API of one in this process."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from topicdb.arguments.filters import Filters, filter_list
from topicdb.cooperating import Extent
from topicdb.database.database import Database
from topicdb.database.snapshots import PathLike, Snapshot
from topicdb.database.verifying import Progress, Verification
from topicdb.follow.group import Group
from topicdb.follow.losses import OnLoss
from topicdb.follow.readers import OnChange, OpenReaders, group_timeout_us
from topicdb.follow.subscription import WINDOW, WINDOW_BYTES, Start, start_of
from topicdb.remote.client.appender import Appender
from topicdb.remote.client.cluster import ServedCluster
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.engine import RemoteEngine
from topicdb.remote.client.groups import RemoteGroup
from topicdb.remote.client.lease import Lease, RemoteHandle
from topicdb.remote.client.staging import RemoteStaging
from topicdb.remote.records import record_of
from topicdb.replicas import Cluster

if TYPE_CHECKING:
    from topicdb.replay.log.log import ReplayLog
    from topicdb.types import Durability


class RemoteDatabase(Database):
    """A database in another process; made by ``topicdb.connect``. Thread-safe.

    Its methods are those of ``Database``, with these differences:

    - A call may raise UnavailableError when the connection breaks. It is not known then whether an
      append or commit that was on its way is stored. An append with an ``id`` is repeated by itself
      for ten seconds, and the caller may repeat it after that.
    - A call raises AccessError if the token may not do that.
    - The path of a snapshot is a name in the server's folder for snapshots.
    - ``import_parquet`` works only on the machine of the database.
    """

    def __init__(self, connection: Connection) -> None:
        appends = Appender(connection)
        engine = RemoteEngine(connection)
        readers = OpenReaders(engine, partial(_hold, connection))
        super().__init__(engine, appends, readers)
        self._connection = connection
        weakref.finalize(self, connection.abandon).atexit = False
        _open.add(self)

    @property
    def schema(self) -> dict[str, Any]:
        """Returns the schema as the server has stored it."""
        schema: dict[str, Any] = self._connection.call("hello")["schema"]
        return schema

    @property
    def cluster(self) -> Cluster | None:
        """The cluster of the server, if it is a site of one."""
        is_replicated = self._connection.hello.get("is_replicated")
        return Cluster(ServedCluster(self._connection)) if is_replicated else None

    def snapshot(
        self, path: PathLike, *, base: PathLike | None = None, copy: bool = False
    ) -> Snapshot:
        """Copies the database as ``Database.snapshot`` does, at the server.

        ``path`` and ``base`` are names in the server's folder for snapshots.
        """
        names = os.fspath(path), None if base is None else os.fspath(base)
        return self._core.snapshot(*names, copy)

    def verify(self, *, deep: bool = True, progress: Progress = None) -> Verification:
        """Checks the database at the server as ``Database.verify`` does; ignores ``progress``."""
        return record_of(Verification, self._connection.call("verify", deep))

    def import_parquet(self, *args: Any, **options: Any) -> NoReturn:
        """Raises NotImplementedError: files are imported only where the database is."""
        raise NotImplementedError(
            "files are imported where the database is: run `topicdb import` there, or append what "
            "pyarrow reads of them"
        )

    def group(
        self,
        name: str,
        filter: Filters = "#",
        *,
        start: Start = "earliest",
        parts: int = 64,
        on_change: OnChange = "error",
        member_timeout: float | timedelta = 30.0,
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        durability: Durability | None = None,
        on_loss: OnLoss = "report",
    ) -> Group:
        """Opens a group as ``Database.group`` does; its members may be in any process.

        The group is at the server, so ``on_loss="report"`` writes to the log of the server, and
        ``on_loss`` cannot be something to call: that raises ValueError.
        """
        if callable(on_loss):
            raise ValueError("on_loss: a group at a server takes 'report' or 'raise'")
        timeout = group_timeout_us(parts, member_timeout, window, window_bytes)
        filters = filter_list(filter)
        options = {
            "start": _plain_start(start),
            "parts": parts,
            "member_timeout_us": timeout,
            "window": window,
            "window_bytes": window_bytes,
            "durability": durability,
            "on_loss": on_loss,
        }

        def open_group(filters: list[str] | None, on_change: OnChange) -> int:
            more = {} if on_change == "error" else {"on_change": on_change}
            found: int = self._connection.call("group", name, filters, {**options, **more})
            return found

        def join(group: Group) -> None:
            assert isinstance(group, RemoteGroup)
            group.open_as(filters, on_change)

        lease = self._connection.lease
        make = partial(RemoteGroup, lease, name, filters, open_group, on_change)
        return self._readers.group(name, make, join)

    def drop_group(self, name: str) -> None:
        """Forgets a group and its positions.

        Raises NotFoundError if there is none of this name, and ConflictError if it has members.
        """
        self._connection.call("drop_group", name)

    def _open_replay_log(self, name: str, options: Mapping[str, Any]) -> ReplayLog:
        """Opens a replay log of the server, for ``replay.open``."""
        from topicdb.remote.client.replaying import opened

        return opened(self._connection, name, options)

    def _drop_replay_log(self, name: str) -> None:
        """Removes a replay log of the server, for ``replay.drop``."""
        self._connection.call("replay.drop", name)

    def _extent(self, filters: Sequence[str] | None) -> Extent:
        wanted = None if filters is None else list(filters)
        return record_of(Extent, self._connection.call("extent", wanted))

    def _staging(self) -> RemoteStaging:
        return RemoteStaging(self._connection)

    def _nature(self) -> str:
        return ", at a server"

    def _facts(self) -> dict[str, Any]:
        return {}  # a notebook that shows it does not wait for the server


def connect(
    urls: Sequence[str],
    *,
    token: str | None = None,
    tls_root_certs: bytes | None = None,
    tls_certificate_name: str | None = None,
    tls_pair: tuple[bytes, bytes] | None = None,
) -> RemoteDatabase:
    """Opens a database as ``topicdb.connect`` does, with files read and checked already.

    ``urls``: of the servers, which are sites of one cluster if they are several.
    """
    options: dict[str, Any] = {}
    if tls_pair is not None:
        options["cert_chain"], options["private_key"] = tls_pair
    if tls_root_certs is not None:
        options["tls_root_certs"] = tls_root_certs
    if tls_certificate_name is not None:
        options["override_hostname"] = tls_certificate_name
    return RemoteDatabase(Connection(urls, token, options))


def _hold(connection: Connection, kind: str, name: str, takeover: bool) -> Callable[[], None]:
    """Takes a name from all other clients of the server; see ``follow.readers.Hold``."""
    lease: Lease = connection.lease()
    return RemoteHandle(lease, lease.call("hold", kind, name, takeover)).close


def _plain_start(start: Start) -> Any:
    """Returns ``start`` as it travels; a relative time becomes one by the clock of this machine."""
    if start in ("earliest", "latest") or isinstance(start, Mapping):
        return dict(start) if isinstance(start, Mapping) else start
    return start_of(start)[1]


_open: weakref.WeakSet[RemoteDatabase] = weakref.WeakSet()
_process = os.getpid()


@atexit.register
def _close_all() -> None:
    # Queued appends are stored, and no thread is left when the interpreter shuts down.
    if os.getpid() == _process:
        for database in list(_open):
            database.close()

"""Where a read finds its database: a directory, or servers that offer it."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import topicdb
from topicdb import AtLeast, _core
from topicdb.arguments.times import timeout_us
from topicdb.cooperating import Extent
from topicdb.remote.connecting import Credentials, address_of, connect_as, read_credentials
from topicdb.types import AtLeastLike

File: TypeAlias = "str | os.PathLike[str]"
Made = TypeVar("Made")
BEHIND_S = 10.0
"""A task waits at most this long for a server that has what was planned."""
_PAUSE_S = 0.05


class Remote:
    """Servers that offer one database, for reads of Spark without a shared disk. Can be pickled.

    The driver reads the files of certificates, and tasks get their contents. ``repr`` tells only
    the addresses.

    Arguments:
        addresses: ``grpc+tls://host:port`` or ``grpc://host:port``, separated by commas or in a
            list. If there are several, they are replicas of the same database. The driver takes
            the first one that answers, and a task one of its own host, or else any.
        token: as in ``topicdb.connect``.
        tls_root_certs: as in ``topicdb.connect``.
        tls_certificate_name: as in ``topicdb.connect``.
        tls_certificate: as in ``topicdb.connect``.
        tls_key: as in ``topicdb.connect``.
        insecure: as in ``topicdb.connect``.

    Raises:
        ValueError: an address or a combination of arguments is wrong, or a file has no
            certificates.
        OSError: a file cannot be read.

    Example:
        >>> topicdb.spark.Remote("grpc://localhost:8815, grpc://localhost:8816")
        Remote('grpc://localhost:8815, grpc://localhost:8816')
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        token: str | None = None,
        tls_root_certs: File | bytes | None = None,
        tls_certificate_name: str | None = None,
        tls_certificate: File | None = None,
        tls_key: File | None = None,
        insecure: bool = False,
    ) -> None:
        urls = addresses.split(",") if isinstance(addresses, str) else addresses
        self.addresses = tuple(
            address_of(url.strip(), has_token=token is not None, insecure=insecure) for url in urls
        )
        if not self.addresses or len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"remote: expected addresses, each once, got {addresses!r}")
        self.credentials: Credentials = read_credentials(
            token=token,
            tls_root_certs=tls_root_certs,
            tls_certificate_name=tls_certificate_name,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
        )

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"

    def __str__(self) -> str:
        return ", ".join(self.addresses)


Place: TypeAlias = "str | Remote"
"""The directory of a database, or its servers. Its ``str`` is the name for messages."""


def place_of(path: str | None, remote: str | Remote | None) -> Place:
    """Returns the place that one of two arguments names. Raises ValueError for both or neither."""
    if (path is None) == (remote is None):
        raise ValueError("path and remote: give one of them: a directory, or servers that offer it")
    if path is not None:
        return os.path.abspath(path)  # tasks may run in another directory
    return remote if isinstance(remote, Remote) else Remote(str(remote))


@dataclass(frozen=True)
class Wanted:
    """What a task reads: a shard of the database with this id, up to a commit.

    ``filters`` are those of the read; None: every topic.
    """

    database: str
    shard: int
    until: int
    filters: list[str] | None = field(repr=False)


def open_to_plan(place: Place) -> topicdb.Database:
    """Opens the database on the driver: read-only, or at the first server that answers.

    A server that reads what another process writes shows what is there now.

    Raises what ``topicdb.open`` and ``topicdb.connect`` do; UnavailableError, which names all
    servers, if none answers.
    """
    if isinstance(place, str):
        return topicdb.open(place, mode="r")
    return _first(place, place.addresses, lambda database: database.refresh())


def planned(
    place: Place,
    make: Callable[[topicdb.Database, AtLeastLike | None], Made],
    at_least: AtLeastLike | None,
) -> Made:
    """Returns what ``make`` returns on the driver, with the database and what its reads must see.

    At servers the database is at the first one that answers and sees that. Each may take its part
    of the time.

    Raises what ``open_to_plan`` and ``make`` do; StaleError or NoQuorumError if no server sees it.
    """
    if isinstance(place, str):
        with open_to_plan(place) as database:
            return make(database, at_least)
    made: list[Made] = []
    seen = _share(at_least, len(place.addresses))

    def plan(database: topicdb.Database) -> None:
        database.refresh()
        made.append(make(database, seen))

    _first(place, place.addresses, plan).close()
    return made[-1]


def _share(at_least: AtLeastLike | None, servers: int) -> AtLeastLike | None:
    """Returns what a read must see at one of these servers, with its part of the time."""
    if at_least is None:
        return None
    given = at_least if isinstance(at_least, AtLeast) else AtLeast(at_least)
    wait_us = timeout_us(given.timeout, what="at_least: timeout")
    return given if wait_us is None else AtLeast(given.seen, wait_us / servers / 1e6)


class _BehindError(topicdb.StorageError):
    """A server does not have what was planned, or not yet."""


@contextmanager
def open_to_read(place: Place, wanted: Wanted) -> Iterator[topicdb.Database]:
    """Opens the database for a task, which reads what is wanted, and closes it at the end.

    At servers it takes one that has all of it: one of this host, or else any, so that the tasks use
    all of them. If all that answer are behind, as sites of a cluster may be for a moment, it waits.

    Raises what ``open_to_plan`` does; ValueError, which names the server, if it has another
    database; StorageError if the shard does not reach so far anywhere in time.
    """
    if isinstance(place, str):
        database = topicdb.open(place, mode="r", only_shards=[wanted.shard])
    else:
        database = _first_that_has(place, wanted)
    with database:
        yield database


def _first_that_has(remote: Remote, wanted: Wanted) -> topicdb.Database:
    give_up_at = time.monotonic() + BEHIND_S
    while True:
        try:
            addresses = nearest_first(remote.addresses)
            return _first(remote, addresses, lambda database: _check(database, wanted))
        except _BehindError as error:
            if time.monotonic() >= give_up_at:
                raise topicdb.StorageError(str(error)) from None
        time.sleep(_PAUSE_S)


@contextmanager
def open_to_write(place: Place) -> Iterator[str | topicdb.Database]:
    """Gives what ``topicdb.jobs`` writes to: the directory, or the database at the server.

    The sites of a cluster may be several servers. Any one of them does, and another one if that is
    lost.

    Raises what ``topicdb.connect`` does; ValueError for several servers that are no sites of one
    cluster, since only one process writes a database.
    """
    if isinstance(place, str):
        yield place
        return
    addresses = nearest_first(place.addresses)
    with connect_as(addresses, place.credentials) as database:
        if len(addresses) > 1 and database.cluster is None:
            raise ValueError(
                f"option remote={str(place)!r}: a write goes to one server, since only one process "
                "writes a database: give its address. Only the sites of a cluster may be several"
            )
        yield database


def nearest_first(addresses: Sequence[str]) -> list[str]:
    """Returns all addresses: those of this host first, otherwise in random order."""
    ordered = random.sample(addresses, len(addresses))
    return sorted(ordered, key=lambda url: not _is_here(url)) if len(ordered) > 1 else ordered


def _is_here(url: str) -> bool:
    """Returns whether a server is on this host: only addresses of this host can be bound."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: tuple[Any, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as here:
            here.bind(address)
    except OSError:
        return False
    return True


def check_writable(place: Place) -> None:
    """Raises AccessError if the token may not write; what ``topicdb.connect`` does, too."""
    with open_to_write(place) as target:
        if not isinstance(target, str):
            target._staging().check()


def shard_by_of(place: Place) -> str:
    """Returns what chooses the shard of a message: "topic" or "key".

    Raises NotFoundError if there is no database, and what ``topicdb.connect`` does.
    """
    with open_to_write(place) as target:
        schema = _core.read_schema(target) if isinstance(target, str) else target.schema
        found: str = schema["shard_by"]
        return found


def check_reaches(extent: Extent, wanted: Wanted, name: str) -> None:
    """Raises StorageError, which names the shard, if it ends before what is wanted."""
    if extent.serials.get(wanted.shard, -1) < wanted.until:
        raise topicdb.StorageError(
            f"shard {wanted.shard} of {name} ends before commit {wanted.until}, which the query "
            "has planned to read: was the database replaced, or restored from a copy?"
        )


def _check(database: topicdb.Database, wanted: Wanted) -> None:
    """Raises ValueError for another database, _BehindError if it lacks what is wanted."""
    extent = database._extent(wanted.filters)
    if extent.database != wanted.database:
        raise ValueError(
            f"option remote: {database.path} has another database than the query was planned with: "
            "all servers of the list must offer the same one"
        )
    if extent.serials.get(wanted.shard, -1) < wanted.until:
        database.refresh()  # a replica that reads what another process writes
        try:
            check_reaches(database._extent(wanted.filters), wanted, database.path)
        except topicdb.StorageError as error:
            raise _BehindError(str(error)) from None


def _first(
    remote: Remote, addresses: Sequence[str], check: Callable[[topicdb.Database], None]
) -> topicdb.Database:
    """Returns the database at the first of these servers that answers and passes the check.

    A server that is behind is like one that does not answer. If there is none, it raises what the
    last server that answered said, or UnavailableError that names all of them.
    """
    behind: topicdb.Error | None = None
    reasons: list[str] = []
    for address in addresses:
        try:
            database = connect_as(address, remote.credentials)
        except topicdb.UnavailableError as error:
            reasons.append(str(error))
            continue
        try:
            check(database)
        except (topicdb.StaleError, topicdb.NoQuorumError, topicdb.StorageError) as error:
            database.close()
            behind = error
        except topicdb.UnavailableError as error:
            database.close()
            reasons.append(str(error))
        except BaseException:
            database.close()
            raise
        else:
            return database
    if behind is not None:
        raise behind
    raise topicdb.UnavailableError(f"no server of {remote} answers: {'; '.join(reasons)}")

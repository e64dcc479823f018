"""``topicdb.connect`` and ``topicdb.serve``; importing them does not import pyarrow."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topicdb.creating import settled_path
from topicdb.database.database import Database
from topicdb.remote import addresses

if TYPE_CHECKING:
    from topicdb.remote.client.database import RemoteDatabase
    from topicdb.remote.server.handles import Limits
    from topicdb.remote.server.server import Server

DEFAULT_PORT = 8815
_SCHEMES = ("grpc", "grpc+tls")


def connect(
    url: str | Sequence[str],
    *,
    token: str | None = None,
    tls_root_certs: str | os.PathLike[str] | bytes | None = None,
    tls_certificate_name: str | None = None,
    tls_certificate: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    insecure: bool = False,
) -> Database:
    """Opens the database that ``topicdb serve`` offers at ``url``; its API is that of ``open``.

    Arguments:
        url: ``grpc+tls://host:port``, or ``grpc://host:port`` without TLS. Everybody on the way can
            read what travels without TLS, so use that within one machine only. The port is 8815
            unless given. Several of them are the servers of sites of one cluster: any one that
            answers is enough. When it is gone, calls go to another one, and an append that was on
            its way is sent again, and stored once.
        token: the token, as ``topicdb token new`` printed it. None: for a server without tokens.
        tls_root_certs: PEM file, or its bytes, of the certificate authority that vouches for the
            server. None: the well-known authorities.
        tls_certificate_name: the name in the certificate of the server, if that is not ``host``.
        tls_certificate: PEM file of the certificate of this client, for a server that was given
            ``tls_client_ca``. Give it together with ``tls_key``, or neither.
        tls_key: PEM file of the private key of that certificate.
        insecure: sends the token without TLS to another machine, too.

    Returns:
        The database. Many threads may use it, but not a forked child, which connects anew. Close
        it, or use ``with``.

    Raises:
        UnavailableError: nobody answers there, or not with TLS, or one side does not trust the
            certificate of the other, or the server speaks another version of the protocol.
        AccessError: the token is missing, unknown or has expired.
        ValueError: the URL or a combination of arguments is wrong, or a file has no certificates.
        OSError: a file cannot be read.
        ModuleNotFoundError: pyarrow is missing: install ``topicdb[serve]``.

    Example:
        >>> with topicdb.serve(db) as server, topicdb.connect(server.url) as remote:
        ...     remote.scan("site/#").count()
        2
    """
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise ValueError("url: expected at least one")
    found = [address_of(one, has_token=token is not None, insecure=insecure) for one in urls]
    _require()
    credentials = read_credentials(
        token=token,
        tls_root_certs=tls_root_certs,
        tls_certificate_name=tls_certificate_name,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )
    return connect_as(found, credentials)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows to a server, and by what it knows the server. Can be pickled.

    It has the contents of files, so that a task elsewhere needs none of them. ``repr`` tells none
    of it.

    Attributes:
        token: the token; None: for a server without tokens.
        tls_root_certs: the PEM text of the authorities that vouch for the server.
        tls_certificate_name: the name in the certificate of the server, if it is not its host.
        tls_pair: the PEM texts of the certificate of the client and of its private key.
    """

    token: str | None = field(default=None, repr=False)
    tls_root_certs: bytes | None = field(default=None, repr=False)
    tls_certificate_name: str | None = field(default=None, repr=False)
    tls_pair: tuple[bytes, bytes] | None = field(default=None, repr=False)


def address_of(url: str, *, has_token: bool, insecure: bool) -> str:
    """Returns the whole address of a server, with its port.

    Raises ValueError, which names the URL, if it is none, or if a token would travel for everybody
    to read.
    """
    scheme, host, port = _parts(url)
    if has_token and scheme == "grpc" and not insecure and not _is_local(host):
        raise ValueError(
            f"url: {url} would send the token for everybody to read: use grpc+tls://, or "
            "insecure=True"
        )
    return f"{scheme}://{_bracketed(host)}:{port}"


def read_credentials(
    *,
    token: str | None,
    tls_root_certs: str | os.PathLike[str] | bytes | None,
    tls_certificate_name: str | None,
    tls_certificate: str | os.PathLike[str] | None,
    tls_key: str | os.PathLike[str] | None,
) -> Credentials:
    """Reads and checks the files; the arguments, and what it raises, are those of ``connect``."""
    certs = None
    if tls_root_certs is not None:
        certs = addresses.read_authorities(tls_root_certs, "tls_root_certs")
    return Credentials(token, certs, tls_certificate_name, _pair(tls_certificate, tls_key))


def connect_as(address: str | Sequence[str], credentials: Credentials) -> RemoteDatabase:
    """Opens the database at addresses that ``address_of`` gave; raises what ``connect`` does."""
    _require()
    from topicdb.remote.client import database

    return database.connect(
        [address] if isinstance(address, str) else address,
        token=credentials.token,
        tls_root_certs=credentials.tls_root_certs,
        tls_certificate_name=credentials.tls_certificate_name,
        tls_pair=credentials.tls_pair,
    )


def serve(
    database: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls_certificate: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    tls_client_ca: str | os.PathLike[str] | None = None,
    tokens: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    snapshots: str | os.PathLike[str] | None = None,
) -> Server:
    """Offers an open database to other processes; ``topicdb serve`` does it for a directory.

    Arguments:
        database: stays open. Close the server before it.
        host: the address to listen at. By default only this machine can connect.
        port: 0 takes any free port; ``Server.port`` says which.
        tls_certificate: PEM file of the certificate of the server, with its chain. Give it together
            with ``tls_key``. None: no TLS.
        tls_key: PEM file of the private key of that certificate.
        tls_client_ca: PEM file of the certificate authority that vouches for clients. Only clients
            that show such a certificate may connect. None: clients need no certificate.
        tokens: the file that ``topicdb token`` writes. None: everybody may do everything.
        insecure: allows a ``host`` that other machines can reach without TLS and tokens.
        limits: what clients may use; see ``topicdb.remote.server.handles.Limits``. None: its
            defaults.
        snapshots: the folder in which clients may have snapshots made. None: they may not.

    Returns:
        The server, which is up already. Close it, or use ``with``.

    Raises:
        ValueError: arguments do not go together, a file is no certificate, ``tokens`` has a
            mistake, or other machines can reach ``host`` without TLS and tokens.
        OSError: a file cannot be read.
        StorageError: the server cannot listen there, for example because the port is taken.
        ModuleNotFoundError: pyarrow is missing: install ``topicdb[serve]``.

    Example:
        >>> with topicdb.serve(db) as server:
        ...     server.url.startswith("grpc://127.0.0.1:")
        True
    """
    pair = _pair(tls_certificate, tls_key)
    if tls_client_ca is not None and pair is None:
        raise ValueError("tls_client_ca goes with tls_certificate and tls_key")
    if not insecure and not _is_local(host) and (tls_certificate is None or tokens is None):
        raise ValueError(
            f"host: {host} can be reached from other machines: give tls_certificate, tls_key and "
            "tokens, or insecure=True"
        )
    _require()
    from topicdb.remote.server.handles import Limits
    from topicdb.remote.server.server import Server, Tls

    tls = None
    if pair is not None:
        clients = None
        if tls_client_ca is not None:
            clients = addresses.read_authorities(tls_client_ca, "tls_client_ca")
        tls = Tls(*pair, clients)
    addresses.check_address(host, port)
    folder = None if snapshots is None else settled_path(snapshots)
    return Server(
        database,
        host,
        port,
        tls=tls,
        tokens=tokens,
        limits=limits or Limits(),
        snapshots=folder,
    )


def _pair(
    certificate: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None
) -> tuple[bytes, bytes] | None:
    if (certificate is None) != (key is None):
        raise ValueError("tls_certificate and tls_key: give both, or none")
    if certificate is None or key is None:
        return None
    return addresses.read_pair(certificate, key, ("tls_certificate", "tls_key"))


def _require() -> None:
    try:
        import pyarrow.flight  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'databases of other processes need pyarrow; run: pip install "topicdb[serve]"',
            name=error.name,
        ) from None


def _parts(url: str) -> tuple[str, str, int]:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ValueError(f"url: expected grpc+tls://host:port or grpc://host:port, got {url!r}")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or "]" in port:  # no port
        host, port = rest.rstrip("/"), str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise ValueError(f"url: expected grpc+tls://host:port or grpc://host:port, got {url!r}")
    return scheme, host, int(port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

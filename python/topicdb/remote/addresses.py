"""Checks addresses and certificates, and says in plain words why a connection fails."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import TypeAlias

from topicdb import _core

Path: TypeAlias = "str | os.PathLike[str]"
_TAKEN = "another program listens there: end it, or choose another port"


def check_address(host: str, port: int) -> None:
    """Raises StorageError, which says why, if no server can listen at this address."""
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _core.StorageError(
            f"cannot listen at {where}: the name {host!r} is not known: {error.strerror or error}"
        ) from None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
                probe.listen(1)
            except OSError as error:
                why = _TAKEN if error.errno == errno.EADDRINUSE else error.strerror
                raise _core.StorageError(f"cannot listen at {where}: {why}") from None


def read_pair(certificate: Path, key: Path, names: tuple[str, str]) -> tuple[bytes, bytes]:
    """Returns the PEM text of a certificate with its chain, and of its private key.

    ``names`` are the names of the two options, for messages. Raises OSError if a file cannot be
    read, and ValueError unless the files are a certificate and its private key without a password.
    """
    with open(certificate, "rb") as file:
        certificate_pem = file.read()
    with open(key, "rb") as file:
        key_pem = file.read()
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(
            f"{names[0]} {os.fspath(certificate)}, {names[1]} {os.fspath(key)}: expected a "
            f"certificate and its private key without a password, as PEM: {_reason(error)}"
        ) from None
    return certificate_pem, key_pem


def read_authorities(source: Path | bytes, name: str) -> bytes:
    """Returns the PEM text of certificate authorities, from a file or from the bytes as given.

    ``name`` is the name of the option, for messages. Raises OSError if the file cannot be read, and
    ValueError if the text has no certificates.
    """
    where = name
    data = source if isinstance(source, bytes) else b""
    if not isinstance(source, bytes):
        where = f"{name} {os.fspath(source)}"
        with open(source, "rb") as file:
            data = file.read()
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        text = data.decode("latin-1").encode("ascii", "replace").decode()  # comments have any bytes
        context.load_verify_locations(cadata=text)
        found = context.cert_store_stats()["x509"]
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{where}: expected certificates, as PEM: {_reason(error)}") from None
    if not found:
        raise ValueError(f"{where}: expected certificates, as PEM: there are none")
    return data


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


def why_not(url: str, text: str) -> str:
    """Returns ``text``, an error of gRPC or TLS, in plain words for a client that connects."""
    is_tls = url.startswith("grpc+tls")
    host = url.partition("://")[2].rpartition(":")[0]
    low = text.lower()
    for words, is_so, meaning in _MEANINGS:
        if is_so in (None, is_tls) and any(word in low for word in words):
            return f"{url}: {meaning.format(host=host)} ({_last(text)})"
    return f"{url}: {text}"


def _last(text: str) -> str:
    return text.rpartition("last error: ")[2].strip()


_MEANINGS: list[tuple[tuple[str, ...], bool | None, str]] = [
    (
        ("connection refused",),
        None,
        "nobody listens there: is topicdb serve running, at this host and port?",
    ),
    (
        ("domain name not found", "address lookup failed", "hostname lookup error"),
        None,
        "the name {host} is not known",
    ),
    (
        ("hostname verification", "peer name", "is not in peer certificate"),
        True,
        "the certificate of the server is not for {host}: connect by the name that it has, or give "
        "that as tls_certificate_name",
    ),
    (
        ("certificate verify failed",),
        True,
        "the certificate of the server is of nobody that this client trusts: give the certificate "
        "of who made it as tls_root_certs",
    ),
    (("wrong version number",), True, "the server speaks no TLS there: use grpc://"),
    (
        ("certificate required", "handshake failure", "bad certificate", "unknown ca"),
        True,
        "the server wants a certificate of the client that it trusts: give tls_certificate and "
        "tls_key",
    ),
    (
        ("socket closed", "connection reset", "broken pipe"),
        False,
        "the server closed the connection at once: it may want TLS (grpc+tls://), or be another "
        "program",
    ),
    (
        ("socket closed", "connection reset", "broken pipe"),
        True,
        "the server closed the connection at once: it may want a certificate of the client "
        "(tls_certificate, tls_key), or be another program",
    ),
    (
        ("deadline exceeded", "timed out"),
        None,
        "there was no answer in time: it may be another program, or the way there is shut",
    ),
]

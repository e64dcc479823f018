"""Addresses of brokers: a host, or a URL such as ``mqtts://user:password@broker.example:8884``."""

from __future__ import annotations

import ssl
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

PORT, PORT_TLS = 1883, 8883
_TLS_BY_SCHEME = {"mqtt": False, "mqtts": True}
_PORT_MAX = 65_535
_FORM = "mqtt[s]://[USER:PASSWORD@]HOST[:PORT]"


class Broker(NamedTuple):
    """A broker to connect to.

    ``tls`` is None without TLS. ``login`` is user name and password, or None.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    login: tuple[str, str | None] | None

    @property
    def address(self) -> str:
        """Host and port, as errors name them."""
        return address_text(self.host, self.port)


def address_text(host: str, port: int) -> str:
    """Returns ``host:port``, or ``[::1]:port`` for an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def broker_of(
    host: str,
    port: int | None = None,
    tls: bool | ssl.SSLContext = False,
    username: str | None = None,
    password: str | None = None,
) -> Broker:
    """Returns the broker that these arguments name.

    ``host`` is a name, an address, or a URL: ``mqtt://`` or ``mqtts://`` (with TLS),
    ``user:password@``, host, ``:port``. ``port`` None: 1883, or 8883 with TLS. ``tls``: True, or a
    context of your own.

    Raises ValueError if the URL is malformed, or an argument repeats or contradicts the URL. No
    message shows a password.
    """
    if "://" in host:
        url = _parsed(host)
        port, tls = _port_of(url, port), _tls_of(url, tls)
        username, password = _login_of(url, username, password)
        host = url.hostname or ""
    _check_host(host)
    if password is not None and username is None:
        raise ValueError("password: it goes with username")
    context = ssl.create_default_context() if tls is True else tls or None
    port = port if port is not None else PORT if context is None else PORT_TLS
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"port: expected 1 to {_PORT_MAX}, got {port}")
    return Broker(host, port, context, None if username is None else (username, password))


def split_address(text: str) -> tuple[str, int | None]:
    """Returns host and port of ``HOST``, ``HOST:PORT`` or ``[::1]:PORT``.

    A URL is returned unchanged, for ``broker_of``, with None. Raises ValueError for any other text.
    """
    if "://" in text:
        _parsed(text)
        return text, None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    elif not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _PORT_MAX:
        raise ValueError(f"expected HOST[:PORT], got {text!r}; or a URL: {_FORM}")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise ValueError(f"expected HOST[:PORT], got {text!r}; or a URL: {_FORM}")
    return host, int(port) if port else None


def named(error: OSError, address: str) -> OSError:
    """Returns the same error, with the broker's address in its text."""
    if address not in str(error):
        if isinstance(error.strerror, str):
            error.strerror = f"{address}: {error.strerror}"
        else:
            error.args = (f"{address}: {error}",)
    return error


def _parsed(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ValueError(f"host: {_without_login(text)!r} is no URL of a broker: {error}") from None
    shown = _without_login(text)
    if url.scheme not in _TLS_BY_SCHEME:
        raise ValueError(f"host: expected mqtt:// or mqtts:// (with TLS), got {shown!r}")
    if not url.hostname or port == 0:
        raise ValueError(f"host: expected {_FORM}, got {shown!r}")
    if url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError(
            f"host: the URL of a broker ends with its host and port, got {shown!r}; topics and "
            "other options have arguments of their own"
        )
    return url


def _without_login(text: str) -> str:
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _port_of(url: SplitResult, port: int | None) -> int | None:
    if port is not None and url.port is not None and port != url.port:
        raise ValueError(f"port: {port} is not that of the URL, {url.port}")
    return url.port if port is None else port


def _tls_of(url: SplitResult, tls: bool | ssl.SSLContext) -> bool | ssl.SSLContext:
    if tls and not _TLS_BY_SCHEME[url.scheme]:
        raise ValueError("tls: mqtt:// is without TLS; write mqtts://")
    return tls or _TLS_BY_SCHEME[url.scheme]


def _login_of(
    url: SplitResult, username: str | None, password: str | None
) -> tuple[str | None, str | None]:
    if url.username is None and url.password is None:
        return username, password
    if username is not None or (password is not None and url.password is not None):
        raise ValueError("username, password: the URL has them already")
    if not url.username:
        raise ValueError("host: the URL has a password and no user name")
    return unquote(url.username), password if url.password is None else unquote(url.password)


def _check_host(host: str) -> None:
    if not host or "\0" in host:
        raise ValueError(f"host: expected the name or address of a broker, got {host!r}")

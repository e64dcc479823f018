"""The arguments of a publisher that say how to reach the broker."""

from __future__ import annotations

import os
import ssl
from typing import Any

from topicdb.arguments.wrong_types import wrong_type
from topicdb.mqtt.address import broker_of, split_address
from topicdb.publisher.messages import Will, check_quality, check_topic, payload_bytes

PathLike = str | os.PathLike[str]


def host_and_port(url: str) -> tuple[str, int | None]:
    """Returns what ``MqttSink`` takes. Raises ValueError, naming ``url``, for what is no broker."""
    if not isinstance(url, str):
        raise wrong_type("url", "str", url)
    try:
        host, port = split_address(url)
        broker_of(host, port)
    except ValueError as error:
        raise ValueError(f"url: {str(error).removeprefix('host: ')}") from None
    return host, port


def tls_of(
    url: str,
    tls: ssl.SSLContext | None,
    ca: PathLike | None,
    cert: PathLike | None,
    key: PathLike | None,
) -> ssl.SSLContext | None:
    """Returns the TLS context that these arguments ask for; None: that of the URL.

    Raises ValueError for arguments that contradict each other, FileNotFoundError and
    ``ssl.SSLError``, naming the file.
    """
    given = {"ca": ca, "cert": cert, "key": key}
    names = [name for name, value in given.items() if value is not None]
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise wrong_type("tls", "ssl.SSLContext or None", tls)
    if (tls is not None or names) and not url.startswith("mqtts://"):
        raise ValueError(
            f"{', '.join(names) or 'tls'}: only a URL that begins with mqtts:// uses TLS"
        )
    if not names:
        return tls
    if tls is not None:
        raise ValueError(f"tls: give either a context or {', '.join(names)}")
    if key is not None and cert is None:
        raise ValueError("key: it goes with cert")
    for name, path in given.items():
        if path is not None and not os.path.isfile(path):
            raise FileNotFoundError(f"{name}: there is no file {os.fspath(path)!r}")
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        files = ", ".join(f"{name}={os.fspath(given[name] or '')!r}" for name in names)
        raise ssl.SSLError(f"{files}: no certificate or key that can be used: {error}") from error
    return context


def will_of(will: Any) -> Will | None:
    """Returns the will that a user gave, checked. Raises TopicError, ValueError or TypeError."""
    if will is None:
        return None
    if not isinstance(will, tuple) or not 1 <= len(will) <= len(Will._fields):
        raise wrong_type("will", "a tuple (topic, payload, qos, retain)", will)
    found = Will(*will)
    check_topic(found.topic, "will: topic")
    check_quality(found.qos, found.retain)
    return found._replace(payload=payload_bytes(found.payload))

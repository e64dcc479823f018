"""What commands need that talk to an MQTT broker."""

from __future__ import annotations

import os
import ssl
from enum import Enum
from pathlib import Path

import typer

from topicdb.cli.errors import UserError

PASSWORD_VARIABLE = "TOPICDB_MQTT_PASSWORD"


class ProtocolChoice(str, Enum):
    """Of MQTT."""

    V5 = "5"
    V311 = "3.1.1"


def broker_address(text: str) -> tuple[str, int | None]:
    """Of HOST, HOST:PORT, [::1]:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    elif not (port.isascii() and port.isdigit()) or not 0 < int(port) <= 65_535:
        raise typer.BadParameter(f"expected HOST[:PORT], got {text!r}", param_hint="--broker")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise typer.BadParameter(f"expected HOST[:PORT], got {text!r}", param_hint="--broker")
    return host, int(port) if port else None


def tls_of(tls: bool, ca: Path | None) -> bool | ssl.SSLContext:
    if ca is None:
        return tls
    if not tls:
        raise typer.BadParameter("goes with --tls", param_hint="--ca")
    try:
        return ssl.create_default_context(cadata=ca.read_text(encoding="utf-8"))
    except (ssl.SSLError, ValueError) as error:
        raise UserError(f"{ca}: no certificates: {error}") from None


def password_of(username: str | None, file: Path | None) -> str | None:
    if username is None:
        if file is not None:
            raise typer.BadParameter("goes with --username", param_hint="--password-file")
        return None
    if file is not None:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    return os.environ.get(PASSWORD_VARIABLE)

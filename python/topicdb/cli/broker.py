"""What the commands that talk to an MQTT broker share."""

from __future__ import annotations

import os
import ssl
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from topicdb.arguments.times import duration_us
from topicdb.cli.errors import UserError
from topicdb.mqtt.address import split_address

PASSWORD_VARIABLE = "TOPICDB_MQTT_PASSWORD"
BrokerCaOption = Annotated[
    Path | None,
    typer.Option(
        "--broker-ca",
        metavar="FILE",
        help="Trust the certificates of this PEM file for the broker. By default the system's are "
        "trusted.",
    ),
]


class ProtocolChoice(str, Enum):
    """Versions of MQTT."""

    V5 = "5"
    V311 = "3.1.1"


def broker_address(text: str) -> tuple[str, int | None]:
    """Returns host and port of HOST, HOST:PORT or [::1]:PORT.

    A URL is returned whole as the host, without a port: the API understands it. Raises
    typer.BadParameter if the text is none of these.
    """
    try:
        return split_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker") from None


def give_up_after_s(text: str) -> float | None:
    """Returns the seconds for which ``30``, ``5m`` or ``never`` (None) stands.

    Raises typer.BadParameter if the text is none of these.
    """
    if text == "never":
        return None
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else duration_us(text) / 1e6
    except ValueError:
        raise typer.BadParameter(
            f"expected seconds, a duration such as 5m, or never, got {text!r}",
            param_hint="--give-up-after",
        ) from None


def tls_of(tls: bool, ca: Path | None) -> bool | ssl.SSLContext:
    """Returns the ``tls`` of the API: of --tls alone, or with the certificates of --broker-ca."""
    if ca is None:
        return tls
    if not tls:
        raise typer.BadParameter("goes with --tls", param_hint="--broker-ca")
    try:
        return ssl.create_default_context(cadata=ca.read_text(encoding="utf-8"))
    except (ssl.SSLError, ValueError) as error:
        raise UserError(f"{ca}: no certificates: {error}") from None


def password_of(username: str | None, file: Path | None) -> str | None:
    """Returns the password from the file, else from the environment, or None if there is none."""
    if username is None:
        if file is not None:
            raise typer.BadParameter("goes with --username", param_hint="--password-file")
        return None
    if file is not None:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    return os.environ.get(PASSWORD_VARIABLE)

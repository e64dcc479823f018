"""``topicdb replay``: what is stored, once more."""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

import topicdb
from topicdb.cli.errors import UserError
from topicdb.cli.options import EndOption, FilterArgument, PathArgument, StartOption, time_of
from topicdb.cli.output import time_text
from topicdb.replay.broker import BrokerReplay
from topicdb.replay.pacing import parse_rate
from topicdb.replay.progress import Progress
from topicdb.replay.remap import Remap

app = typer.Typer(no_args_is_help=True, help="Replays what is stored.")

PASSWORD_VARIABLE = "TOPICDB_MQTT_PASSWORD"
_SHOW_S = 0.25
_REPORT_S = 1.0
_STOP_S = 10.0


class QosChoice(str, Enum):
    """Of all messages, or as a bridge has stored it."""

    ZERO = "0"
    ONE = "1"
    TWO = "2"
    STORED = "stored"


class RetainChoice(str, Enum):
    """Of all messages, or as a bridge has stored it."""

    NO = "no"
    YES = "yes"
    STORED = "stored"


class ProtocolChoice(str, Enum):
    """Of MQTT."""

    V5 = "5"
    V311 = "3.1.1"


_RETAIN = {RetainChoice.NO: False, RetainChoice.YES: True, RetainChoice.STORED: None}


@app.callback()
def replay_command() -> None:
    """Replays what is stored."""


@app.command()
def run(
    path: PathArgument,
    broker: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="Where; port 1883, or 8883 with --tls.")
    ],
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    rate: Annotated[str, typer.Option(help="1x (as it was), 10x, 0.5x, 500/s, or max.")] = "max",
    qos: Annotated[QosChoice, typer.Option(help="Of all messages, or stored.")] = QosChoice.ONE,
    retain: Annotated[
        RetainChoice, typer.Option(help="no: leaves alone what the broker retains.")
    ] = RetainChoice.NO,
    remap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER=TOPIC", help="Other topics: 'site/a/#=test/a/#'. May be repeated."
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="With TLS.")] = False,
    ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust, PEM; else the system's.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="At the broker.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help=f"Else the variable {PASSWORD_VARIABLE}.")
    ] = None,
    client_id: Annotated[str | None, typer.Option(help="By default one of its own.")] = None,
    protocol: Annotated[ProtocolChoice, typer.Option(help="Of MQTT.")] = ProtocolChoice.V5,
    unconfirmed_max: Annotated[
        int, typer.Option(min=1, max=65_535, help="Messages on their way at once.")
    ] = 1_000,
    skip_refused: Annotated[
        bool,
        typer.Option("--skip-refused", help="Pass over what the broker refuses, and count it."),
    ] = False,
    give_up_after: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds of failures until it ends; else it tries for ever."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a second, and one at the end.")
    ] = False,
) -> None:
    """Publish stored messages to an MQTT broker, in the order of their timestamps.

    Each at least once. Ctrl-C ends it orderly, and tells with which --start it goes on.
    """
    host, port = _address(broker)
    options: dict[str, Any] = {
        "start": time_of(start),
        "end": time_of(end),
        "rate": _checked_rate(rate),
        "qos": None if qos is QosChoice.STORED else int(qos.value),
        "retain": _RETAIN[retain],
        "remap": _remap_of(remap or []),
        "refused": "skip" if skip_refused else "stop",
        "give_up_after": give_up_after,
        "protocol": protocol.value,
        "tls": _tls_of(tls, ca),
        "username": username,
        "password": _password(username, password_file),
        "client_id": client_id,
        "unconfirmed_max": unconfirmed_max,
    }
    with topicdb.open(path, mode="r") as database, _stopped_by_signals() as stopped:
        try:
            replay = BrokerReplay(database, filter, host=host, port=port, **options)
        except ImportError as error:
            raise UserError(str(error)) from None
        with replay:
            (_report if as_json else _show)(replay, stopped)
        _conclude(replay, as_json)


def _report(replay: BrokerReplay, stopped: threading.Event) -> None:
    while not _over(replay, stopped, _REPORT_S):
        _print_json(replay.progress())


def _show(replay: BrokerReplay, stopped: threading.Event) -> None:
    """A line on stderr, if that is a terminal."""
    bars = Bars(
        SpinnerColumn(),
        TextColumn("{task.fields[line]}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True, markup=False, highlight=False),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bars.add_task("", total=None, line="", left="")
    with bars:
        while not _over(replay, stopped, _SHOW_S):
            progress = replay.progress()
            bars.update(
                task,
                completed=progress.done,
                total=progress.total,
                line=_line(progress),
                left=_left(progress),
            )


def _over(replay: BrokerReplay, stopped: threading.Event, wait_s: float) -> bool:
    """Waits so long; whether it has ended, or is to be."""
    if stopped.is_set():
        return True
    return replay.wait(wait_s)


def _line(progress: Progress) -> str:
    total = "?" if progress.total is None else f"{progress.total:,}"
    text = (
        f"{progress.state}  {time_text(progress.position)}  {progress.done:,}/{total} messages"
        f"  {progress.per_s:,.0f}/s"
    )
    if progress.state == "retrying":
        text += f"  ({progress.last_error})"
    return text


def _left(progress: Progress) -> str:
    if progress.eta_s is None:
        return ""
    minutes, seconds = divmod(round(progress.eta_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left"


def _print_json(progress: Progress) -> None:
    print(json.dumps(progress._asdict(), ensure_ascii=False), flush=True)


def _conclude(replay: BrokerReplay, as_json: bool) -> None:
    progress = replay.progress()
    if as_json:
        _print_json(progress)
    go_on = f"go on with --start {progress.position} ({time_text(progress.position)})"
    if progress.state == "failed":
        raise UserError(f"{progress.last_error}; {go_on}")
    if progress.state == "stopped":
        raise KeyboardInterrupt(f"stopped after {progress.done:,} messages; {go_on}")
    if not as_json:
        print(_summary(progress))


def _summary(progress: Progress) -> str:
    text = f"replayed {progress.done:,} messages in {progress.elapsed_s:.1f} s"
    if progress.refused:
        text += f"; the broker refused {progress.refused:,}"
    if progress.sent_again:
        text += f"; sent {progress.sent_again:,} again, after {progress.reconnects:,} reconnections"
    return text


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _address(text: str) -> tuple[str, int | None]:
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


def _checked_rate(text: str) -> str:
    try:
        parse_rate(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--rate") from None
    return text


def _remap_of(texts: list[str]) -> Remap | None:
    if not texts:
        return None
    try:
        return Remap.parse(texts)
    except (ValueError, topicdb.TopicError) as error:
        raise typer.BadParameter(str(error), param_hint="--remap") from None


def _tls_of(tls: bool, ca: Path | None) -> bool | ssl.SSLContext:
    if ca is None:
        return tls
    if not tls:
        raise typer.BadParameter("goes with --tls", param_hint="--ca")
    try:
        return ssl.create_default_context(cadata=ca.read_text(encoding="utf-8"))
    except (ssl.SSLError, ValueError) as error:
        raise UserError(f"{ca}: no certificates: {error}") from None


def _password(username: str | None, file: Path | None) -> str | None:
    if username is None:
        if file is not None:
            raise typer.BadParameter("goes with --username", param_hint="--password-file")
        return None
    if file is not None:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    return os.environ.get(PASSWORD_VARIABLE)

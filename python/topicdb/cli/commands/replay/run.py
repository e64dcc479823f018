"""``topicdb replay run``: publishes stored messages to a broker."""

from __future__ import annotations

import sys
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

import topicdb
from topicdb.cli.broker import (
    PASSWORD_VARIABLE,
    BrokerCaOption,
    ProtocolChoice,
    broker_address,
    give_up_after_s,
    password_of,
    tls_of,
)
from topicdb.cli.commands.replay.target import RATE
from topicdb.cli.errors import UserError
from topicdb.cli.options import (
    EndOption,
    FilterArgument,
    JsonReportsOption,
    OnError,
    StartOption,
    TzOption,
)
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place
from topicdb.cli.stopping import Stopping, stopped_by_signals
from topicdb.cli.times import range_of, time_text
from topicdb.replay.broker.broker import GIVE_UP_AFTER_S, BrokerReplay
from topicdb.replay.broker.progress import Progress
from topicdb.replay.broker.remap import Remap
from topicdb.replay.pacing import parse_rate

_SHOW_S = 0.25
_REPORT_S = 1.0
_TELL_S = 1.0
_STOP_S = 10.0


class QosChoice(str, Enum):
    """The QoS of all messages, or of each the one that a bridge has stored."""

    ZERO = "0"
    ONE = "1"
    TWO = "2"
    STORED = "stored"


class RetainChoice(str, Enum):
    """The retain flag of all messages, or of each the one that a bridge has stored."""

    NO = "no"
    YES = "yes"
    STORED = "stored"


_RETAIN = {RetainChoice.NO: False, RetainChoice.YES: True, RetainChoice.STORED: None}


@at_place
def run(
    place: Place,
    broker: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT]|URL",
            help="Connect to this broker, given as HOST[:PORT] or "
            "mqtt[s]://[USER:PASSWORD@]HOST[:PORT].",
        ),
    ],
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    rate: Annotated[str, typer.Option(help=RATE)] = "max",
    qos: Annotated[
        QosChoice,
        typer.Option(
            help="Publish all messages with this QoS, or with stored each as a bridge stored it."
        ),
    ] = QosChoice.ONE,
    retain: Annotated[
        RetainChoice,
        typer.Option(
            help="Publish messages with the retain flag, without it, or with stored each "
            "as a bridge stored it. A retained message replaces what the broker "
            "retains."
        ),
    ] = RetainChoice.NO,
    remap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER=TOPIC",
            help="Publish to other topics: 'site/a/#=test/a/#'. You may repeat it.",
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS.")] = False,
    broker_ca: BrokerCaOption = None,
    username: Annotated[
        str | None, typer.Option(help="Log in at the broker with this user name.")
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            help="Read the password from this file. By default it is taken from the variable "
            f"{PASSWORD_VARIABLE}."
        ),
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(help="Connect with this client id. By default it is a new one.")
    ] = None,
    protocol: Annotated[
        ProtocolChoice, typer.Option(help="Speak this version of MQTT.")
    ] = ProtocolChoice.V5,
    unconfirmed_max: Annotated[
        int,
        typer.Option(
            min=1, max=65_535, help="Let at most this many messages be on their way at once."
        ),
    ] = 1_000,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="Choose what happens at a message that the broker refuses: stop, or "
            "skip it and count it."
        ),
    ] = OnError.STOP,
    give_up_after: Annotated[
        str,
        typer.Option(
            help="End after this time without a confirmation from the broker, in "
            "seconds, or such as 5m, or never."
        ),
    ] = f"{GIVE_UP_AFTER_S:g}",
    mark: Annotated[
        bool,
        typer.Option(
            "--mark/--no-mark",
            help="Mark messages with a user property, so that bridges ignore them (MQTT 5).",
        ),
    ] = True,
    send_expired: Annotated[
        bool,
        typer.Option(
            "--send-expired",
            help="Publish expired messages, too; expiry intervals (MQTT 5) begin anew.",
        ),
    ] = False,
    allow_stored_again: Annotated[
        bool,
        typer.Option(
            "--allow-stored-again",
            help="Publish even if a bridge of this database stores it again.",
        ),
    ] = False,
    as_json: JsonReportsOption = False,
) -> None:
    """Publish stored messages to an MQTT broker, in the order of their timestamps.

    Each message is published at least once. Ctrl-C ends the replay in good order, and the command
    says with which --start to go on.

    \b
    Example:
      topicdb replay run fleet.db 'site/#' --broker localhost --start 'yesterday 14:00' --rate 10x
    """
    host, port = broker_address(broker)
    options: dict[str, Any] = {
        **range_of(start, end, tz),
        "rate": _checked_rate(rate),
        "qos": None if qos is QosChoice.STORED else int(qos.value),
        "retain": _RETAIN[retain],
        "remap": _remap_of(remap or []),
        "refused": on_error.value,
        "give_up_after": give_up_after_s(give_up_after),
        "protocol": protocol.value,
        "tls": tls_of(tls, broker_ca),
        "username": username,
        "password": password_of(username, password_file),
        "client_id": client_id,
        "unconfirmed_max": unconfirmed_max,
        "mark": mark,
        "expired": "send" if send_expired else "skip",
        "stored_again": "allow" if allow_stored_again else "refuse",
    }
    with place.read() as database, stopped_by_signals() as stopped:
        try:
            replay = BrokerReplay(database, filter, host=host, port=port, **options)
        except ImportError as error:
            raise UserError(str(error)) from None
        except topicdb.AccessError as error:
            raise topicdb.AccessError(
                f"{error.args[0]}; whether a bridge would store the messages again stands there: "
                "give a token with --read '$topicdb/#', too, or --allow-stored-again"
            ) from None
        with replay:
            (_report if as_json else _show)(replay, stopped, give_up_after)
        _conclude(replay, as_json)


def _report(replay: BrokerReplay, stopped: Stopping, give_up_after: str) -> None:
    while not _over(replay, stopped, _REPORT_S):
        print_json(replay.progress()._asdict())


def _show(replay: BrokerReplay, stopped: Stopping, give_up_after: str) -> None:
    """Shows a line on stderr if that is a terminal, else says there that the broker fails."""
    trouble = _Trouble(give_up_after)
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
            if not sys.stderr.isatty():
                trouble.tell(progress)
            bars.update(
                task,
                completed=progress.done,
                total=progress.total,
                line=_line(progress),
                left=_left(progress),
            )


class _Trouble:
    """Says on stderr that the broker fails, once each time that it begins to fail."""

    def __init__(self, give_up_after: str) -> None:
        self._give_up_after = give_up_after
        self._since_s: float | None = None
        self._is_told = False

    def tell(self, progress: Progress) -> None:
        """Says that the broker fails, if it has done so for a while and this was not said yet."""
        if progress.state != "retrying":
            self._since_s, self._is_told = None, False
            return
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        if self._is_told or now_s - self._since_s < _TELL_S:
            return
        self._is_told = True
        until = f"(--give-up-after {self._give_up_after})"
        print(f"topicdb: {progress.last_error}; trying again {until}", file=sys.stderr, flush=True)


def _over(replay: BrokerReplay, stopped: Stopping, wait_s: float) -> bool:
    """Waits up to ``wait_s`` seconds; returns whether the replay has ended, or is to end."""
    if stopped.is_set():
        return True
    return replay.wait(wait_s)


def _line(progress: Progress) -> str:
    total = "?" if progress.total is None else f"{progress.total:,}"
    text = (
        f"{progress.state}  {time_text(progress.position)}  {progress.done:,}/{total} messages"
        f"  {progress.per_s:,.0f}/s  {progress.unconfirmed:,} on their way"
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


def _conclude(replay: BrokerReplay, as_json: bool) -> None:
    progress = replay.progress()
    if as_json:
        print_json(progress._asdict())
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
    if progress.expired:
        text += f"; {progress.expired:,} had expired"
    if progress.sent_again:
        text += f"; sent {progress.sent_again:,} again, after {progress.reconnects:,} reconnections"
    return text


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

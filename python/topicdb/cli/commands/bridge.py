"""``topicdb bridge``: stores what an MQTT broker publishes in a database."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

import topicdb
from topicdb.bridge import Bridge, Status
from topicdb.bridge.bridge import CLIENT_ID_PROPERTY, REQUEST_TOPIC
from topicdb.bridge.device_time import FUTURE, PAST
from topicdb.cli.broker import (
    PASSWORD_VARIABLE,
    BrokerCaOption,
    ProtocolChoice,
    broker_address,
    password_of,
    tls_of,
)
from topicdb.cli.errors import UserError
from topicdb.cli.ingest.mapping import TimeUnit
from topicdb.cli.options import (
    DurabilityChoice,
    JsonReportsOption,
    ShardBy,
    ShardsOption,
    StructureOption,
    creating,
)
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place
from topicdb.cli.stopping import stopped_by_signals

_SHOW_S = 0.5


class BridgeShardBy(str, Enum):
    """The values of ``shard_by`` of a bridge."""

    TOPIC = "topic"
    CLIENT = "client"


@at_place
def bridge(
    place: Place,
    broker: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT]|URL",
            help="Connect to this broker, given as HOST[:PORT] or "
            "mqtt[s]://[USER:PASSWORD@]HOST[:PORT].",
        ),
    ],
    filter: Annotated[
        list[str] | None,
        typer.Option(
            help="Store messages that match this topic filter. You may repeat it. By "
            "default it is '#'."
        ),
    ] = None,
    client_id: Annotated[
        str,
        typer.Option(
            "--client-id", help="Connect with this client id, for which the broker keeps a session."
        ),
    ] = "topicdb-bridge",
    qos: Annotated[
        int,
        typer.Option(
            min=0,
            max=2,
            help="Subscribe with this QoS, which is the highest with which messages come.",
        ),
    ] = 2,
    properties: Annotated[
        bool,
        typer.Option(
            "--properties/--no-properties",
            help="Store the MQTT properties of messages with them, or store their payloads alone.",
        ),
    ] = True,
    protocol: Annotated[
        ProtocolChoice, typer.Option(help="Speak this version of MQTT.")
    ] = ProtocolChoice.V5,
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
    session_expiry: Annotated[
        str,
        typer.Option(
            help="Ask the broker to keep messages for this long while the bridge is away."
        ),
    ] = "7d",
    client_id_property: Annotated[
        str, typer.Option(help="Take the client id of the publisher from this user property.")
    ] = CLIENT_ID_PROPERTY,
    shard_by: Annotated[
        BridgeShardBy,
        typer.Option(
            help="Choose what decides the shard of a message: its topic, or the client "
            "that published it. A new database is made that way."
        ),
    ] = BridgeShardBy.TOPIC,
    client_level: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Take the name of the client from this level of the topic, counted from "
            "1, which goes with --shard-by client.",
        ),
    ] = None,
    deduplicate_by: Annotated[
        str | None,
        typer.Option(
            help="Take the id of a message from this user property, and store each id once."
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            help="Let clients ask for stored messages that match this topic filter. You "
            "may repeat it."
        ),
    ] = None,
    request_topic: Annotated[
        str, typer.Option(help="Take the requests of clients on this topic.")
    ] = REQUEST_TOPIC,
    store_replays: Annotated[
        bool,
        typer.Option("--store-replays", help="Store messages that a replay has published, too."),
    ] = False,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="field:NAME|property:NAME",
            help="Take the device's own time from a field of a JSON payload, or from a "
            "user property.",
        ),
    ] = None,
    timestamp_unit: Annotated[
        TimeUnit, typer.Option(help="Take device times that are numbers for times in this unit.")
    ] = TimeUnit.MILLISECONDS,
    timestamp_past: Annotated[
        str,
        typer.Option(
            help="Take a device time that is at most this long before the reception of the message."
        ),
    ] = PAST,
    timestamp_future: Annotated[
        str,
        typer.Option(
            help="Take a device time that is at most this long after the reception of the message."
        ),
    ] = FUTURE,
    durability: Annotated[
        DurabilityChoice | None,
        typer.Option(
            help="Acknowledge messages to the broker when they survive this: none (a "
            "close), os (kill -9) or disk (a power cut). By default it is os, or at "
            "a server what it was started with."
        ),
    ] = None,
    shards: ShardsOption = None,
    structure: StructureOption = None,
    as_json: JsonReportsOption = False,
) -> None:
    """Store what an MQTT broker publishes, until SIGTERM or Ctrl-C.

    The command makes the database if there is none. A message is acknowledged to the broker when it
    is stored.

    \b
    Example:
      topicdb bridge fleet.db --broker mqtt.plant.example --filter 'site/#'
    """
    host, port = broker_address(broker)
    by_key = ShardBy.KEY if shard_by is BridgeShardBy.CLIENT else None
    with (
        _opened(place, durability, creating(shards, by_key, structure)) as database,
        stopped_by_signals() as stopped,
    ):
        try:
            one = Bridge(
                database,
                host,
                port,
                filters=filter or ["#"],
                name=client_id,
                qos=qos,  # type: ignore[arg-type]
                envelope=properties,
                protocol=protocol.value,
                username=username,
                password=password_of(username, password_file),
                tls=tls_of(tls, broker_ca),
                session_expiry=session_expiry,
                client_id_property=client_id_property,
                shard_by=shard_by.value,
                client_level=client_level,
                deduplicate_by=deduplicate_by,
                history=history or (),
                request_topic=request_topic,
                timestamp=timestamp,
                timestamp_unit=timestamp_unit.value,
                timestamp_past=timestamp_past,
                timestamp_future=timestamp_future,
                store_replays=store_replays,
            )
        except ImportError as error:
            raise UserError(str(error)) from None
        with one, Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            before, at_s = one.status(), time.monotonic()
            while not stopped.wait(1.0 if as_json else _SHOW_S):
                status, now_s = one.status(), time.monotonic()
                per_s = (status.stored - before.stored) / (now_s - at_s)
                before, at_s = status, now_s
                if as_json:
                    print_json(asdict(status))
                elif sys.stderr.isatty():
                    live.update(Text(_line(status, per_s)), refresh=True)
                if status.state == "stopped":
                    break
        if as_json:
            print_json(asdict(one.status()))
        else:
            print(_line(one.status(), None))


def _opened(
    place: Place, durability: DurabilityChoice | None, schema: dict[str, Any]
) -> topicdb.Database:
    if place.is_url and durability is not None:
        raise UserError(
            f"{place.where} is a server, which has its own durability: leave out --durability, or "
            "start the server with it"
        )
    if place.is_url:
        schema = {name: value for name, value in schema.items() if name != "shard_by"}
    return place.make(None if durability is None else durability.value, schema)


def _line(status: Status, per_s: float | None) -> str:
    parts = [f"{status.state}: {status.stored:,} stored"]
    if per_s is not None:
        parts.append(f"{per_s:,.0f}/s")
    for label, count in (
        ("stored before", status.duplicates),
        ("retained and known", status.copies),
        ("replayed", status.replays),
        ("cannot be stored", status.refused),
        ("without a device's time", status.untimed),
        ("without a client's name", status.unnamed),
        ("answers", status.replayed),
    ):
        if count:
            parts.append(f"{count:,} {label}")
    if status.connections > 1:
        parts.append(f"{status.connections} connections")
    if status.last_error:
        parts.append(status.last_error)
    return ", ".join(parts)

"""``topicdb replay start``, ``cancel`` and others: govern a replay log, also one that is open.

The process that has the log open does it; if nobody has, the command opens it and closes it again.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from topicdb import replay
from topicdb.cli.commands.replay.target import (
    RATE,
    EndpointArgument,
    Target,
    at_log,
)
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.options import TIME, BeforeOption, JsonOption, TzOption
from topicdb.cli.output import print_json, printable
from topicdb.cli.times import optional_time, parse_time, past_time, time_text
from topicdb.replay.pacing import parse_rate

EARLIEST = "earliest"
StartOption = Annotated[
    str,
    typer.Option(
        "--start",
        metavar="TIME|ID|earliest",
        help="Begin with messages of this time, behind the message with this id, or with the "
        f"oldest one. {TIME}",
    ),
]
FilterArgument = Annotated[
    str,
    typer.Argument(metavar="FILTER", help="Give a topic filter in quotes, such as 'shop/+/order'."),
]
ClampOption = Annotated[
    bool,
    typer.Option("--clamp", help="Begin with the oldest message if --start is earlier than that."),
]


@at_log
def start(
    target: Target,
    endpoint: EndpointArgument,
    start: StartOption = EARLIEST,
    end: Annotated[
        str | None, typer.Option(help=f"Stop before messages of this time. {TIME}")
    ] = None,
    tz: TzOption = None,
    rate: Annotated[str, typer.Option(help=RATE)] = "max",
    clamp: ClampOption = False,
    stall_timeout: Annotated[
        str,
        typer.Option(
            help="Let the replay fail after this time without a client that takes what "
            "waits, such as 60s, or never."
        ),
    ] = "60s",
    as_json: JsonOption = False,
) -> None:
    """Start a replay on an endpoint. A replay that runs there is cancelled.

    All messages that wait there are removed, and clients are disconnected.

    \b
    Example:
      topicdb replay start fleet.db orders --start 'yesterday 14:02' --rate 10x
    """
    parse_rate(rate)
    begin = _start_of(start, tz)
    with target.opened() as opened:
        opened.endpoint(endpoint).replay(
            begin,
            end=optional_time(end, "--end", tz),
            rate=None if rate == "max" else rate,
            on_early="clamp" if clamp else "fail",
            stall_timeout=None if stall_timeout == "never" else stall_timeout,
        )
        _print_progress(opened.endpoint(endpoint), as_json)


@at_log
def cancel(
    target: Target,
    endpoint: EndpointArgument,
    as_json: JsonOption = False,
) -> None:
    """End the replay on an endpoint, and remove its messages that wait there.

    \b
    Example:
      topicdb replay cancel fleet.db orders
    """
    with target.opened() as opened:
        opened.endpoint(endpoint).cancel_replay()
    if as_json:
        print_json({"endpoint": endpoint, "cancelled": True})
    else:
        print(f"the replay on {printable(endpoint)} was cancelled")


@at_log
def pause(
    target: Target,
    endpoint: EndpointArgument,
    as_json: JsonOption = False,
) -> None:
    """Let no more messages of the replay on an endpoint come until you resume it.

    \b
    Example:
      topicdb replay pause fleet.db orders
    """
    with target.opened() as opened:
        opened.endpoint(endpoint).pause_replay()
        _print_progress(opened.endpoint(endpoint), as_json)


@at_log
def resume(
    target: Target,
    endpoint: EndpointArgument,
    as_json: JsonOption = False,
) -> None:
    """Let the replay on an endpoint go on after a pause.

    \b
    Example:
      topicdb replay resume fleet.db orders
    """
    with target.opened() as opened:
        opened.endpoint(endpoint).resume_replay()
        _print_progress(opened.endpoint(endpoint), as_json)


@at_log
def seek(
    target: Target,
    endpoint: EndpointArgument,
    start: StartOption,
    tz: TzOption = None,
    clamp: ClampOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move the replay on an endpoint to another start. Messages that wait there are removed.

    \b
    Example:
      topicdb replay seek fleet.db orders --start 14:02
    """
    begin = _start_of(start, tz)
    with target.opened() as opened:
        opened.endpoint(endpoint).seek_replay(begin, on_early="clamp" if clamp else "fail")
        _print_progress(opened.endpoint(endpoint), as_json)


@at_log
def rate(
    target: Target,
    endpoint: EndpointArgument,
    rate: Annotated[str, typer.Argument(metavar="RATE", help=RATE)],
    as_json: JsonOption = False,
) -> None:
    """Change the rate of the replay on an endpoint.

    \b
    Example:
      topicdb replay rate fleet.db orders 10x
    """
    parse_rate(rate)
    with target.opened() as opened:
        opened.endpoint(endpoint).set_replay_rate(None if rate == "max" else rate)
        _print_progress(opened.endpoint(endpoint), as_json)


@at_log
def trim(
    target: Target,
    before: BeforeOption,
    tz: TzOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the messages of a log from before a time, once no endpoint needs them.

    The command says what would go, and asks.

    \b
    Example:
      topicdb replay trim fleet.db --before 30d
    """
    before_us = past_time(before, "--before", tz)
    with target.opened() as opened:
        size = opened.info()["bytes"]
        confirm(
            f"replay log {target.log} ({size:,} bytes) loses what is from before "
            f"{time_text(before_us)}",
            yes=yes,
        )
        dropped = opened.trim(before_us)
        left = opened.info()["bytes"]
    if as_json:
        fields = {"log": target.log, "before": before_us, "bytes": left}
        print_json({**fields, "trimmed_bytes": size - left, "dropped_generations": dropped})
    else:
        print(f"{size - left:,} of {size:,} bytes were trimmed, {dropped:,} generations dropped")


@at_log
def endpoints(
    target: Target,
    as_json: JsonOption = False,
) -> None:
    """List the endpoints of a log as they are now: their options, messages, clients, replays.

    \b
    Example:
      topicdb replay endpoints fleet.db
    """
    with target.opened() as opened:
        found = opened.info()["endpoints"]
    if as_json:
        print_json({"endpoints": found})
        return
    for endpoint in found:
        print(_line(endpoint))


@at_log
def add(
    target: Target,
    endpoint: EndpointArgument,
    filter: Annotated[
        list[str],
        typer.Option(
            "--filter", help="Give the endpoint this topic filter. For a queue you may repeat it."
        ),
    ],
    topic: Annotated[
        bool, typer.Option("--topic", help="Make a topic endpoint instead of a queue.")
    ] = False,
    selector: Annotated[
        str | None,
        typer.Option(help="Take only messages that fulfil this condition, for a topic endpoint."),
    ] = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="Let clients share the messages; else one client at a time has them."
        ),
    ] = False,
    owner: Annotated[
        str | None,
        typer.Option(help="Let the client of this name do everything with the endpoint."),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(help="Publish rejected and expired messages to this topic: '$dead/orders'."),
    ] = None,
    remove_expired: Annotated[
        bool, typer.Option("--remove-expired", help="Remove live messages that have expired.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a durable endpoint. One that is there must be the same.

    \b
    Example:
      topicdb replay add fleet.db orders --filter 'shop/+/order'
    """
    if selector is not None and not topic:
        raise typer.BadParameter("a queue has no selector: give --topic", param_hint="--selector")
    if topic and len(filter) > 1:
        raise typer.BadParameter("a topic endpoint has one filter", param_hint="--filter")
    options: dict[str, Any] = {
        "exclusive": not shared,
        "owner": owner,
        "dead_letter": dead_letter,
        "expired": "remove" if remove_expired else None,
    }
    with target.opened() as opened:
        if topic:
            made = opened.topic_endpoint(endpoint, filter[0], selector=selector, **options)
        else:
            made = opened.queue(endpoint, filter, **options)
        _print_endpoint(made.info(), as_json)


@at_log
def drop(
    target: Target,
    endpoint: EndpointArgument,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove an endpoint, and disconnect its clients. Messages stay in the database.

    \b
    Example:
      topicdb replay drop fleet.db orders
    """
    with target.opened() as opened:
        opened.endpoint(endpoint)  # raises NotFoundError before anybody is asked
        confirm(f"endpoint {endpoint} goes, with what its clients have still to get", yes=yes)
        opened.drop_endpoint(endpoint)
    if as_json:
        print_json({"dropped": endpoint})
    else:
        print(f"{printable(endpoint)} was removed")


@at_log
def subscribe(
    target: Target,
    endpoint: EndpointArgument,
    filter: FilterArgument,
    as_json: JsonOption = False,
) -> None:
    """Add a subscription to a queue. Messages come from now on. A replay there fails.

    \b
    Example:
      topicdb replay subscribe fleet.db orders 'shop/+/refund'
    """
    with target.opened() as opened:
        opened.endpoint(endpoint).subscribe(filter)
        _print_endpoint(opened.endpoint(endpoint).info(), as_json)


@at_log
def unsubscribe(
    target: Target,
    endpoint: EndpointArgument,
    filter: FilterArgument,
    as_json: JsonOption = False,
) -> None:
    """End a subscription of a queue. Messages that wait there stay. A replay there fails.

    \b
    Example:
      topicdb replay unsubscribe fleet.db orders 'shop/+/refund'
    """
    with target.opened() as opened:
        opened.endpoint(endpoint).unsubscribe(filter)
        _print_endpoint(opened.endpoint(endpoint).info(), as_json)


COMMANDS = (
    start,
    cancel,
    pause,
    resume,
    seek,
    rate,
    trim,
    endpoints,
    add,
    drop,
    subscribe,
    unsubscribe,
)


def _start_of(text: str, tz: str | None) -> Any:
    """Returns the start of a replay; an id is recognised by its form."""
    if text in (EARLIEST, "beginning"):
        return "beginning"
    try:
        return replay.MessageId.parse(text)
    except ValueError:
        return parse_time(text, "--start", tz)


def _print_progress(endpoint: replay.Endpoint, as_json: bool) -> None:
    found = endpoint.progress()
    if as_json:
        fields = {"endpoint": endpoint.name, "state": found.state.value}
        fields |= {"position": str(found.position)}
        print_json({**fields, "replayed": found.done, "total": found.total})
        return
    print(
        f"{printable(endpoint.name)}: {found.state.value}, at {found.position}, {found.done:,} of "
        f"about {found.total:,} replayed"
    )


def _print_endpoint(endpoint: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"endpoint": endpoint})
    else:
        print(_line(endpoint))


def _line(endpoint: dict[str, Any]) -> str:
    kind = "queue" if endpoint["kind"] == "queue" else "topic endpoint"
    parts = [
        f"{kind} {endpoint['name']}: {', '.join(endpoint['subscriptions']) or 'no subscription'}",
        "one client at a time" if endpoint["exclusive"] else "shared",
    ]
    if not endpoint["durable"]:
        parts.append("temporary")
    if endpoint["selector"] is not None:
        parts.append(f"where {endpoint['selector']}")
    if endpoint["dead_letter"] is not None:
        parts.append(f"dead letters to {endpoint['dead_letter']}")
    if endpoint["expired"] == "remove":
        parts.append("expired messages go")
    parts.append(f"{endpoint['messages']:,} messages")
    if endpoint["clients"]:
        parts.append(f"clients {', '.join(endpoint['clients'])}")
    parts.append(f"replay {endpoint['state']}")
    return printable("; ".join(parts))

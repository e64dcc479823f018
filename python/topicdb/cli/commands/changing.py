"""``topicdb publish`` and ``topicdb delete``: store and remove messages from a shell."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

import typer

import topicdb
from topicdb import _core, jobs
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.ingest.lines import Lines
from topicdb.cli.options import (
    TIME,
    DurabilityChoice,
    EndOption,
    FilterArgument,
    JsonOption,
    StartOption,
    TzOption,
)
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.publishing import (
    ContentTypeOption,
    CorrelationDataOption,
    MessageExpiryOption,
    PayloadFormatOption,
    Published,
    PublisherOption,
    QosOption,
    ResponseTopicOption,
    RetainOption,
    UserPropertyOption,
)
from topicdb.cli.times import optional_time, range_of, time_text
from topicdb.mqtt.envelope import Envelope
from topicdb.types import Durability, Row

_BATCH_ROWS = 10_000
_BATCH_BYTES = 16 << 20


@at_place
def publish(
    place: Place,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Give the topic of the message.")],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help="Give the value of the message, or - for all bytes of standard input.",
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Store each line of standard input as a message.")
    ] = False,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIME",
            help=f"Timestamp of the message. By default the time at which it is stored. {TIME}",
        ),
    ] = None,
    tz: TzOption = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Let this key decide the shard, in a database that shards by key."
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Make the database if there is none.")
    ] = False,
    qos: QosOption = None,
    retain: RetainOption = False,
    content_type: ContentTypeOption = None,
    user_property: UserPropertyOption = None,
    response_topic: ResponseTopicOption = None,
    correlation_data: CorrelationDataOption = None,
    message_expiry: MessageExpiryOption = None,
    payload_format: PayloadFormatOption = None,
    client_id: PublisherOption = None,
    durability: Annotated[
        DurabilityChoice | None,
        typer.Option(
            help="Choose what a stored message survives: none (a close), os (kill -9) or "
            "disk (a power cut)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Store a message, or a message for each line of standard input.

    This also works while another process has the database open for writing: that process then takes
    the messages over. The command talks to no broker: --qos, --retain and the other MQTT properties
    are stored with the message, and `topicdb replay run` can publish it with them.

    \b
    Example:
      topicdb publish fleet.db site/1/pump 900
      topicdb publish fleet.db site/1/pump 900 --retain --user-property unit=rpm
      tail -f pump.log | topicdb publish fleet.db site/1/log --lines
    """
    _core.check_topic(topic)
    if lines and value not in (None, "-"):
        raise typer.BadParameter("--lines reads standard input: leave VALUE out")
    if value is None and not lines:
        raise typer.BadParameter("give a VALUE, or - for standard input", param_hint="VALUE")
    when = optional_time(timestamp, "--timestamp", tz)
    published = Published(
        qos,
        retain,
        content_type,
        user_property,
        response_topic,
        correlation_data,
        message_expiry,
        payload_format,
        client_id,
    ).envelope()
    if create and not place.is_url:
        topicdb.open(place.where).close()
    chosen: Durability | None = None if durability is None else durability.value
    with _target(place, key, chosen, published) as target:
        if lines:
            _publish_lines(target, topic, when)
        else:
            given = sys.stdin.buffer.read() if value == "-" else (value or "").encode()
            target.store([(topic, when, given)])
    if as_json:
        print_json({"messages": target.messages, "pending_shards": sorted(target.pending)})
        return
    late = f"; shards {sorted(target.pending)} show them later" if target.pending else ""
    print(f"stored {_count(target.messages)} in {place.where}{late}")


def _publish_lines(target: _Target, topic: str, when: int | None) -> None:
    """Stores the lines of standard input, at once when no more come for a second."""
    lines = Lines(sys.stdin.buffer)
    rows: list[Row] = []
    size = 0

    def store() -> None:
        nonlocal size
        target.store(rows)
        rows.clear()
        size = 0

    lines.on_idle = store
    try:
        for line in lines:
            rows.append((topic, when, line))
            size += len(line)
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                store()
        store()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; stored {_count(target.messages)}") from None


@dataclass
class _Target:
    """Where ``publish`` stores messages: in an open database, or by jobs for another process.

    ``published``: the properties that messages get, if any. ``pending``: shards whose process has
    not yet shown all messages.
    """

    place: Place
    database: topicdb.Database | None
    key: str | None
    durability: Durability | None
    published: Envelope | None
    messages: int = 0
    pending: set[int] = field(default_factory=set)

    def store(self, rows: list[Row]) -> None:
        """Stores messages of any number, all or none of them in each shard."""
        if not rows:
            return
        published = self.published
        raw = published is not None
        if published is not None:
            rows = [
                (t, at, published._replace(payload=bytes(value)).encode()) for t, at, value in rows
            ]
        if self.database is not None:
            self.database.append(rows, key=self.key, raw=raw, durability=self.durability)
        else:
            job = f"publish-{uuid.uuid4()}"
            with jobs.StagedWriter(self.place.where, job) as writer:
                writer.append(rows, key=self.key, raw=raw)
            self.pending.update(jobs.commit(self.place.where, job, [writer.staged]).pending)
        self.messages += len(rows)


@contextmanager
def _target(
    place: Place, key: str | None, durability: Durability | None, published: Envelope | None
) -> Iterator[_Target]:
    try:
        database = place.write()
    except topicdb.LockedError:
        yield _Target(place, None, key, durability, published)
        return
    with database:
        yield _Target(place, database, key, durability, published)


@at_place
def delete(
    place: Place,
    filter: FilterArgument,
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many messages match.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the messages that match FILTER, for good.

    The command says how many messages match, and asks.

    \b
    Example:
      topicdb delete fleet.db 'site/1/#' --start yesterday --end today --dry-run
    """
    times = range_of(start, end, tz)
    with place.read() if dry_run else place.write() as database:
        with Waiting("counting"):
            found = database.scan(filter, **times).count()
        what = f"{_count(found)} of {place.where} that match {printable(filter)}{_range(times)}"
        if found and not dry_run:
            confirm(f"{what} would go for good", yes=yes)
            with Waiting("deleting"):
                removed = database.delete(filter, **times).count
        else:
            removed = 0
    if as_json:
        print_json({"matching": found, "deleted": removed})
    elif not found:
        print(f"{what}: nothing to delete")
    else:
        print(what if dry_run else f"deleted {_count(removed)} of {place.where}")


def _range(times: dict[str, int | None]) -> str:
    words = {"start": "from", "end": "to before"}
    return "".join(
        f" {words[name]} {time_text(moment)}"
        for name, moment in times.items()
        if moment is not None
    )


def _count(messages: int) -> str:
    return f"{messages:,} message{'' if messages == 1 else 's'}"

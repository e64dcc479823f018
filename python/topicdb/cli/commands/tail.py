"""``topicdb tail``: follows messages as they are stored."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

import topicdb
from topicdb.arguments.times import duration_us, now_us
from topicdb.cli import output
from topicdb.cli.commands.messages import chosen_format
from topicdb.cli.options import (
    TIME,
    FiltersArgument,
    FormatOption,
    JsonLinesOption,
    PartialOption,
    PropertiesOption,
    RawOption,
    TzOption,
)
from topicdb.cli.places import Place, at_place
from topicdb.cli.stopping import Stopping, stopped_by_signals
from topicdb.cli.times import optional_time

_STEP_S = 0.25  # how long a Ctrl-C may wait
_STEP_ROWS = 10_000
_FIRST_WINDOW_US = 1_000_000
_WINDOW_GROWTH = 8


@at_place
def tail(
    place: Place,
    filter: FiltersArgument = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            min=0,
            metavar="N",
            help="Begin with the N newest messages. By default they are 10.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="TIME", help=f"Begin with all messages since this time. {TIME}"
        ),
    ] = None,
    tz: TzOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="End after this many messages."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="AGE", help="End after this time: 90s, 10m.")
    ] = None,
    format: FormatOption = output.Format.TEXT,
    as_json: JsonLinesOption = False,
    properties: PropertiesOption = False,
    raw: RawOption = False,
    partial: PartialOption = False,
) -> None:
    """Show the newest messages, and then each message as it is stored, until Ctrl-C.

    The newest messages are those with the latest timestamps. Messages that follow come in the order
    in which they are stored. With Ctrl-C the exit code is 130.

    \b
    Example:
      topicdb tail fleet.db 'site/+/pump' 'alarm/#' --last 5
      topicdb tail grpc+tls://plant:8815 --start -10m --for 1m --format pretty
    """
    if start is not None and last is not None:
        raise typer.BadParameter("give --last or --start, not both")
    format = chosen_format(format, as_json=as_json, properties=properties, raw=raw)
    for_s = None if duration is None else duration_us(duration, what="--for") / 1e6
    since = optional_time(start, "--start", tz)
    form = {"properties": properties, "raw": raw}
    with place.read(partial=partial) as database, stopped_by_signals() as stopped:
        follower = _Follower(database, filter or ["#"], form, partial=partial, stopped=stopped)
        lines, left = output.Lines(format), limit
        lines.write(())
        for messages in follower.messages(since, 10 if last is None else last, for_s):
            shown = messages[:left]
            lines.write(shown)
            if left is not None:
                left -= len(shown)
                if left == 0:
                    return
        if stopped.is_set():
            raise KeyboardInterrupt


class _Follower:
    """Gives the newest messages of a database, and then those that are stored."""

    def __init__(
        self,
        database: topicdb.Database,
        filters: list[str],
        form: dict[str, Any],
        *,
        partial: bool,
        stopped: Stopping,
    ) -> None:
        self._database = database
        self._stopped = stopped
        self._filters = filters
        self._form = form
        self._partial = partial

    def messages(
        self, since: int | None, last: int, for_s: float | None
    ) -> Iterator[list[topicdb.Message]]:
        """Gives messages until it is stopped, or for ``for_s`` seconds (None: until it is stopped).

        They begin with those since ``since``, or with the ``last`` newest ones if it is None.
        """
        end_s = None if for_s is None else time.monotonic() + for_s
        start: Any = since
        if since is None:
            newest, serials = self._newest(last)
            yield newest
            start = serials
        subscription = self._database.subscribe(
            self._filters, start=start, partial=self._partial, **self._form
        )
        with subscription:
            while not self._stopped.is_set():
                step_s = _STEP_S if end_s is None else min(_STEP_S, end_s - time.monotonic())
                if step_s <= 0:
                    return
                delivery = subscription.next(step_s, rows=_STEP_ROWS)
                if delivery is not None:
                    yield list(delivery.batch)
                    subscription.ack(delivery.seqno)

    def _newest(self, count: int) -> tuple[list[topicdb.Message], dict[int, int]]:
        """Returns the messages with the latest timestamps, and the last commit of each shard.

        It looks back over a second, and over a longer time until there are enough. So it reads
        little of a database that is large.
        """
        first, latest = self._bounds()
        window = _FIRST_WINDOW_US
        while True:
            start = max(0, latest - window)
            found, serials = self._since(start, count)
            if len(found) >= count or start <= first or self._stopped.is_set():
                return found, serials
            window *= _WINDOW_GROWTH

    def _bounds(self) -> tuple[int, int]:
        """Returns the first and the last timestamp of the database, as far as they are known."""
        try:
            slabs = self._database.slabs()
        except topicdb.AccessError:  # the token may read some topics, but not look at everything
            return 0, now_us()
        first = [one.first_timestamp for one in slabs if one.first_timestamp is not None]
        last = [one.last_timestamp for one in slabs if one.last_timestamp is not None]
        return min(first, default=0), max(last, default=0)

    def _since(self, start: int, count: int) -> tuple[list[topicdb.Message], dict[int, int]]:
        """Returns the newest messages since ``start``, and up to which commits it has looked."""
        at = self._database.scan_iterator(self._filters, start=start, partial=self._partial)
        serials = dict(at.serials)
        newest: list[tuple[int, int, topicdb.Message]] = []
        numbers = itertools.count()
        while count and not at.at_end and not self._stopped.is_set():
            page = self._database.next(at, _STEP_ROWS, **self._form)
            at = page.iterator
            for message in page.batch:
                entry = (message.timestamp, next(numbers), message)
                if len(newest) < count:
                    heapq.heappush(newest, entry)
                else:
                    heapq.heappushpop(newest, entry)
        return [message for _, _, message in sorted(newest, key=lambda entry: entry[:2])], serials

"""What frames and tables read from: messages of a database, narrowed to what a query needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from topicdb.arguments.columns import KEYS
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import Form, form_of
from topicdb.arguments.times import TimeLike, time_range_us
from topicdb.frames.selection import EVERYTHING, Selection
from topicdb.types import AtLeastLike

if TYPE_CHECKING:
    from topicdb.cursor.scan import Scan

Order: TypeAlias = Literal["stream", "time", "none"]


class Scannable(Protocol):
    """What has messages to scan: a ``topicdb.Database``, here or at a server."""

    def scan(
        self,
        filter: Filters = ...,
        *,
        start: TimeLike | None = ...,
        end: TimeLike | None = ...,
        order: Order = ...,
        columns: Sequence[str] | None = ...,
        properties: bool = ...,
        raw: bool = ...,
        partial: bool = ...,
        at_least: AtLeastLike | None = ...,
    ) -> Scan: ...


@dataclass(frozen=True)
class Source:
    """Messages of a database, as ``Database.scan`` is asked for them."""

    db: Scannable
    selection: Selection
    order: Order
    properties: bool
    raw: bool
    partial: bool
    at_least: AtLeastLike | None

    @property
    def form(self) -> Form:
        """How values are given to a query that needs all columns."""
        return form_of(properties=self.properties, raw=self.raw)

    def scan(
        self, narrowed: Selection = EVERYTHING, columns: Sequence[str] | None = None
    ) -> Scan | None:
        """Returns a scan of those of the messages that are in ``narrowed``; None for none.

        ``columns``: what is needed; None: all columns. Values are not read unless they or the
        properties in them are needed.
        """
        wanted = self.selection.both(narrowed)
        if wanted.is_empty:
            return None
        needs_values = columns is None or not KEYS.issuperset(columns)
        return self.db.scan(
            wanted.filters,
            start=wanted.start,
            end=wanted.end,
            order=self.order,
            columns=None if needs_values else sorted(KEYS),
            properties=self.properties and needs_values,
            raw=self.raw or not needs_values,
            partial=self.partial,
            at_least=self.at_least,
        )


def source_of(
    db: Scannable,
    filter: Filters,
    start: TimeLike | None,
    end: TimeLike | None,
    order: Order,
    *,
    properties: bool,
    raw: bool,
    partial: bool,
    at_least: AtLeastLike | None,
) -> Source:
    """Returns the source for these arguments of ``Database.scan``, which it checks.

    Raises what ``Database.scan`` raises.
    """
    db.scan(
        filter,
        start=start,
        end=end,
        order=order,
        properties=properties,
        raw=raw,
        partial=partial,
        at_least=at_least,
    )
    wanted = filter_list(filter)
    start_us, end_us = time_range_us(start, end)
    selection = Selection(None if wanted is None else list(dict.fromkeys(wanted)), start_us, end_us)
    return Source(db, selection, order, properties, raw, partial, at_least)

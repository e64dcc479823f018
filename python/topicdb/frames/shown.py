"""How messages and lists of results show themselves in a notebook and at the prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from topicdb.frames.text import cut, size_text, table, time_text, value_text

if TYPE_CHECKING:
    from topicdb._core import Batch

ROWS_MAX = 10
"""A table of messages shows at most this number of them."""
LINES_MAX = 100
"""A table of results shows at most this number of them."""
_TIMES = ("timestamp", "time", "_at", "received")
_SIZES = ("bytes",)
Item = TypeVar("Item")


class Listing(list[Item]):
    """A list of results that a notebook shows as a table. It is a list in every other way."""

    def _repr_html_(self) -> str:
        return listing_html(self)


class Structures(dict[str, list[Item]]):
    """Structures with their streams, which a notebook shows as a table. It is a dictionary."""

    def _repr_html_(self) -> str:
        rows = list(self.items())
        left = len(rows) - LINES_MAX
        return table(
            f"{len(rows):,} structure{'' if len(rows) == 1 else 's'}",
            ["structure", "streams", "shards", "generations"],
            [_structure_row(name, streams) for name, streams in rows[:LINES_MAX]],
            f"… and {left:,} more" if left > 0 else "",
        )


def _structure_row(name: str, streams: Sequence[Any]) -> list[Any]:
    shards = sorted({stream.shard for stream in streams})
    generations = sorted({stream.generation for stream in streams})
    return [name, len(streams), _ranges(shards), _ranges(generations)]


def _ranges(numbers: Sequence[int]) -> str:
    """Returns sorted numbers on one line: ``0, 1, 5`` or, if they are many, ``0 … 63``."""
    if len(numbers) > 8:
        return f"{numbers[0]} … {numbers[-1]}"
    return ", ".join(map(str, numbers))


class Shown:
    """A base class of handles, which a notebook shows with how they stand."""

    _shown: ClassVar[tuple[str, ...]] = ("filters", "info")
    """The properties and methods without arguments that tell how it stands, where it has them."""

    def _repr_html_(self) -> str:
        return never(lambda: table(repr(self), (), _facts(self).items()), lambda: repr(self))


def _facts(handle: Shown) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in handle._shown:
        if not hasattr(type(handle), name):
            continue
        try:
            found = getattr(handle, name)
            found = found() if callable(found) else found
        except Exception as error:  # such as of a closed handle; the rest is shown all the same
            found = f"{type(error).__name__}: {error}"
        is_info = name == "info" and isinstance(found, dict)
        for key, value in (found if is_info else {name: found}).items():
            facts.update(_fact(key, value))
    return facts


def _fact(name: str, found: Any) -> dict[str, Any]:
    """Returns one fact, or one for each part, such as of the endpoints of a log."""
    if isinstance(found, list) and found and isinstance(found[0], dict):
        kind = name.removesuffix("s")
        return {f"{kind} {part.get('name', '')}": _brief(part) for part in found}
    if isinstance(found, dict):
        return {name: ", ".join(f"{key}: {value}" for key, value in found.items())}
    if isinstance(found, (list, tuple)):
        return {name: ", ".join(map(str, found))}
    return {name: _field(name, found)}


def _brief(part: dict[str, Any]) -> str:
    known = ("kind", "state", "messages", "clients")
    return ", ".join(f"{name} {part[name]}" for name in known if name in part)


def never(show: Callable[[], str], fallback: Callable[[], str]) -> str:
    """Returns what ``show`` returns; if that raises, ``fallback`` and the error."""
    try:
        return show()
    except Exception as error:  # a notebook shows the object, whatever its state is
        text = f"{type(error).__name__}: {error}"
        return table(fallback(), (), (), cut(text, 200))


def call_text(
    name: str,
    filters: object,
    *,
    bounds: Mapping[str, int | None] = MappingProxyType({}),
    **options: object,
) -> Callable[[], str]:
    """Returns what makes text of a call: its filters, and those options that are given.

    ``bounds``: the options that are times, in µs since 1970.
    """

    def text() -> str:
        times = {option: time_text(us) for option, us in bounds.items() if us is not None}
        given = [
            f"{option}={cut(repr(value))}"
            for option, value in {**times, **options}.items()
            if value is not None and value is not False
        ]
        return f"{name}({', '.join([cut(repr(filters), 120), *given])})"

    return text


def messages_html(caption: str, batch: Batch, *, note: str = "", rows_max: int = ROWS_MAX) -> str:
    """Returns the first messages of a batch as an HTML table."""
    names = ["topic", "timestamp (UTC)", "value"]
    has_properties = len(batch) > 0 and len(batch[0]) > len(names)
    rows = []
    for number in range(min(rows_max, len(batch))):
        message: tuple[Any, ...] = batch[number]
        row = [message[0], time_text(message[1]), message[2]]
        rows.append([*row, *map(_properties_text, message[3:])])
    return table(caption, [*names, *(["properties"] if has_properties else [])], rows, note)


def _properties_text(properties: Any) -> str:
    known = [
        f"{name}={time_text(found) if name == 'received' else repr(found)}"
        for name, found in properties._asdict().items()
        if found not in (None, ())
    ]
    return cut(" ".join(known), 200)


def batch_repr(batch: Batch) -> str:
    """Returns a batch on one line: how many messages, and the first."""
    if len(batch) == 0:
        return "<topicdb.Batch of 0 messages>"
    topic, us, value, *_ = batch[0]
    first = f"{cut(topic, 60)} {time_text(us)} {value_text(value, 40)}"
    if len(batch) == 1:
        return f"<topicdb.Batch of 1 message: {first}>"
    return f"<topicdb.Batch of {len(batch):,} messages, the first: {first}>"


def batch_html(batch: Batch) -> str:
    """Returns a batch as an HTML table of its first messages."""
    left = len(batch) - ROWS_MAX
    caption = f"topicdb.Batch of {len(batch):,} message{'' if len(batch) == 1 else 's'}"
    return messages_html(caption, batch, note=f"… and {left:,} more" if left > 0 else "")


def listing_html(items: Sequence[Any]) -> str:
    """Returns results of one class as an HTML table with a column for each field."""
    count = f"{len(items):,} item{'' if len(items) == 1 else 's'}"
    caption = f"{count} of {type(items[0]).__name__}" if items else "nothing"
    shown = [record_of(item) for item in items[:LINES_MAX]]
    names = list(dict.fromkeys(name for record in shown for name in record))
    left = len(items) - LINES_MAX
    return table(
        caption,
        names,
        [[record.get(name) for name in names] for record in shown],
        f"… and {left:,} more" if left > 0 else "",
    )


def record_html(item: object) -> str:
    """Returns one result as an HTML table with a row for each field."""
    return table(f"topicdb.{type(item).__name__}", (), record_of(item).items())


def record_of(item: Any) -> dict[str, Any]:
    """Returns the fields of a result: times as text in UTC, sizes with units."""
    return {name: _field(name, getattr(item, name)) for name in _names(item)}


def _names(item: Any) -> Iterable[str]:
    if is_dataclass(item):
        return [field.name for field in fields(item)]
    if hasattr(item, "_fields"):
        return list(item._fields)
    return [
        name
        for name, found in vars(type(item)).items()
        if isinstance(found, property) and not name.startswith("_")
    ]


def _field(name: str, found: Any) -> Any:
    if isinstance(found, int) and not isinstance(found, bool):
        if name.endswith(_TIMES):
            return time_text(found)
        if name.endswith(_SIZES):
            return size_text(found)
    if name == "database" and isinstance(found, bytes):
        return found.hex()
    return found

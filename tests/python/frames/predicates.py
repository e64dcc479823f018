"""Predicates on messages, each with what it means in polars, in SQL and for a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import polars as pl
from hypothesis import strategies as st

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TOPICS = ["a", "a/", "a/b", "a/b/c", "ab/c", "/", "/a", "$SYS", "$SYS/a", "b/b", "b", "é/ü", "a'b"]
TEXTS = [*TOPICS, "", "a/b/", "a/+", "#", "a+/b", "nobody"]
TIMES = [0, 1, 2, 5, 9]
ROWS = [
    (topic, time, f"{topic}@{time}".encode() + b"\xff" * (time == 9))
    for topic in TOPICS
    for time in TIMES
]
BASES = [None, "#", "+", "a/#", ["a/b", "b/#", "$SYS/#"], "+/b", "$SYS/+", "nobody/#"]
Row = tuple[str, int, bytes]


@dataclass(frozen=True)
class Predicate:
    """A condition on messages in three languages."""

    polars: pl.Expr
    sql: str
    passes: Callable[[Row], bool]


def at(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def sql_time(us: int) -> str:
    return f"make_timestamptz({us})"


def topic_is(text: str) -> Predicate:
    return Predicate(pl.col("topic") == text, f"topic = {quoted(text)}", lambda row: row[0] == text)


def topic_among(texts: list[str]) -> Predicate:
    listed = ", ".join(map(quoted, texts))
    return Predicate(
        pl.col("topic").is_in(texts), f"topic IN ({listed})", lambda row: row[0] in texts
    )


def topic_begins(text: str) -> Predicate:
    return Predicate(
        pl.col("topic").str.starts_with(text),
        f"starts_with(topic, {quoted(text)})",
        lambda row: row[0].startswith(text),
    )


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def time_is(sign: str, us: int, is_swapped: bool) -> Predicate:
    compare = COMPARISONS[sign]
    column, moment = pl.col("timestamp"), pl.lit(at(us))
    if is_swapped:
        return Predicate(
            compare(moment, column),
            f"{sql_time(us)} {sign} timestamp",
            lambda row: bool(compare(us, row[1])),
        )
    return Predicate(
        compare(column, moment),
        f"timestamp {sign} {sql_time(us)}",
        lambda row: bool(compare(row[1], us)),
    )


def time_between(low: int, high: int) -> Predicate:
    return Predicate(
        pl.col("timestamp").is_between(at(low), at(high)),
        f"timestamp BETWEEN {sql_time(low)} AND {sql_time(high)}",
        lambda row: low <= row[1] <= high,
    )


def time_among(moments: list[int]) -> Predicate:
    listed = ", ".join(map(sql_time, moments))
    return Predicate(
        pl.col("timestamp").is_in([at(us) for us in moments]),
        f"timestamp IN ({listed})",
        lambda row: row[1] in moments,
    )


def value_is(value: bytes) -> Predicate:
    return Predicate(
        pl.col("value") == value,
        f"value = from_hex('{value.hex()}')",
        lambda row: row[2] == value,
    )


def both(one: Predicate, other: Predicate) -> Predicate:
    return Predicate(
        one.polars & other.polars,
        f"({one.sql} AND {other.sql})",
        lambda row: one.passes(row) and other.passes(row),
    )


def either(one: Predicate, other: Predicate) -> Predicate:
    return Predicate(
        one.polars | other.polars,
        f"({one.sql} OR {other.sql})",
        lambda row: one.passes(row) or other.passes(row),
    )


def negated(one: Predicate) -> Predicate:
    return Predicate(~one.polars, f"NOT ({one.sql})", lambda row: not one.passes(row))


_texts = st.sampled_from(TEXTS)
_times = st.integers(0, 11)
_leaves = st.one_of(
    st.builds(topic_is, _texts),
    st.builds(topic_among, st.lists(_texts, min_size=1, max_size=4, unique=True)),
    st.builds(topic_begins, _texts),
    st.builds(time_is, st.sampled_from(sorted(COMPARISONS)), _times, st.booleans()),
    st.builds(time_between, _times, _times),
    st.builds(time_among, st.lists(_times, min_size=1, max_size=3, unique=True)),
    st.builds(value_is, st.sampled_from([value for _, _, value in ROWS[:9]] + [b"", b"nothing"])),
)
predicates = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(both, inner, inner), st.builds(either, inner, inner), st.builds(negated, inner)
    ),
    max_leaves=4,
)

"""Hypothesis strategies for topics, filters, times and schemas.

Most words come from a small vocabulary, so that topics share levels and reach thresholds. The other
words are any text that MQTT allows.
"""

from __future__ import annotations

from hypothesis import strategies as st
from support import Layout

from model.model import Key, Schema
from model.topics import is_filter

_WORDS = ["a", "b", "c", "d", "e", "", "$a", "$", "é", "\x01", "long" * 20]
_TOPICS_AT_THE_LIMIT = [
    "x" * 65_535,
    "$" + "y" * 65_534,
    "a/" + "é" * 32_766 + "z",
    "/".join(["deep"] * 200),
    "/".join(f"{i}" for i in range(200)),
    "/" * 199,
    "/",
    "//",
    "$",
    "$/",
    "a//b/",
]
TIMESTAMP_MAX = 2**63 - 1

any_level = st.text(
    st.characters(exclude_characters="\0/+#", exclude_categories=["Cs"]), max_size=6
)
few_words = st.sampled_from(_WORDS[:4])
word = st.one_of(few_words, few_words, st.sampled_from(_WORDS), any_level)
common_topic = st.lists(word, min_size=1, max_size=4).map("/".join).filter(bool)
topic = st.integers(0, 24).flatmap(
    lambda n: st.sampled_from(_TOPICS_AT_THE_LIMIT) if n == 0 else common_topic
)

timestamp = st.one_of(
    st.integers(0, 4),
    st.sampled_from([0, 1, TIMESTAMP_MAX - 1, TIMESTAMP_MAX, 1_700_000_000_000_000]),
    st.integers(0, TIMESTAMP_MAX),
)
payload = st.one_of(st.binary(max_size=4), st.binary(max_size=4), st.just(b"v" * 99))


@st.composite
def fleets(draw: st.DrawFn) -> list[tuple[str, int, bytes]]:
    """Draws messages of like topics, such as "a/17/b", which reach thresholds and share times."""
    first = draw(st.sampled_from(["a", "b", "c", "$a", "", "a/b"]))
    last = draw(st.sampled_from(["", "/b", "/c/d", "/$a"]))
    begin, count, step = draw(st.integers(0, 20)), draw(st.integers(1, 30)), draw(st.integers(1, 4))
    return [(f"{first}/{i}{last}", i // step, b"%d" % i) for i in range(begin, begin + count)]


def filters(topics: list[str]) -> st.SearchStrategy[str]:
    """Draws filters: one of ``topics``, or any other topic, with wildcards put in."""
    return _filter_texts(topics).filter(is_filter)


@st.composite
def _filter_texts(draw: st.DrawFn, topics: list[str]) -> str:
    source = draw(topic)
    if topics and draw(st.integers(0, 4)) > 0:
        source = draw(st.sampled_from(topics))
    levels = source.split("/")
    if len(levels) > 6:  # one draw places the wildcards of up to 200 levels
        stride = draw(st.integers(1, len(levels)))
        levels = ["+" if i % stride == stride - 1 else w for i, w in enumerate(levels)]
    else:
        levels = [draw(st.sampled_from([w, w, "+"])) for w in levels]
    if draw(st.booleans()):
        levels = [*levels[: draw(st.integers(0, len(levels)))], "#"]
    return "/".join(levels) or "+"


_LAYOUTS: list[tuple[Layout, int]] = [
    ("columnar", 8),
    ("columnar", 8),
    ("skipstream", 8),
    ("skipstream", 0),
]
layouts = st.sampled_from(_LAYOUTS)
"""(layout of the first generations, timestamp_bytes)"""

key = st.one_of(
    st.sampled_from(["c1", "c2", "c3", "a", "c/+/#", "é", b"c1", b"\x00\xff"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)
"""A key of a message, which need not be a topic."""
some_keys: st.SearchStrategy[Key | list[Key]] = st.one_of(
    st.none(), key, st.lists(st.none() | key, min_size=1, max_size=5)
)
"""No key, one for all messages, or keys that the messages have in turns."""

schemas = st.builds(
    lambda layout, **rest: Schema(layout=layout[0], timestamp_bytes=layout[1], **rest),
    layout=layouts,
    shards=st.integers(1, 3),
    shard_by=st.sampled_from(["topic", "key"]),
    thresholds=st.sampled_from([(2, 1), (0,), (1,), (100, 10), (3, 2, 0), (1, 0, 2)]),
    structures=st.sampled_from(
        [(), (), ("a/+/b",), ("a/#", "$a/+"), ("#",), ("+/b", "+/+/#", "$a/#"), ("a/b/+", "a/+/b")]
    ),
    retention=st.sampled_from(
        [
            ("$a/#", "#"),
            (),
            ("a/#",),
            ("b/+", "a/#", "#"),
            ("+/#", "$a/+"),
            ("a/#", "+/b/#"),
            ("#",),
        ]
    ),
)

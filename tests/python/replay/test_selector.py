"""Tests of selectors: what they mean, by examples and with SQLite, and what they refuse."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicdb.replay.selector.selector import Selector

PROPERTIES: dict[str, object] = {
    "plant": "north",
    "Plant": "south",
    "level": 3,
    "weight": 2.5,
    "wet": True,
    "dry": False,
    "client-id": "c7",
    "percent": "5%",
    "lines": "a\nb",
    "data": b"x",
}

TRUE = [
    "plant = 'north'",
    "Plant <> 'north'",
    "level > 2 AND weight <= 2.5",
    "level = 3.0 and level >= .3e1",
    "plant = 'x' OR level = 3",
    "NOT plant = 'x'",
    "plant = 'x' OR plant = 'north' AND level = 3",
    "(plant = 'north' OR plant = 'x') AND level = 3",
    "level BETWEEN 3 AND 4 AND weight NOT BETWEEN 3 AND 4",
    "plant IN ('x', 'north') AND plant NOT IN ('x', 'y')",
    "level IN (-3, 3)",
    "plant LIKE 'n%' AND plant LIKE '_o_t_' AND plant LIKE 'north' AND plant LIKE '%%'",
    "plant NOT LIKE 'N%' AND plant NOT LIKE 'nort' AND plant NOT LIKE '%o%o%'",
    "percent LIKE '_!%' ESCAPE '!' AND plant NOT LIKE '%!%' ESCAPE '!'",
    "lines LIKE 'a%b' AND lines LIKE 'a_b' AND lines LIKE '%\n%'",
    "plant LIKE '%no%th' AND plant LIKE 'no%orth' OR plant LIKE 'n%t%h'",
    "missing IS NULL AND plant IS NOT NULL AND data IS NOT NULL",
    "missing = 1 OR level = 3",
    "NOT (missing = 1 AND level = 4)",
    "level * 2 + 1 = 7 AND level - weight = 0.5",
    "level / 2 = 1 AND -level / 2 = -1 AND level / 2.0 = 1.5",
    "level / 0 IS NULL AND plant + 1 IS NULL AND missing + 1 IS NULL",
    "1e308 * 10 > 1e308 AND 1e308 * 10 - 1e308 * 10 IS NULL",
    "-level = -3 AND +level = 3 AND - - level = 3",
    "wet AND NOT dry AND wet = TRUE AND dry <> TRUE AND dry IN (FALSE)",
    "TRUE",
    "\"client-id\" = 'c7'",
    "plant = 'it''s' OR \"plant\" = 'north'",
    "level = 3 -- a comment",
    "level != 4",
]
FALSE_OR_UNKNOWN = [
    "plant = 'North'",
    "PLANT = 'north'",
    "missing = 1",
    "NOT missing = 1",
    "missing <> 1",
    "NOT (missing = 1 OR level = 4)",
    "missing BETWEEN 1 AND 2 OR NOT missing BETWEEN 1 AND 2",
    "missing IN ('a') OR missing NOT IN ('a')",
    "missing LIKE '%' OR missing NOT LIKE '%'",
    "plant = 3 OR plant <> 3 OR plant < 3",
    "level = '3' OR level <> '3'",
    "wet = 1 OR wet <> 1 OR wet = 'TRUE'",
    "wet > dry OR NOT wet > dry",
    "wet < TRUE",
    "level = TRUE OR NOT level = TRUE",
    "level LIKE '3' OR level NOT LIKE '3'",
    "plant IN (3) OR plant NOT IN (3)",
    "level NOT IN ('a', 4)",
    "plant OR NOT plant",
    "data = 'x' OR data <> 'x' OR data",
    "data IN ('x') OR data NOT IN ('x')",
    "wet + 1 = 2 OR wet + 1 <> 2",
    "plant LIKE 'north_' OR plant LIKE 'no' OR plant LIKE 'nor%rth' OR plant LIKE 'no%t%t%'",
    "FALSE",
]
REFUSED = {
    "": "no condition",
    "plant = ": "no condition",
    "plant = 'x": "quote",
    "plant = 'a' b": "'b' at column 13",
    "(level = 1": "no condition",
    "from = 1": "no condition",
    "upper(plant) = 'X'": r"UPPER\(plant\)",
    "cast(level as text) = '3'": "CAST",
    "level::text = '3'": "CAST",
    "(select 1) = level": "SELECT 1",
    "level in (select 1)": "SELECT 1",
    "exists (select 1)": "no such expression",
    "case when wet then dry end": "CASE",
    "plant || 'x' = 'y'": "no such expression",
    "level % 2 = 1": "no such expression",
    "plant ilike 'N%'": "no such expression",
    "plant is distinct from 'x'": "no such expression",
    "level between symmetric 4 and 3": "no such expression|a value",
    "plant = ?": "no such expression",
    "plant = :x": "no such expression",
    "a.b = 1": "a name with dots needs double quotes",
    "current_date = 3": "CURRENT_DATE",
    "level = 1; level = 2": "';'",
    "level = 1;": "';'",
    "level = NULL": "IS NULL",
    "level IS TRUE": "IS NULL",
    "level": None,
    "level + 1": "a value, not a condition",
    "'x'": "a value, not a condition",
    "(level = 3) = TRUE": "a condition, not a value",
    "1 < level < 4": "a condition, not a value",
    "level in ()": "expected values",
    "level in (weight)": "expected text in single quotes",
    "plant in plants": "no such expression",
    "plant like Plant": "pattern in single quotes",
    "plant like 3": "pattern in single quotes",
    "plant like 'a' escape '!!'": "one character",
    "plant like '!a' escape '!'": "escape character",
    "plant like 'a!' escape '!'": "escape character",
    "level = 5e": "no number",
    "level = 1e999": "no number",
    "level = " + 5000 * "9": "no number",
    "* = 1": "",
    "(level, weight) = 1": "no such expression",
    "'a' 'b' = plant": "no such expression",
    "(" * 150 + "level = 1" + ")" * 150: "nested",
    "level = " + "1 + " * 150 + "1": "nested",
    "(" * 20_000 + "level = 1" + ")" * 20_000: "nested|no condition",
}


@pytest.mark.parametrize("text", TRUE)
def test_what_matches(text: str) -> None:
    assert Selector(text).matches(PROPERTIES)


@pytest.mark.parametrize("text", FALSE_OR_UNKNOWN)
def test_what_does_not(text: str) -> None:
    assert not Selector(text).matches(PROPERTIES)


@pytest.mark.parametrize("text", [text for text, why in REFUSED.items() if why is not None])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)^selector .*{REFUSED[text]}"):
        Selector(text)


def test_names_and_equality() -> None:
    selector = Selector("a = 1 AND (B IS NULL OR \"c d\" LIKE 'x' OR a > e / 2 OR f)")
    assert selector.names == {"a", "B", "c d", "e", "f"}
    assert Selector("TRUE").names == frozenset()
    assert selector == Selector(selector.text) and selector != Selector("a = 1")
    assert selector != selector.text and len({selector, Selector(selector.text)}) == 1
    assert repr(Selector("a = 1")) == "Selector('a = 1')"
    with pytest.raises(TypeError, match="selector"):
        Selector(None)  # type: ignore[arg-type]


def test_thousands_of_alternatives() -> None:
    selector = Selector(" OR ".join(f"plant = 'p{number}' AND wet" for number in range(3_000)))
    for number in (0, 1_500, 2_999):
        assert selector.matches({"plant": f"p{number}", "wet": True})
    assert not selector.matches({"plant": "p3000", "wet": True})


def test_no_pattern_takes_long() -> None:
    selector = Selector(f"a LIKE '{'%a' * 50}%b'")
    assert not selector.matches({"a": "a" * 60_000})  # a matcher that goes back would take ages
    assert selector.matches({"a": "a" * 60_000 + "b"})


def test_without_sqlglot() -> None:
    code = """
import sys
sys.modules["sqlglot"] = None
from topicdb.replay.selector.selector import Selector
try:
    Selector("a = 1")
except ImportError as error:
    assert "topicdb[replay]" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


# Comparison with SQLite, whose logic is the same for values of the same kinds

Given: TypeAlias = "dict[str, str | int | float | None]"
TEXTS = st.text("ab%_!'\n", max_size=4)
NUMBERS = st.integers(-5, 5) | st.sampled_from([0.0, 0.5, -1.5, 2.0])
GIVEN = st.fixed_dictionaries(
    {
        **dict.fromkeys(["s", "t"], st.none() | TEXTS),
        **dict.fromkeys(["m", "n"], st.none() | NUMBERS),
    }
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def pattern(characters: str) -> str:
    """Returns a pattern with each ``!`` doubled, as ``!`` is the escape character."""
    return "".join(c if c != "!" else "!!" for c in characters)


text_operands = st.sampled_from(["s", "t"]) | TEXTS.map(quoted)
number_literals = NUMBERS.map(lambda number: str(number))
number_operands = st.recursive(
    st.sampled_from(["m", "n"]) | number_literals,
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("({})".format, inner),
        st.builds("- {}".format, st.sampled_from(["m", "n", "3"])),
    ),
    max_leaves=5,
)
orders = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
negations = st.sampled_from(["", "NOT "])
texts_listed = st.lists(TEXTS.map(quoted), min_size=1, max_size=3).map(", ".join)
numbers_listed = st.lists(number_literals, min_size=1, max_size=3).map(", ".join)
predicates = st.one_of(
    st.builds("{} {} {}".format, text_operands, orders, text_operands),
    st.builds("{} {} {}".format, number_operands, orders, number_operands),
    st.builds("{} {}IN ({})".format, text_operands, negations, texts_listed),
    st.builds("{} {}IN ({})".format, number_operands, negations, numbers_listed),
    st.builds(
        "{} {}BETWEEN {} AND {}".format,
        number_operands,
        negations,
        number_operands,
        number_operands,
    ),
    st.builds(
        "{} {}BETWEEN {} AND {}".format, text_operands, negations, text_operands, text_operands
    ),
    st.builds("{} {}LIKE {}".format, text_operands, negations, TEXTS.map(quoted)),
    st.builds(
        "{} {}LIKE {} ESCAPE '!'".format,
        text_operands,
        negations,
        TEXTS.map(pattern).map(quoted),
    ),
    st.builds("{} IS {}NULL".format, text_operands | number_operands, negations),
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("NOT {}".format, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = on")
    yield connection
    connection.close()


@settings(max_examples=400)
@given(text=conditions, properties=GIVEN)
def test_as_sqlite(sqlite: sqlite3.Connection, text: str, properties: Given) -> None:
    # Values of a subquery have no affinity: numbers and texts stay what they are.
    query = f"SELECT {text} FROM (SELECT :s AS s, :t AS t, :m AS m, :n AS n)"
    (expected,) = sqlite.execute(query, properties).fetchone()
    present = {name: value for name, value in properties.items() if value is not None}
    found = Selector(text)._condition(present)
    assert found == (None if expected is None else bool(expected))
    assert Selector(text).matches(present) is (expected == 1)

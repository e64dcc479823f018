"""Checks that the pages of docs/reference list what there is: the API, options, metrics, errors."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from public_api import PUBLIC_MODULES, members_of, public_things

import topicdb
import topicdb.forward
import topicdb.replay
from topicdb import _core
from topicdb.bridge import Bridge
from topicdb.remote.server.handles import Limits

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
DIRECTIVE = re.compile(r"^::: (\S+)$(?:\n {4}options:((?:\n {6}.*)*))?", re.MULTILINE)
MEMBERS = re.compile(r"members: \[(.*)\]")
ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
REQUIRED = inspect.Parameter.empty

OPTIONS: dict[str, Callable[..., Any]] = {
    "topicdb.open": topicdb.open,
    "topicdb.serve": topicdb.serve,
    "Limits": Limits,
    "topicdb.connect": topicdb.connect,
    "Queue.open": topicdb.Queue.open,
    "Bridge": Bridge,
    "Forwarder": topicdb.forward.Forwarder,
    "MqttSink": topicdb.forward.MqttSink,
    "Database.subscribe": topicdb.Database.subscribe,
    "Database.consumer": topicdb.Database.consumer,
    "Database.group": topicdb.Database.group,
    "Database.session": topicdb.Database.session,
    "replay.open": topicdb.replay.open,
}


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def sections_of(text: str) -> dict[str, str]:
    parts = SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Gives the name in backticks that a row of a table begins with, and the other cells."""
    for name, cells in ROW.findall(text):
        yield name, [cell.strip() for cell in cells.split("|")]


def found_at(path: str) -> object:
    """Returns the object that has this path, from a module on."""
    names = path.split(".")
    for end in range(len(names), 0, -1):
        try:
            thing: object = import_module(".".join(names[:end]))
        except ModuleNotFoundError:
            continue
        for name in names[end:]:
            thing = getattr(thing, name)
        return thing
    raise AssertionError(f"no module of {path}")


def documented() -> Iterator[tuple[str, str, object]]:
    """Gives each directive of the pages of the API: the page, the path, and the object."""
    for file in sorted((REFERENCE / "api").glob("*.md")):
        for path, options in DIRECTIVE.findall(file.read_text(encoding="utf-8")):
            yield file.name, path, found_at(path)
            if listed := MEMBERS.search(options or ""):
                for name in listed[1].split(", "):
                    yield file.name, f"{path}.{name}", getattr(found_at(path), name)


def test_pages_of_the_api_have_everything_once() -> None:
    pages: dict[int, list[str]] = {}
    for name, path, thing in documented():
        pages.setdefault(id(thing), []).append(f"{name}: {path}")
    expected = {
        name: thing
        for module in PUBLIC_MODULES
        for name, thing in public_things(import_module(module))
    }
    expected |= {f"topicdb.Database.{name}": thing for name, thing in members_of(topicdb.Database)}
    for name in list(expected):
        if name.startswith("topicdb.Database."):  # staticmethod and property by their names
            expected[name] = getattr(topicdb.Database, name.rsplit(".", 1)[1])
    missing = [name for name, thing in expected.items() if id(thing) not in pages]
    assert not missing, f"docs/reference/api has no page with {missing}"
    twice = [places for places in pages.values() if len(places) > 1]
    assert not twice, f"docs/reference/api has these twice: {twice}"


def default_of(cell: str) -> object:
    """Returns the value that a cell of a table of options stands for."""
    if cell == "required":
        return REQUIRED
    assert cell.startswith("`") and cell.endswith("`"), f"{cell} is no default in backticks"
    text = cell.strip("`")
    number, _, unit = text.partition(" ")
    return int(number) * SIZES[unit] if unit in SIZES else ast.literal_eval(text)


@pytest.mark.parametrize("heading", OPTIONS)
def test_options_are_those_of_the_signatures(heading: str) -> None:
    told = {
        name: default_of(cells[2]) for name, cells in rows_of(sections_of(page("options"))[heading])
    }
    signature = inspect.signature(OPTIONS[heading])
    assert told == {
        name: item.default for name, item in signature.parameters.items() if name != "self"
    }


def test_every_table_of_options_is_checked() -> None:
    assert set(sections_of(page("options"))) == set(OPTIONS)


def test_metrics_are_those_of_the_collector(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from topicdb.metrics import Collector

    told = {name: (cells[0], cells[1]) for name, cells in rows_of(page("metrics"))}
    with ExitStack() as stack:
        if _core.REPLICATION_LACKS:
            db = stack.enter_context(topicdb.open(tmp_path / "metrics.db"))
            told = {name: cells for name, cells in told.items() if "_replica_" not in name}
        else:
            sites = {"a": "127.0.0.1:0"}
            site = stack.enter_context(topicdb.Site(tmp_path / "site", name="a", sites=sites))
            db = site.open()
        server = stack.enter_context(topicdb.serve(db))
        found = {
            metric.name: (metric.type, ", ".join(getattr(metric, "_labelnames", ())))
            for metric in Collector(db, server).collect()
        }
    assert told == found


def test_errors_are_those_of_topicdb() -> None:
    errors = {
        name: thing
        for name in topicdb.__all__
        if inspect.isclass(thing := getattr(topicdb, name))
        and issubclass(thing, topicdb.Error)
        and thing is not topicdb.Error
    }
    text = page("errors")
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \| `(\w+)` \|", text, re.MULTILINE)
    assert {name: built_in for name, _, built_in in rows} == {
        name: next(base.__name__ for base in thing.__mro__ if base.__module__ == "builtins")
        for name, thing in errors.items()
    }
    assert all(anchor == name.lower() for name, anchor, _ in rows)
    sections = sections_of(text)
    assert list(sections) == [name for name, _, _ in rows]
    for name, section in sections.items():
        parts = re.findall(r"^\*\*(.*?):\*\* \S", section, re.MULTILINE)
        assert parts == ["Meaning", "Cause", "What to do"], name

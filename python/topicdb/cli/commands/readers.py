"""``topicdb readers``: consumers and groups, how far each is behind, and what it has lost."""

from __future__ import annotations

import json

import topicdb
from topicdb.cli.options import JsonOption, PathArgument
from topicdb.cli.output import printable
from topicdb.cli.report import console, table


def readers(path: PathArgument, as_json: JsonOption = False) -> None:
    """List consumers and groups: how far each is behind, and what it has lost."""
    with topicdb.open(path, mode="r") as database:
        found = database.standings()
    if as_json:
        print(json.dumps({"readers": [reader._asdict() for reader in found]}, indent=2))
        return
    result = table("kind", "name", "filters", "lag>", "lost>")
    for one in found:
        filters = "every topic" if one.filters is None else ", ".join(one.filters)
        result.add_row(
            one.kind, printable(one.name), printable(filters), f"{one.lag:,}", f"{one.lost:,}"
        )
    console().print(result)

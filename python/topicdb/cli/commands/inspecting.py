"""Commands that show what a database is made of: ``info``, ``streams``, ``stats`` and others."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from topicdb import jobs
from topicdb.cli import report
from topicdb.cli.options import (
    EndOption,
    FilterArgument,
    JsonOption,
    PartialOption,
    StartOption,
    TzOption,
)
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.times import range_of


@at_place
def info(place: Place, tz: TzOption = None, as_json: JsonOption = False) -> None:
    """Show the schema, the slabs, counts, sizes, the time range, and which shards are missing.

    \b
    Example:
      topicdb info fleet.db
    """
    with place.read(partial=True) as database:
        if as_json:
            print_json(report.info_json(database))
        else:
            report.print_info(database)


@at_place
def streams(
    place: Place,
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    partial: PartialOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the streams that may hold messages for FILTER.

    \b
    Example:
      topicdb streams fleet.db 'site/#' --start yesterday
    """
    with place.read(partial=partial) as database, Waiting("looking for streams"):
        found = database.streams(filter, **range_of(start, end, tz), partial=partial)
    if as_json:
        print_json({"streams": [report.stream_json(stream) for stream in found]})
    else:
        report.print_streams(found)


@at_place
def spark_log(place: Place, tz: TzOption = None, as_json: JsonOption = False) -> None:
    """List the jobs that were stored, and of each streaming query of Spark the last batch.

    \b
    Example:
      topicdb spark-log fleet.db
    """
    with place.read() as database:
        found = jobs.applied(database)
    if as_json:
        print_json({"jobs": [asdict(job) for job in found]})
    else:
        report.print_jobs(found)


@at_place
def structures(
    place: Place,
    filter: FilterArgument = "#",
    sizes: Annotated[
        bool,
        typer.Option("--sizes", help="Show messages and bytes, too. This reads all messages."),
    ] = False,
    partial: PartialOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the learned topic structures that may match FILTER, as a tree.

    \b
    Example:
      topicdb structures fleet.db --sizes
    """
    with place.read(partial=partial) as database, Waiting("counting"):
        found = database.structures(filter, partial=partial)
        measured = report.structure_sizes(database, filter, found) if sizes else None
        title = database.path
    if as_json:
        print_json({"structures": report.structures_json(found, measured)})
    else:
        report.console().print(report.structure_tree(found, title, measured))


@at_place
def stats(place: Place, as_json: JsonOption = False, tz: TzOption = None) -> None:
    """Show counters, sizes and the state of each shard, and which shards are missing.

    \b
    Example:
      topicdb stats fleet.db --json
    """
    with place.read(partial=True) as database:
        figures: dict[str, Any] = database.stats()
    if as_json:
        print_json(figures)
    else:
        report.print_stats(figures)


@at_place
def explain(
    place: Place,
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    partial: PartialOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a scan without showing its messages, and say what it read and what it could skip.

    \b
    Example:
      topicdb explain fleet.db 'site/+/pump' --start -1h
    """
    with place.read(partial=partial) as database, Waiting("reading"):
        found = database.explain(filter, **range_of(start, end, tz), partial=partial)
    if as_json:
        print_json(found)
    else:
        report.print_explained(found)

"""Commands about whole databases: copies, ``verify``, ``repair``, ``drop`` and ``ls``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

import topicdb
from topicdb import _core
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import UserError, message_of
from topicdb.cli.options import JsonOption, directory_argument
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Meter, Waiting
from topicdb.cli.report import console, table

RestoredArgument = Annotated[
    str,
    directory_argument(
        "it makes the files of a database; run it on the machine where the database is to be, and "
        "serve the database then"
    ),
]
RepairedArgument = Annotated[
    str,
    directory_argument(
        "it makes files of a database anew while nobody has it open; end the server, and run the "
        "command on its machine"
    ),
]
DroppedArgument = Annotated[
    str,
    directory_argument(
        "it removes the files of a database while nobody has it open; end the server, and run the "
        "command on its machine (topicdb delete removes messages at a server, too)"
    ),
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="SNAPSHOT", help="Do not copy files again that this earlier snapshot has."
    ),
]
CopyOption = Annotated[
    bool, typer.Option("--copy", help="Copy every byte, instead of making hard links.")
]


@at_place
def snapshot(
    place: Place,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="Give a new directory. At a server, give its name in the folder for snapshots.",
        ),
    ],
    base: BaseOption = None,
    copy: CopyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a database that no other process has open for writing, or that a server offers.

    A program that has it open for writing calls Database.snapshot.

    \b
    Example:
      topicdb snapshot fleet.db backup/tuesday --base backup/monday
    """
    with place.write() as database, Waiting(f"copying {place.where}"):
        made = database.snapshot(to, base=base, copy=copy)
    _print_copy(made, as_json=as_json)


def restore(
    snapshot: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="Give the directory of a snapshot, or of any database."
        ),
    ],
    path: RestoredArgument,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a database that is there.")
    ] = False,
    base: BaseOption = None,
    copy: CopyOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a database from a snapshot, which stays as it is.

    With --replace the command says what is at PATH, and asks before that goes.

    \b
    Example:
      topicdb restore backup/tuesday fleet.db
    """
    if replace and not yes:
        _confirm_replaced(path)
    with Waiting(f"restoring {path}"):
        made = topicdb.restore(snapshot, path, replace=replace, base=base, copy=copy)
    _print_copy(made, as_json=as_json)


@at_place
def verify(
    place: Place,
    shallow: Annotated[
        bool,
        typer.Option(
            "--shallow", help="Check the indexes only, and not each message, which is fast."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check what is on disk, also while another process writes.

    The exit code is 1 if something is damaged.

    \b
    Example:
      topicdb verify fleet.db
    """
    path = place.where
    if place.is_url:
        with place.read() as database, Waiting(f"verifying {path}"):
            report = database.verify(deep=not shallow)
    else:
        with Meter(of_messages=True) as meter:
            report = topicdb.verify(place.directory(), deep=not shallow, progress=meter.advance)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        for problem in report.problems:
            print(f"damaged: {printable(str(problem))}")
    if not report.ok:
        raise UserError(f"{path}: {len(report.problems)} problems")
    if not as_json:
        print(
            f"{path}: {report.messages:,} messages in {report.slabs} slabs of {report.shards} "
            "shards, nothing damaged"
        )


def repair(
    path: RepairedArgument,
    replace_missing: Annotated[
        bool,
        typer.Option("--replace-missing", help="Begin shards anew whose directories are gone."),
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make damaged shards anew from what can be read.

    The command says what is damaged, and asks. Damaged shards are kept in quarantine. The exit code
    is 1 if something remains damaged.

    \b
    Example:
      topicdb repair fleet.db
    """
    if not yes and not _confirm_repair(path, as_json):
        return
    with Meter(of_messages=True) as meter:
        report = topicdb.repair(
            path,
            progress=lambda _, done, total: meter.advance(done, total),
            replace_missing=replace_missing,
        )
    if as_json:
        print(json.dumps({**asdict(report), "lost": report.lost}))
    else:
        for problem in report.problems:
            print(f"was damaged: {printable(str(problem))}")
        for problem in report.remaining:
            print(f"damaged: {printable(str(problem))}")
    if not report.ok:
        hint = ""
        if any(_is_gone(path, problem) for problem in report.remaining):
            hint = "; --replace-missing begins a shard anew whose directory is gone"
        raise UserError(f"{path}: {len(report.remaining)} problems remain{hint}")
    if as_json:
        return
    if not report.shards:
        print(f"{path}: nothing damaged")
        return
    kept = f"; what they were is in {report.quarantine}" if report.quarantine else ""
    print(
        f"{path}: {len(report.shards)} shards made anew with {report.messages:,} messages, "
        f"{report.lost:,} are known to be lost{kept}"
    )


def _is_gone(path: str, problem: topicdb.Problem) -> bool:
    """Returns whether the problem is that the directory of a shard is gone."""
    return problem.shard is not None and not Path(path, "shards", f"{problem.shard:04}").exists()


def drop(path: DroppedArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove a database with all its messages, for good.

    The command says what goes, and asks. It is refused while the database is open anywhere, and if
    its directory holds anything that is not TopicDB's. A drop that was cut short goes on.

    \b
    Example:
      topicdb drop old.db
    """
    foreseen = topicdb.drop(path, dry_run=True)  # a reason to refuse comes before the question
    if not yes:
        files = f"{foreseen.files:,} files, {decimal(foreseen.bytes)}"
        confirm(f"{path} with {_messages_at(path)} ({files}) goes for good", yes=False)
    with Waiting(f"dropping {path}"):
        dropped = topicdb.drop(path)
    if as_json:
        print_json({"path": path, "files": dropped.files, "bytes": dropped.bytes})
    else:
        print(f"dropped {path}: {dropped.files:,} files, {decimal(dropped.bytes)}")


@dataclass(frozen=True)
class _Listed:
    """A row of ``topicdb ls``. What is not known of a damaged database is None."""

    path: str
    state: str
    shards: int | None
    layout: str | None
    bytes: int


def ls(
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="Give a directory that has databases in it.")
    ] = ".",
    as_json: JsonOption = False,
) -> None:
    """List the databases right below a directory.

    The state is "whole" or "damaged", as far as a look at the descriptor tells, or "creating" or
    "dropping" where that was cut short, or is under way.

    \b
    Example:
      topicdb ls /var/lib/plant
    """
    with Waiting("measuring"):
        found = [_listed(path, state) for path, state in _core.databases_in(directory)]
    if as_json:
        print(json.dumps({"databases": [asdict(one) for one in found]}))
        return
    rows = table("database", "state", "shards>", "layout", "on disk>")
    for one in found:
        shards = "-" if one.shards is None else str(one.shards)
        rows.add_row(printable(one.path), one.state, shards, one.layout or "-", decimal(one.bytes))
    console().print(rows)


def _listed(path: str, state: str) -> _Listed:
    size = sum(file.lstat().st_size for file in Path(path).rglob("*") if file.is_file())
    if state != "database":
        return _Listed(path, state, None, None, size)
    try:
        schema = _core.read_schema(path)
    except topicdb.Error:
        return _Listed(path, "damaged", None, None, size)
    return _Listed(path, "whole", schema["shards"], schema["layout"], size)


def _confirm_replaced(path: str) -> None:
    try:
        with topicdb.open(path, mode="r") as database:
            messages = sum(slab.messages for slab in database.slabs())
            size = decimal(database.stats()["disk_bytes"])
    except topicdb.NotFoundError:
        return
    except topicdb.CorruptionError as error:
        confirm(f"what is at {path} goes, which is damaged ({message_of(error)})", yes=False)
        return
    confirm(f"{path} with {messages:,} messages ({size}) goes", yes=False)


def _messages_at(path: str) -> str:
    """Returns text such as "1,000 messages"; also of a database that cannot be opened."""
    try:
        with Place(path).read(partial=True) as database:
            messages = f"{sum(slab.messages for slab in database.slabs()):,} messages"
            if database.missing_shards:
                messages += f" and {len(database.missing_shards)} shards that cannot be read"
            return messages
    except topicdb.Error as error:
        return f"messages that cannot be counted ({message_of(error)})"


def _confirm_repair(path: str, as_json: bool) -> bool:
    """Returns whether to repair, after it has asked; False if nothing is damaged.

    Raises UserError if the answer is no, or nobody can be asked.
    """
    with Meter(of_messages=True) as meter:
        found = topicdb.verify(path, progress=meter.advance)
    if found.ok:
        if as_json:
            nothing = topicdb.Repair([], found.messages, None, [], [])
            print(json.dumps({**asdict(nothing), "lost": 0}))
        else:
            print(f"{path}: nothing damaged")
        return False
    if all(problem.shard is None for problem in found.problems):
        return True  # no repair can mend that: ``repair`` says so, and changes nothing
    known = sum(problem.messages for problem in found.problems)
    first = printable(str(found.problems[0]))
    more = len(found.problems) - 1
    confirm(
        f"{first}{f' and {more:,} other problems' if more else ''}; a repair makes the damaged "
        f"shards anew without what cannot be read ({known:,} messages are known to be lost)",
        yes=False,
    )
    return True


def _print_copy(made: topicdb.Snapshot, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(made))
        return
    print(
        f"{made.path}: {made.files} files, {decimal(made.bytes)}, "
        f"of which {decimal(made.copied_bytes)} were copied"
    )

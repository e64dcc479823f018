"""``topicdb upload`` and ``topicdb download``: databases in object stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal

from topicdb.cli.options import JsonOption, directory_argument
from topicdb.cli.output import print_json
from topicdb.cli.places import Place
from topicdb.cli.progress import Waiting

UploadedArgument = Annotated[
    str,
    directory_argument(
        "it copies the files of a database; run it on the machine of the server while that is "
        "down, or call topicdb.uploads.upload in the program that has the database open"
    ),
]
DownloadedArgument = Annotated[
    str,
    directory_argument(
        "it makes the files of a database; run it on the machine where the database is to be, and "
        "serve the database then"
    ),
]
StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="Give s3://BUCKET/FOLDER, another URL of an object store, or a folder.",
    ),
]
KeepOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Remove all but the N newest uploads, with the files that no other one has.",
    ),
]


def upload(
    path: UploadedArgument,
    store: StoreArgument,
    keep: KeepOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write and remove nothing; say what would be.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a database to an object store, where Spark reads it without a server.

    Only files that the store lacks are written. No other process may have the database open for
    writing: a program that has calls topicdb.uploads.upload.

    \b
    Example:
      topicdb upload fleet.db s3://plant/fleet --keep 7
    """
    from topicdb.uploads import upload as upload_to

    with Place(path).write() as database, Waiting(f"uploading {path}"):
        made = upload_to(database, store, keep=keep, dry_run=dry_run)
    if as_json:
        print_json(asdict(made))
        return
    did, removed = ("would write", "remove") if dry_run else ("wrote", "removed")
    print(
        f"{made.url}: upload {made.number} of {made.files} files, {decimal(made.bytes)}; "
        f"{did} {made.new_files} files, {decimal(made.new_bytes)}; "
        f"{removed} {made.removed_files} files, {decimal(made.removed_bytes)}"
    )


def download(store: StoreArgument, path: DownloadedArgument, as_json: JsonOption = False) -> None:
    """Make a database of the newest upload in an object store.

    \b
    Example:
      topicdb download s3://plant/fleet fleet.db
    """
    from topicdb.uploads import download as download_from

    with Waiting(f"downloading {store}"):
        found = download_from(store, path)
    if as_json:
        print_json({"path": path, "number": found.number, "bytes": found.bytes})
        return
    print(f"{path}: upload {found.number}, {len(found.files)} files, {decimal(found.bytes)}")

"""The commands: each takes options, makes one call, and prints the result."""

from __future__ import annotations

from typing import Annotated

import typer

import topicdb
from topicdb import _core
from topicdb.cli.commands import (
    bridge,
    care,
    changing,
    cluster,
    consumers,
    counting,
    ingest,
    inspecting,
    lifecycle,
    messages,
    parquet,
    queue,
    serve,
    sql,
    tail,
    token,
    top,
    uploads,
)
from topicdb.cli.commands.replay import commands as replay_commands
from topicdb.cli.errors import EXIT_INTERRUPTED, ErrorGroup
from topicdb.cli.helping import fill_help
from topicdb.cli.times import show_in

app = typer.Typer(
    cls=ErrorGroup,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(consumers.app, name="consumers")
app.add_typer(queue.app, name="queue")
app.add_typer(token.token_app, name="token")
app.add_typer(cluster.cluster_app, name="cluster")
app.add_typer(replay_commands.app, name="replay")


def run() -> int:
    """Runs the command line of this process, and returns or exits with the exit code."""
    try:
        app(prog_name="topicdb")
    except KeyboardInterrupt:  # it came before or after a command ran
        return EXIT_INTERRUPTED
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        print(
            f"topicdb {topicdb.__version__} "
            f"(format {_core.FORMAT_VERSION}, RocksDB {_core.ROCKSDB_VERSION})"
        )
        raise typer.Exit()


@app.callback()
def topicdb_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
) -> None:
    """Stores, finds and shows MQTT messages in a TopicDB database.
    PATH is the directory of a database, and URL the address of a server that offers one. Commands
    that read work while another process writes. Exit codes: 0 done, 1 error, 2 wrong usage, 3
    another process has the database open for writing, 130 interrupted with Ctrl-C.
    """
    show_in(None)


app.command()(messages.scan)
app.command()(messages.last)
app.command()(tail.tail)
app.command()(top.top)
app.command()(counting.count)
app.command()(sql.sql)
app.command()(changing.publish)
app.command()(changing.delete)
app.command()(ingest.ingest)
app.command("export")(parquet.export)
app.command("import")(parquet.import_files)
app.command()(inspecting.info)
app.command()(inspecting.streams)
app.command()(inspecting.structures)
app.command()(inspecting.stats)
app.command()(inspecting.explain)
app.command()(inspecting.spark_log)
app.command()(lifecycle.retention)
app.command()(lifecycle.usage)
app.command()(lifecycle.plan)
app.command()(lifecycle.trim)
app.command()(lifecycle.rotate)
app.command()(care.snapshot)
app.command()(care.restore)
app.command()(uploads.upload)
app.command()(uploads.download)
app.command()(care.verify)
app.command()(care.repair)
app.command()(care.drop)
app.command()(care.ls)
app.command()(serve.serve)
app.command()(serve.quota)
app.command()(bridge.bridge)

fill_help(app)

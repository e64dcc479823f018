"""``topicdb replay``: publishes stored messages again, and shows and governs replay logs."""

from __future__ import annotations

import typer

from topicdb.cli.commands.replay import control, run, status
from topicdb.cli.errors import Group

app = typer.Typer(cls=Group, no_args_is_help=True, help="Replays what is stored.")


@app.callback()
def replay_command() -> None:
    """Replays what is stored."""


app.command()(run.run)
app.command()(status.status)
for command in control.COMMANDS:
    app.command()(command)

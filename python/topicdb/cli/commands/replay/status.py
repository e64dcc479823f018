"""``topicdb replay status``: how replay logs stand."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from topicdb.cli.options import JsonOption, TzOption
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place
from topicdb.cli.stopping import stopped_by_signals
from topicdb.cli.times import time_text
from topicdb.replay.log.status import LogStatus, LogStatuses

_REPORT_S = 1.0


@at_place
def status(
    place: Place,
    as_json: JsonOption = False,
    tz: TzOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the replay logs of a database, their endpoints, and how replays stand.

    The figures are those that the process which has the database open has stored, at most a second
    ago. How large a log is, and how much of its quota that is, is counted here.

    \b
    Example:
      topicdb replay status fleet.db --watch
    """
    with place.read() as database, stopped_by_signals() as stopped:
        logs = LogStatuses(database)
        while True:
            database.refresh()
            found = logs.read()
            if as_json:
                print_json({"logs": [one._asdict() for one in found]})
            else:
                _print_lines(found)
            if not watch or stopped.wait(_REPORT_S):
                return


def _print_lines(found: list[LogStatus]) -> None:
    for one in found:
        print(f"log {one.name}: ingress {_on(one.ingress)}, egress {_on(one.egress)}, {_size(one)}")
        for endpoint in one.endpoints:
            print("  " + ", ".join(_parts(endpoint)))
            for client in endpoint["clients"]:
                window = f"{client['unacknowledged']:,} of {client['window']:,}"
                print(f"    {client['client']}: {window} not acked")
    sys.stdout.flush()


def _parts(endpoint: dict[str, Any]) -> list[str]:
    parts = [f"{endpoint['kind']} {endpoint['name']}: {endpoint['state']}"]
    parts.append(f"at {endpoint['position']}")
    if endpoint["replayed"] is not None:
        per_s = endpoint["per_s"]
        speed = "" if per_s is None else f" ({per_s:,.0f}/s)"
        parts.append(f"{endpoint['replayed']:,} replayed{speed}")
        if endpoint["rate"] is not None:
            parts.append(f"rate {endpoint['rate']}")
        if endpoint["paused"]:
            parts.append("paused")
    parts.append(f"{endpoint['lag']:,} to come of {', '.join(endpoint['subscriptions'])}")
    if endpoint["last_failure"] is not None:
        at_us, reason, _ = endpoint["last_failure"]
        parts.append(f"failed at {time_text(at_us)}: {reason}")
    return parts


def _size(log: LogStatus) -> str:
    if log.quota_used is None:
        return f"{log.bytes:,} bytes, no quota"
    return f"{log.bytes:,} of {log.quota_bytes:,} bytes ({log.quota_used:.0%} of the quota)"


def _on(value: bool) -> str:
    return "on" if value else "off"

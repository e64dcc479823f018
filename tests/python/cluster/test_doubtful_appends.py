"""Appends whose answer was lost: whether they are stored is not known while nobody leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import serving
from sites import Sites, sites
from support import wait_until

import topicdb
from topicdb import _core
from topicdb.remote.client import appending, bundles
from topicdb.remote.client.connection import Connection

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
REPEAT_S = 5.0  # for longer than the first attempt takes, and the second one waits


def lose_answer_and_majority(patch: pytest.MonkeyPatch, method: str, found: Sites) -> None:
    """Lets the answer to the first call be lost, and a majority of the sites before the next."""
    call = Connection.call
    calls: list[str] = []

    def lose(self: Connection, called: str, *args: Any, **options: Any) -> Any:
        if called != method:
            return call(self, called, *args, **options)
        calls.append(called)
        if len(calls) == 1:
            call(self, called, *args, **options)
            raise topicdb.UnavailableError("the connection broke")
        if len(calls) == 2:
            found.stop("b")
            found.stop("c")
            wait_until(lambda: found.sites["a"].status().leader_of(0) is None)
        return call(self, called, *args, **options)

    patch.setattr(Connection, "call", lose)
    for part in (appending, bundles):
        patch.setattr(part, "REPEAT_S", REPEAT_S)


@pytest.mark.parametrize(
    ("method", "append"),
    [
        ("append", lambda database: database.append([("t", 1, b"1")], id="one")),
        ("append_async", lambda database: database.append_async([("t", 1, b"1")]).result()),
    ],
)
def test_the_outcome_is_unknown(
    method: str,
    append: Callable[[topicdb.Database], topicdb.Receipt],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sites(tmp_path) as found:
        found.stop("a")
        found.start("a", commit_timeout="1s")
        found.open("a")
        with (
            serving(found.databases["a"]) as server,
            topicdb.connect([server.url, server.url]) as client,
        ):
            lose_answer_and_majority(monkeypatch, method, found)
            with pytest.raises(topicdb.UnknownOutcomeError, match="is not known yet"):
                append(client)
        found.start("b")
        found.open("b")
        assert found.databases["a"].scan("t").count() == 1

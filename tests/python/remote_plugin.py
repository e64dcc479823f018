"""Runs tests against databases of a server: ``pytest -p remote_plugin``.

``topicdb.open`` then opens the directory, serves it from this process and returns a client.
"""

from __future__ import annotations

from typing import Any

import topicdb
from topicdb.remote.client.database import RemoteDatabase

_open = topicdb.open


class _Served(RemoteDatabase):
    """A client that also closes its server and the database behind it."""

    served: Any

    def close(self) -> None:
        super().close()
        server, database = self.served
        server.close()
        database.close()


def _open_served(path: Any, **options: Any) -> topicdb.Database:
    database = _open(path, **options)
    server = topicdb.serve(database)
    client = topicdb.connect(server.url)
    client.__class__ = _Served
    client.served = (server, database)  # type: ignore[attr-defined]
    return client


topicdb.open = _open_served

"""Runs tests against databases of a server: ``pytest -p remote_plugin``.

``topicdb.open`` then gives the client of a server of this process, for the same directory.
"""

from __future__ import annotations

from typing import Any

import topicdb
from topicdb.remote.client.database import RemoteDatabase

_open = topicdb.open


class _Served(RemoteDatabase):
    """A client that ends its server, too."""

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

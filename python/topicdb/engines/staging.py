"""How jobs are staged for a database that is open in this process."""

from __future__ import annotations

from topicdb import _core
from topicdb.cooperating import Directory, SiteDirectory
from topicdb.engine import Engine
from topicdb.engines.features import require


def staging_of(engine: Engine) -> Directory:
    """Returns what stages messages for an open database.

    Arguments:
        engine: that of the database. It must have the features ``directory`` and ``jobs``.

    Returns:
        What stages in the directory of the engine.
    """
    require(engine, "directory", "jobs")
    if isinstance(engine, _core.Database) and engine.is_replicated:
        return SiteDirectory(engine)
    return Directory(engine.path)

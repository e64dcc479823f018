"""The methods of a Database that copy and check it."""

from __future__ import annotations

from topicdb.database.snapshots import PathLike, Snapshot, snapshot
from topicdb.database.verifying import Progress, Verification, verify
from topicdb.engine import Engine


class Copying:
    """Methods of Database, for its engine (``_core``)."""

    _core: Engine

    def snapshot(
        self, path: PathLike, *, base: PathLike | None = None, copy: bool = False
    ) -> Snapshot:
        """Copies the database to ``path``, as it is at one moment, while it is written.

        What was acknowledged before the call is in it; an append to several shards is in it wholly
        or not at all. It is a database itself: ``topicdb.open(path, mode="r")``.

        - ``base``: an earlier snapshot, on the file system of ``path``: files that it has are not
          copied again.
        - ``copy``: every byte. As it is, files are hard links where they can be: they take no time
          and no space, but damage to one is damage to both.

        ExistsError if there is something at ``path``; ReadOnlyError unless all shards are open for
        writing here. Nothing is left at ``path`` after an error or Ctrl-C.
        """
        return snapshot(self._core, path, base=base, copy=copy)

    def verify(self, *, deep: bool = True, progress: Progress = None) -> Verification:
        """Checks what is on disk, while it may be written; see ``topicdb.verify``."""
        return verify(self._core.path, deep=deep, progress=progress)

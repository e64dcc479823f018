"""The methods of a Database that copy and check it."""

from __future__ import annotations

from topicdb.database.snapshots import PathLike, Snapshot, snapshot
from topicdb.database.verifying import Progress, Verification, verify
from topicdb.engine import Engine
from topicdb.engines.features import require


class Copying:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    def snapshot(
        self, path: PathLike, *, base: PathLike | None = None, copy: bool = False
    ) -> Snapshot:
        """Copies the database to ``path``, as it is at one moment, while it is written.

        The snapshot holds what was acknowledged before the call. It has the whole of an append to
        several shards, or nothing of it. It is a database itself: ``topicdb.open(path, mode="r")``.

        Of a database on several sites, it holds what this site has, and each shard as it is at a
        moment of its own. The snapshot is a database of one process, without the other sites.

        Arguments:
            path: a directory that does not exist yet. Nothing is left there after an error or
                Ctrl-C.
            base: an earlier snapshot on the same file system as ``path``. Files that it has are not
                copied again.
            copy: copies every byte. Otherwise files are hard links where they can be: these take no
                time and no space, but damage to one is damage to both.

        Returns:
            A ``Snapshot``: its serials and sizes.

        Raises:
            ExistsError: there is something at ``path``.
            ReadOnlyError: this handle does not have all shards open for writing.

        Example:
            >>> db.snapshot("backup/monday").files > 0
            True
            >>> db.snapshot("backup/tuesday", base="backup/monday").path.endswith("tuesday")
            True
        """
        return snapshot(self._core, path, base=base, copy=copy)

    def verify(self, *, deep: bool = True, progress: Progress = None) -> Verification:
        """Checks what is on disk, also while it is written; see ``topicdb.verify``.

        Arguments:
            deep: as in ``topicdb.verify``.
            progress: as in ``topicdb.verify``.

        Returns:
            What was found.

        Raises:
            NotImplementedError: the engine has no directory in TopicDB's format.

        Example:
            >>> db.verify().ok
            True
        """
        require(self._core, "directory", "verify")
        return verify(self._core.path, deep=deep, progress=progress)

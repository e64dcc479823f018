"""The results of exports and imports."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export; made by ``Database.export_parquet``.

    Attributes:
        files: the paths of the files.
        messages: how many messages they have.
        bytes: their size on disk.
        missing_shards: shards that a partial export has left out, and why each is missing.
    """

    files: list[str]
    messages: int
    bytes: int
    missing_shards: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import; made by ``Database.import_parquet``.

    Attributes:
        files: the paths of the files.
        messages: how many messages they have.
        bytes: their size on disk.
        repeated: whether the same files were imported before, and nothing was done.
        pending: shards that another process has open and that do not show the messages yet; they
            will.
    """

    files: list[str]
    messages: int
    bytes: int
    repeated: bool
    pending: list[int]

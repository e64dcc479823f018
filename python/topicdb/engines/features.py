"""What an engine may lack, and which methods of the contract belong to it."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from topicdb.engine import Engine

Feature: TypeAlias = Literal[
    "persistence",
    "directory",
    "ids",
    "deletes",
    "transactions",
    "streams",
    "steps",
    "watches",
    "slices",
    "log",
    "subscriptions",
    "given",
    "generations",
    "retention",
    "quota",
    "trimming",
    "usage",
    "explain",
    "summaries",
    "snapshots",
    "jobs",
]
"""A group of promises that an engine keeps as a whole, or lacks."""

FEATURES: dict[Feature, tuple[str, ...]] = {
    "persistence": (),  # what is stored is there when the engine is opened again
    "directory": (),  # ``path`` is a directory in TopicDB's format
    "ids": ("find_append",),
    "deletes": ("delete",),
    "transactions": ("begin",),
    "streams": ("streams", "iterator", "next"),
    "steps": ("scan_iterator", "next_of_scan"),
    "watches": ("watch_streams",),
    "slices": ("slices", "scan_slices"),
    "log": ("tail", "measure_log"),
    "subscriptions": ("subscribe", "check_log", "places_at", "count_dropped"),
    "given": (),  # tails and subscriptions begin behind iterators
    "generations": ("rotate", "slabs", "drop_slab"),
    "retention": ("retention", "set_retention", "expire", "maintain"),
    "quota": ("set_quota",),
    "trimming": ("trim",),
    "usage": ("usage", "usage_by_structure"),
    "explain": ("explain",),
    "summaries": ("summarize",),
    "snapshots": ("snapshot",),
    "jobs": ("jobs",),
}
"""The methods of ``topicdb.engine.Engine`` that belong to a feature.

Every engine has the methods that are not here.
"""

LOG_FEATURES: frozenset[Feature] = frozenset({"log", "subscriptions", "given"})
"""What generations of the layout skipstream lack, since they keep no commit log."""

assert set(FEATURES) == set(get_args(Feature))


def lacks_of(engine: Engine) -> frozenset[Feature]:
    """Returns what an engine lacks: its ``lacks``, and what the layout that it begins with lacks.

    An engine without the attribute ``lacks`` has every feature that its layout allows. Later
    generations may have another layout, and a log: ``Engine.check_log`` asks for that.

    Arguments:
        engine: any engine.

    Returns:
        The features, of ``FEATURES``.
    """
    declared: frozenset[Feature] = frozenset(getattr(engine, "lacks", ()))
    return declared | LOG_FEATURES if engine.schema["layout"] == "skipstream" else declared


def require(engine: Engine, feature: Feature, what: str) -> None:
    """Raises NotImplementedError, naming ``what`` cannot be done, if the engine lacks a feature."""
    if feature in lacks_of(engine):
        raise NotImplementedError(f"{what}: the engine of {engine.path} lacks {feature!r}")

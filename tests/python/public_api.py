"""The public API of the package, found by import."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import topicdb

PUBLIC_MODULES = [
    "topicdb",
    "topicdb.bridge",
    "topicdb.cluster",
    "topicdb.engines",
    "topicdb.forward",
    "topicdb.jobs",
    "topicdb.parquet",
    "topicdb.replay",
    "topicdb.results",
    "topicdb.spark",
    "topicdb.uploads",
]


def is_of_core(thing: object) -> bool:
    name = getattr(thing, "__name__", "")
    return bool(name) and thing is getattr(topicdb._core, name, None)


def members_of(thing: type) -> Iterator[tuple[str, object]]:
    """Gives the public members of a class that TopicDB defines, those of its bases included."""
    seen = set()
    for base in thing.__mro__:
        if not base.__module__.startswith("topicdb") or is_of_core(base):
            continue
        for name, member in vars(base).items():
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, member


def public_things(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Gives the public classes and functions of a module."""
    names = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            yield f"{module.__name__}.{name}", thing

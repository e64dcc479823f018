"""How reads give values: as payloads, with their properties, or as they are stored."""

from __future__ import annotations

from typing import Literal, TypeAlias

Form: TypeAlias = Literal["stored", "payload", "properties"]


def form_of(*, properties: bool, raw: bool) -> Form:
    """Returns the form for these options of a read. Raises ValueError if both are given."""
    if properties and raw:
        raise ValueError(
            "give properties=True or raw=True, not both: a raw value has its properties in it"
        )
    return "properties" if properties else "stored" if raw else "payload"

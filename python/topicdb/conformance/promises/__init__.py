"""The promises of the contract, by what they are about."""

from __future__ import annotations

# Each module registers its promises.
from topicdb.conformance.promise import Promise, registered
from topicdb.conformance.promises import (  # noqa: F401
    api,
    basics,
    closing,
    histories,
    keeping,
    missing,
)
from topicdb.conformance.promises.following import given, log, subscribing  # noqa: F401
from topicdb.conformance.promises.life import (  # noqa: F401
    generations,
    quota,
    retention,
    upkeep,
)
from topicdb.conformance.promises.reading import (  # noqa: F401
    scanning,
    seeing,
    slices,
    steps,
    streams,
    watching,
)
from topicdb.conformance.promises.writing import (  # noqa: F401
    appending,
    committing,
    deleting,
    ids,
    keys,
    transactions,
)


def promises() -> list[Promise]:
    """Returns all promises, those of one subject after the other."""
    return registered()

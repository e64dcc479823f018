"""TopicDB's own engine in this process keeps the promises of the contract, in each layout."""

from __future__ import annotations

import pytest
from conforming import WITHOUT_A_SHARD, check

from topicdb.conformance import Promise, Subject, promises
from topicdb.conformance.ours import COLUMNAR, KEYED, SHARDED, SKIPSTREAM
from topicdb.engines.features import LOG_FEATURES

NOTHING = frozenset[str]()
# What each may lack, and what it cannot be asked for: nobody opens without the only shard.
SUBJECTS: dict[str, tuple[Subject, frozenset[str], frozenset[str]]] = {
    "columnar": (COLUMNAR, NOTHING, WITHOUT_A_SHARD),
    "sharded": (SHARDED, NOTHING, NOTHING),
    "by key": (KEYED, NOTHING, NOTHING),
    "skipstream": (SKIPSTREAM, frozenset(LOG_FEATURES), NOTHING),
}


@pytest.mark.parametrize("promise", promises(), ids=str)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("columnar", marks=pytest.mark.long),
        "sharded",
        pytest.param("by key", marks=pytest.mark.long),
        "skipstream",
    ],
)
def test_it_keeps_its_promises(promise: Promise, name: str) -> None:
    check(promise, *SUBJECTS[name])

"""What engines that are written in Python need: features, a base class, values, scans, appends.

docs/internals/engines.md says what an engine promises, and how a third party writes one.
``topicdb.conformance`` checks the promises.
"""

from topicdb.engines.appends import AppendThread
from topicdb.engines.base import EngineBase, stats_of
from topicdb.engines.columns import split_keys
from topicdb.engines.features import FEATURES, Feature, lacks_of
from topicdb.engines.scans import BatchScan
from topicdb.engines.values import (
    batch_of,
    checked_arrow,
    checked_durability,
    checked_filters,
    checked_keys,
    checked_rows,
    refuse_given,
)

__all__ = [
    "FEATURES",
    "AppendThread",
    "BatchScan",
    "EngineBase",
    "Feature",
    "batch_of",
    "checked_arrow",
    "checked_durability",
    "checked_filters",
    "checked_keys",
    "checked_rows",
    "lacks_of",
    "refuse_given",
    "split_keys",
    "stats_of",
]

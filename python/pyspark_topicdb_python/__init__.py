"""Makes ``format("topicdb-python")`` known to Spark, as ``pyspark_topicdb`` does ``"topicdb"``."""

from __future__ import annotations

import pyspark_topicdb


class DefaultSource(pyspark_topicdb.DefaultSource):
    """The source in Python under a name that the connector in Java does not have."""

    @classmethod
    def name(cls) -> str:
        return "topicdb-python"

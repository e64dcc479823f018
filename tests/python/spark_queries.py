"""Running streaming queries that end by themselves."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery


def run_to_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Starts a query, waits for its end, and returns it.

    Spark gives a stream's Python process ten seconds to start and connect, and no setting changes
    that. A busy machine may take longer. Then this starts the query again, as a user would: it goes
    on from its checkpoint.

    Raises StreamingQueryException if the query fails for another reason.
    """
    while True:
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        else:
            return query

"""What the clients of an endpoint may do there, by its owner's rules."""

from __future__ import annotations

from topicdb.errors import AccessError
from topicdb.replay.records import Access, EndpointRecord

_RIGHTS: tuple[Access, ...] = ("none", "read", "consume")


def check_right(record: EndpointRecord, client: str, right: Access) -> None:
    """Raises AccessError unless a client of this name has the right at the endpoint."""
    if client == record.owner or record.owner is None:
        return
    if _RIGHTS.index(record.others) < _RIGHTS.index(right):
        raise AccessError(
            f"client {client!r} may not {right} at endpoint {record.name!r} of "
            f"{record.owner!r}: others may {record.others}"
        )

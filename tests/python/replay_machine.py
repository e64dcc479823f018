"""Compares replay logs with the model: binds, acknowledgements, trims, replays, restarts.

``ReplayMachine`` is for a log that is open here. A subclass may reach the log in another way.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support import PATIENCE_S

import topicdb
from model.replay import Direct, EndpointModel, LogModel, RefusedError, Sub
from topicdb import replay
from topicdb.follow.positions import Place

BASE = 1_700_000_000_000_000
TOPICS = ("a/1", "a/2", "b/1", "c")
FILTERS = ("#", "a/#", "a/+", "b/1", "+/1", "c")
SPOOL = 5

DEAD = "$dead/shared"

endpoint_names = st.sampled_from(["exclusive", "shared", "topic", "dead"])
starts = st.one_of(
    st.just("beginning"),
    st.tuples(st.just("time"), st.integers(-3, 60)),
    st.tuples(st.just("after"), st.integers(0, 60)),
)
RULES = st.sampled_from(
    [(("#",), ()), (("a/#", "c"), ()), (("#",), ("a/2",)), (("+/1",), ("b/#",))]
)


class ReplayMachine(RuleBasedStateMachine):
    """``log`` is what the rules use, and ``inner`` the log that is open in this process."""

    log: replay.ReplayLog
    inner: replay.ReplayLog

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="topicdb-replay-"))
        self.model = LogModel()
        self.places: list[Place] = []
        self.flows: dict[tuple[str, str], replay.Flow] = {}
        self.held: dict[tuple[str, str], list[replay.ReplayMessage]] = {}
        self.clients = 0
        self.directs = 0

    @initialize()
    def open(self) -> None:
        self.db = topicdb.open(self.folder / "log.db")
        self.open_log()
        self.log.queue("exclusive", ["a/#", "c"], spool=SPOOL)
        self.log.queue("shared", "#", exclusive=False, spool=SPOOL, dead_letter=DEAD)
        self.log.queue("dead", f"{DEAD}/#", spool=SPOOL)
        self.log.topic_endpoint(
            "topic", "a/#", selector="topic = 'a/1'", spool=SPOOL, expired="remove"
        )
        self.model.endpoints = {
            "exclusive": EndpointModel(self.model, [Sub("a/#", 0), Sub("c", 0)], SPOOL),
            "shared": EndpointModel(
                self.model, [Sub("#", 0)], SPOOL, exclusive=False, dead_letter=DEAD
            ),
            "dead": EndpointModel(self.model, [Sub(f"{DEAD}/#", 0)], SPOOL),
            "topic": EndpointModel(
                self.model,
                [Sub("a/#", 0)],
                SPOOL,
                accepts=lambda one: one.topic == "a/1",
                removes_expired=True,
            ),
        }

    def open_log(self) -> None:
        """Opens the log as it was left."""
        self.inner = self.log = replay.open(self.db)

    def close_log(self) -> None:
        """Closes the log, which ends its clients."""
        self.inner.close()

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.close_log()
            self.db.close()
        shutil.rmtree(self.folder)

    # What publishers and administrators do

    @rule(
        topics=st.lists(st.sampled_from(TOPICS), min_size=1, max_size=8),
        late=st.integers(0, 3),
        expired=st.booleans(),
    )
    def publish(self, topics: list[str], late: int, expired: bool) -> None:
        rows = []
        for topic in topics:
            number = len(self.model.messages)
            time_us, value = BASE + (number - late) * 1_000, b"%d" % number
            self.model.append(topic, time_us, value, expired)
            envelope = replay.Envelope(value, message_expiry_s=1 if expired else None)
            rows.append((topic, time_us, envelope.encode()))
        serial = self.log.publish(rows, raw=True).serials[0]
        self.places += [Place(serial, row) for row in range(len(rows))]
        self.model.settle()

    @rule(topics=st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3))
    def publish_direct(self, topics: list[str]) -> None:
        rows = []
        for topic in topics:
            self.directs += 1
            row = (topic, BASE, b"direct %d" % self.directs)
            rows.append(row)
            self.model.publish_direct(*row)
        assert self.log.publish(rows, qos=0).count == 0

    @rule(number=st.integers(0, 60))
    def trim(self, number: int) -> None:
        self.log.trim(BASE + number * 1_000)
        self.model.trim(BASE + number * 1_000)
        self.model.settle()

    @rule(value=st.booleans())
    def set_ingress(self, value: bool) -> None:
        self.log.ingress = value
        self.model.ingress = value

    @rule(value=st.booleans())
    def set_egress(self, value: bool) -> None:
        self.log.egress = value
        self.model.set_egress(value)
        self.model.settle()

    @rule(rules=RULES)
    def set_filters(self, rules: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        self.log.set_filters(list(rules[0]), list(rules[1]))
        self.model.set_filters(*rules)
        self.model.settle()

    @rule(name=st.sampled_from(["exclusive", "shared"]), filter=st.sampled_from(FILTERS))
    def subscribe(self, name: str, filter: str) -> None:
        self.log.endpoint(name).subscribe(filter)
        self.model.endpoints[name].subscribe(filter)
        self.model.settle()

    @rule(name=st.sampled_from(["exclusive", "shared"]), filter=st.sampled_from(FILTERS))
    def unsubscribe(self, name: str, filter: str) -> None:
        try:
            self.model.endpoints[name].unsubscribe(filter)
        except RefusedError:
            with pytest.raises(ValueError, match="no subscription"):
                self.log.endpoint(name).unsubscribe(filter)
            return
        self.log.endpoint(name).unsubscribe(filter)
        self.model.settle()

    @rule(
        name=endpoint_names, start=starts, clamp=st.booleans(), end=st.none() | st.integers(0, 60)
    )
    def start(self, name: str, start: str | tuple[str, int], clamp: bool, end: int | None) -> None:
        self._start(name, start, clamp, end, None)

    def _start(
        self,
        name: str,
        start: str | tuple[str, int],
        clamp: bool,
        end: int | None,
        client: str | None,
    ) -> None:
        endpoint, model = self.log.endpoint(name), self.model.endpoints[name]
        asked: object = start
        wanted: object = start
        if isinstance(start, tuple) and start[0] == "after":
            if start[1] >= len(self.places):
                return
            asked = replay.MessageId(self.log.origin, *self.places[start[1]])
        elif isinstance(start, tuple):
            asked = wanted = BASE + start[1] * 1_000
        end_us = None if end is None else BASE + end * 1_000
        on_early = "clamp" if clamp else "fail"
        try:
            if client is not None and not model.exclusive:
                raise RefusedError("NonExclusiveError")
            if not self.model.egress:
                raise RefusedError("ReplayDisabledError")
            if client is not None and model.clients:
                raise RefusedError("InactiveFlowError")
            begin, start_us = self.model.begin(wanted, clamp)  # type: ignore[arg-type]
        except RefusedError as refused:
            with pytest.raises(getattr(replay, str(refused))):
                if client is None:
                    endpoint.replay(asked, end=end_us, on_early=on_early)  # type: ignore[arg-type]
                else:
                    endpoint.bind(client=client, replay=asked, on_early=on_early)  # type: ignore[arg-type]
            return
        if client is None:
            endpoint.replay(asked, end=end_us, on_early=on_early)  # type: ignore[arg-type]
        else:
            self.flows[name, client] = endpoint.bind(
                client=client,
                window=3,
                replay=asked,  # type: ignore[arg-type]
                end=end_us,
                on_early=on_early,  # type: ignore[arg-type]
            )
            self.held[name, client] = []
            model.clients.append(client)
        model.start(begin, start_us, end_us, client)
        self.model.settle()

    @rule(name=endpoint_names)
    def cancel(self, name: str) -> None:
        endpoint, model = self.log.endpoint(name), self.model.endpoints[name]
        try:
            model.cancel()
        except RefusedError:
            with pytest.raises(topicdb.ReplayError):
                endpoint.cancel_replay()
            return
        endpoint.cancel_replay()
        self.model.settle()

    @rule(times=st.integers(1, 3))
    def reopen(self, times: int) -> None:
        """Reopens the log; ``times``: so often, and without time to read all of it again."""
        self.close_log()
        for flow in self.flows.values():
            with pytest.raises((topicdb.ClosedError, topicdb.ReplayError)):
                flow.receive(timeout=0)
        for _ in range(times - 1):
            replay.open(self.db).close()
        self.open_log()
        self.flows.clear()
        self.held.clear()
        for endpoint in self.model.endpoints.values():
            endpoint.reopen()
        self.model.settle()

    # What clients do

    @rule(name=endpoint_names)
    def bind(self, name: str) -> None:
        client = self._new_client()
        self.flows[name, client] = self.log.endpoint(name).bind(client=client, window=3)
        self.held[name, client] = []
        self.model.endpoints[name].clients.append(client)

    @rule(
        name=endpoint_names, start=starts, clamp=st.booleans(), end=st.none() | st.integers(0, 60)
    )
    def bind_and_start(
        self, name: str, start: str | tuple[str, int], clamp: bool, end: int | None
    ) -> None:
        self._start(name, start, clamp, end, self._new_client())

    def _new_client(self) -> str:
        self.clients += 1
        return f"client-{self.clients}"

    @precondition(lambda self: self.flows)
    @rule(data=st.data(), count=st.integers(1, 4))
    def receive(self, data: st.DataObject, count: int) -> None:
        (name, client), flow = self._some_flow(data)
        model = self.model.endpoints[name]
        for _ in range(count):
            if client in model.told:
                self._is_told(name, client, flow)
                return
            expected = model.receive(client, 3)
            # That the reader has come to the place of a direct message shows nowhere else.
            patience = PATIENCE_S if isinstance(expected, Direct) else 0
            found = flow.receive(timeout=patience)
            if found is None or expected is None:
                assert found is None and expected is None, (found, expected, model)
                return
            if isinstance(expected, Direct):
                assert (found.topic, found.value) == (expected.topic, expected.value)
                assert found.is_direct and not found.redelivered
                continue
            stored = self.model.messages[expected.number]
            assert found.id.place == self.places[expected.number]
            assert found[:3] == (stored.topic, stored.time, stored.value)
            assert found.redelivered == expected.again
            self.held[name, client].append(found)

    def _is_told(self, name: str, client: str, flow: replay.Flow) -> None:
        model = self.model.endpoints[name]
        with pytest.raises(getattr(replay, model.told[client])):
            flow.receive(timeout=0)
        model.knows(client)
        self.held[name, client].clear()

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), what=st.sampled_from(["ack", "ack", "ack all", "reject", "release"]))
    def answer(self, data: st.DataObject, what: str) -> None:
        key = data.draw(st.sampled_from([key for key, held in self.held.items() if held]))
        name, client = key
        flow, model = self.flows[key], self.model.endpoints[name]
        if client in model.told:
            self._is_told(name, client, flow)
            return
        held = self.held[key]
        chosen = held[:] if what == "ack all" else [data.draw(st.sampled_from(held))]
        method = "ack" if what == "ack all" else what
        getattr(flow, method)(*chosen)
        for message in chosen:
            held.remove(message)
            number = self.places.index(message.id.place)
            if what == "reject":
                model.reject(number)
                if model.dead_letter is not None:
                    self.places.append(Place(self._newest_letter(), 0))
            elif what == "release":
                model.release(number)
            else:
                model.done(number)
        self.model.settle()

    def _newest_letter(self) -> int:
        """Returns the serial of the commit that stored the last dead letter."""
        batches = self.db.scan(f"{DEAD}/#").batches(serials=True)
        return max(int(batch.serials.max()) for batch in batches if batch.serials is not None)

    @precondition(lambda self: self.flows)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        (name, client), flow = self._some_flow(data)
        flow.close()
        model = self.model.endpoints[name]
        model.leave(client)
        model.knows(client)
        del self.flows[name, client], self.held[name, client]
        self.model.settle()

    def _some_flow(self, data: st.DataObject) -> tuple[tuple[str, str], replay.Flow]:
        key = data.draw(st.sampled_from(list(self.flows)))
        return key, self.flows[key]

    @invariant()
    def is_as_expected(self) -> None:
        if not hasattr(self, "db"):
            return
        deadline = time.monotonic() + PATIENCE_S
        while (seen := self._seen()) != self._expected():
            assert time.monotonic() < deadline, (seen, self._expected())
            time.sleep(0.001)

    def _seen(self) -> object:
        for endpoint in self.inner.endpoints():
            endpoint.step()
            with endpoint._parts.lock:
                endpoint._parts.contents.spool.pack()
        infos = [endpoint.info() for endpoint in self.log.endpoints()]
        return [(one["name"], one["state"], one["messages"], one["clients"]) for one in infos]

    def _expected(self) -> object:
        return [
            (name, one.state, len(one.items), one.clients)
            for name, one in sorted(self.model.endpoints.items())
        ]

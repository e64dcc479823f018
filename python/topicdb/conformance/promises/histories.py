"""Random histories of operations, compared with a model of a few lines after each step."""

from __future__ import annotations

from random import Random

from topicdb._core import Iterator, ScanIterator, Slab
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, read
from topicdb.conformance.model import Message, Model, Read, Scan
from topicdb.conformance.promise import promise

STEPS = 60
SIZE = 1 << 20
LEVELS = ["a", "b", "c", "", "$SYS"]
FILTERS = ["#", "a/#", "+/b", "+/+/c", "$SYS/#", "a/b", "+", "b/+/#"]
TIME_END = 20


class History:
    """One random history, of an engine and of the model."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.random = Random(seed)
        self.model = Model(lab.shards, keeps_all=lab.keeps_all)
        self.values = 0
        self.scan: Scan | None = None  # a scan in steps that is under way
        self.reads: list[Read] = []  # iterators, behind which the log is read

    def step(self) -> str:
        """Makes one operation, and returns its name."""
        lab, chance = self.lab, self.random.random()
        if chance < 0.40:
            return self._append()
        if chance < 0.50 and lab.has("steps"):
            return self._scan_on()
        if chance < 0.58 and lab.has("given") and lab.has("streams"):
            return self._read_on()
        if chance < 0.68 and lab.has("deletes"):
            return self._delete()
        if chance < 0.80 and lab.has("transactions"):
            return self._transaction()
        if chance < 0.86 and lab.has("generations"):
            lab.engine.rotate(None)
            self.model.rotate()
            return "a rotation"
        if chance < 0.90 and lab.has("generations"):
            return self._drop()
        if chance < 0.94 and lab.has("persistence"):
            lab.reopen()
            return "closing and opening"
        lab.engine.flush()
        return "a flush"

    def check(self, what: str) -> None:
        """Compares what reads find with what the model holds."""
        engine, model = self.lab.engine, self.model
        expect.equal(self.lab.everything(), model.found(), f"everything, after {what}")
        filter = self.random.choice(FILTERS)
        start, end = sorted(self.random.choices(range(TIME_END + 1), k=2))
        for order in ("stream", "time", "none"):
            found = sorted(self.lab.messages(filter, start, end, order))
            wanted = model.found(filter, start, end)
            expect.equal(found, wanted, f"{filter!r} from {start} to {end}, after {what}")
        newest = read(engine.last(filter, None, None))
        expect.equal(newest, model.newest(filter), f"the newest of {filter!r}, after {what}")
        topics = model.topics()
        for topic in self.random.sample(topics, min(5, len(topics))):
            found_values = [value for _, _, value in self.lab.messages(topic)]
            expect.equal(
                found_values, model.in_order(topic), f"the order of {topic!r}, after {what}"
            )
        if self.lab.has("log"):
            self._check_log(what)

    def _check_log(self, what: str) -> None:
        shard = self.random.randrange(self.lab.shards)
        serials = sorted({e.serial for e in self.model.entries if e.shard == shard})
        after = self.random.choice([0, *serials])
        everything = {s: 1 << 62 for s in range(self.lab.shards) if s != shard}
        for reads in ([], self._reads_that_are_there()) if self.reads else ([],):
            given = [Iterator.from_bytes(one.saved) for one in reads]
            tail = self.lab.engine.tail(None, {**everything, shard: after}, {}, given)
            found: list[bytes] = []
            while (batch := tail.next_batch(10, SIZE, 0)) is not None:
                found += batch.values
            tail.close()
            wanted = self.model.log(shard, after, reads)
            where = f"the log behind {after} and {len(reads)} iterators, after {what}"
            expect.equal(found, wanted, where)

    def _reads_that_are_there(self) -> list[Read]:
        """Returns the iterators of generations that were not dropped."""
        gone = {(shard, generation) for shard, generation, _ in self.model.dropped}
        self.reads = [one for one in self.reads if (one.shard, one.generation) not in gone]
        return self.reads

    def _read_on(self) -> str:
        """Reads a page of each iterator there is, or begins with those of a topic."""
        engine, topics = self.lab.engine, self.model.topics()
        if topics and (not self._reads_that_are_there() or self.random.random() < 0.3):
            topic = self.random.choice(topics)
            first = self._first_generation()
            self.reads = [
                Read(
                    bytes(engine.iterator(stream, topic, None, None)),
                    topic,
                    stream.shard,
                    stream.generation - first,
                )
                for stream in engine.streams(topic, None, None, None)
            ]
        for one in self.reads:
            rows = self.random.randrange(1, 4)
            page = engine.next(Iterator.from_bytes(one.saved), rows, SIZE)
            one.saved = bytes(page.iterator)
            self.model.read_on(one, page.batch.values)
        return "reading iterators"

    def _scan_on(self) -> str:
        """Reads the next step of a scan, or begins one."""
        engine = self.lab.engine
        if self.scan is None:
            filter = self.random.choice(FILTERS)
            start, end = self.random.randrange(TIME_END // 2), self.random.choice([15, TIME_END])
            saved = bytes(engine.scan_iterator(filter, start, end))
            self.scan = self.model.begin_scan(saved, filter, start, end)
            return "the begin of a scan"
        scan = self.scan
        rows = self.random.randrange(1, 20)
        step = engine.next_of_scan(ScanIterator.from_bytes(scan.saved), rows, SIZE)
        scan.saved = bytes(step.iterator)
        if step.loss is not None:
            where = step.loss.shard, step.loss.generation - self._first_generation()
            expect.true(where not in scan.told, f"the loss of {where} is told once")
            lost = self.model.lost(scan)
            expect.true(where in lost, f"{where} was dropped while the scan ran")
            expect.true(step.loss.messages >= lost[where], f"{lost[where]} messages are counted")
            scan.told.add(where)
        for message in step.batch:
            due = [e for e in self.model.due(scan) if e.message[0] == message.topic]
            expect.equal(tuple(message), due[0].message if due else None, "what a scan gives next")
            scan.given.add(due[0])
        if step.end_of_scan:
            expect.equal([e.message for e in self.model.due(scan)], [], "what a scan leaves out")
            untold = [at for at, n in self.model.lost(scan).items() if n and at not in scan.told]
            expect.equal(untold, [], "losses that a scan has not told")
            self.scan = None
        return "a step of a scan"

    def _row(self) -> Message:
        self.values += 1
        levels = self.random.choices(LEVELS, weights=[4, 4, 2, 1, 1], k=self.random.randrange(1, 4))
        topic = "/".join(levels) or "/"
        return topic, self.random.randrange(TIME_END), b"%d" % self.values

    def _append(self) -> str:
        rows = [self._row() for _ in range(self.random.randrange(1, 12))]
        receipt = self.lab.engine.append_rows(rows, None)
        expect.equal(receipt.count, len(rows), "the count of an append")
        self.model.append(rows, receipt.serials)
        return "an append"

    def _delete(self) -> str:
        filter = self.random.choice(FILTERS)
        start, end = sorted(self.random.choices(range(TIME_END + 1), k=2))
        receipt = self.lab.engine.delete(filter, start, end, None)
        expect.equal(receipt.count, self.model.delete(filter, start, end), "the count of a delete")
        return "a delete"

    def _transaction(self) -> str:
        shard = self.random.randrange(self.lab.shards)
        mine = [r for r in (self._row() for _ in range(8)) if self.lab.shard_of(r[0]) == shard]
        rows = {row[:2]: row for row in mine[:3]}.values()
        deletes = self.random.random() < 0.5
        filter = self.random.choice(FILTERS)
        with self.lab.transaction(shard) as transaction:
            if deletes:
                transaction.delete(filter, 5, 15)
            for row in rows:
                transaction.write(*row)
        if deletes:
            self.model.delete(filter, 5, 15, shard)
        serial = self.lab.serials()[shard]
        for number, row in enumerate(rows):
            self.model.write(row, shard, serial, number)
        return "a transaction"

    def _drop(self) -> str:
        old = [s for s in self._slabs() if s.read_only]
        if not old:
            return "nothing"
        slab = self.random.choice(old)
        self.lab.engine.drop_slab(slab.shard, slab.retention_class, slab.generation)
        self.model.drop(slab.shard, slab.generation - self._first_generation())
        return "a drop"

    def _first_generation(self) -> int:
        """Returns the number by which the engine's generations are ahead of the model's."""
        return max(slab.generation for slab in self._slabs()) - self.model.generation

    def _slabs(self) -> list[Slab]:
        """Returns the slabs of the class of all topics, in which the messages are."""
        return [slab for slab in self.lab.engine.slabs() if slab.retention_class == "#"]


def _run(lab: Lab, seed: int) -> None:
    history = History(lab, seed)
    for number in range(STEPS):
        what = history.step()
        history.check(f"step {number} of seed {seed}: {what}")


@promise()
def first_history(lab: Lab) -> None:
    """Reads find what the model holds after each of 60 random steps (seed 1)."""
    _run(lab, 1)


@promise()
def second_history(lab: Lab) -> None:
    """Reads find what the model holds after each of 60 random steps (seed 2)."""
    _run(lab, 2)


@promise()
def third_history(lab: Lab) -> None:
    """Reads find what the model holds after each of 60 random steps (seed 3)."""
    _run(lab, 3)

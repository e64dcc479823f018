"""Missing shards: they are named, what needs one is refused, and nothing is left out unasked."""

from __future__ import annotations

from collections.abc import Callable

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, plain, read
from topicdb.conformance.promise import promise
from topicdb.engine import Engine, TailCursor
from topicdb.engines.features import FEATURES, lacks_of

Messages = list[tuple[str, int, bytes]]
GONE = 1
"""The shard that is lost."""


def _fill(lab: Lab) -> Messages:
    """Stores messages in each shard."""
    topics = [lab.topic_in(shard, "m") for shard in range(lab.shards)]
    rows = [(topic, n, b"%d" % n) for topic in topics for n in range(10)]
    lab.append(*rows)
    return rows


def _left(lab: Lab, rows: Messages) -> Messages:
    """Returns the messages that are not in the lost shard, sorted."""
    return sorted(row for row in rows if lab.shard_of(row[0]) != GONE)


def _drained(tail: TailCursor) -> Messages:
    """Returns what a tail has without waiting."""
    found: Messages = []
    while (batch := tail.next_batch(100, 8 << 20, 0)) is not None:
        found += plain(batch)
    return found


def _stepped(engine: Engine, at: _core.ScanIterator) -> Messages:
    """Returns what a scan in steps still has to give."""
    found: Messages = []
    while not at.at_end:
        step = engine.next_of_scan(at, 100, 8 << 20)
        found, at = [*found, *plain(step.batch)], step.iterator
    return found


def _reads_of_what_is_named(engine: Engine, filter: str) -> dict[str, Messages]:
    """Returns what the engine gives of streams, slices and a scan in steps of its partial(), by
    name, as far as it has them."""
    part, lacks = engine.partial(), lacks_of(engine)
    found: dict[str, Messages] = {}
    if "streams" not in lacks:
        streams = part.streams(filter, None, None, None)
        found["streams"] = read(engine.scan(filter, None, None, "stream", streams))
    if "slices" not in lacks:
        slices = part.slices([filter], None, None, {}, {}, 1 << 20)
        found["slices"] = read(engine.scan_slices([filter], slices))
    if "steps" not in lacks:
        found["steps"] = _stepped(engine, part.scan_iterator(filter, None, None))
    return found


def _reads(engine: Engine) -> dict[str, Callable[[str], object]]:
    """Returns reads of a filter, by name, as far as the engine has them."""
    reads: dict[str, tuple[str, Callable[[str], object]]] = {
        "scan": ("", lambda f: read(engine.scan(f, None, None, "none", None))),
        "last": ("", lambda f: read(engine.last(f, None, None))),
        "streams": ("streams", lambda f: engine.streams(f, None, None, None)),
        "scan_iterator": ("steps", lambda f: engine.scan_iterator(f, None, None)),
        "slices": ("slices", lambda f: engine.slices([f], None, None, {}, {}, 1 << 20)),
        "explain": ("explain", lambda f: engine.explain(f, None, None)),
        "summarize": ("summaries", lambda f: engine.summarize(f, None, None, 0, None, 0)),
        "watch_streams": ("watches", lambda f: engine.watch_streams(f, True).close()),
        "tail": ("log", lambda f: engine.tail([f], {}, {}).close()),
        "subscribe": ("subscriptions", lambda f: engine.subscribe([f], {}, 0, 10, 1_000).close()),
    }
    lacks = lacks_of(engine)
    return {name: use for name, (feature, use) in reads.items() if feature not in lacks}


@promise()
def none_is_missing(lab: Lab) -> None:
    """An engine that has all of its shards misses none, and its partial() reads the same."""
    rows = _fill(lab)
    engine = lab.engine
    for filters in ("#", None, "m/+", rows[0][0], ["m/+", "nobody"]):
        expect.equal(engine.missing_shards(filters), {}, f"missing shards for {filters}")
    expect.equal(engine.stats()["missing_shards"], {}, "missing_shards, of stats()")
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        engine.missing_shards("a/#/b")
    part = engine.partial()
    for one in (engine, part):
        scan = one.scan(None, None, None, "none", None)
        expect.equal(scan.missing_shards(), {}, "what a scan leaves out")
        expect.equal(sorted(read(scan)), sorted(rows), "what a scan gives")
        if lab.has("log"):
            tail = one.tail(None, {}, {})
            expect.equal(sorted(tail.shards()), list(range(lab.shards)), "the shards of a tail")
            expect.equal(tail.missing_shards(), {}, "what a tail leaves out")
            tail.close()
        if lab.has("subscriptions"):
            cursor = one.subscribe(None, {}, 0, 10, 1_000)
            expect.equal(cursor.missing_shards(), {}, "what a subscription leaves out")
            cursor.close()
    receipt = part.append_rows([(rows[0][0], 100, b"more")], None)
    expect.equal(receipt.count, 1, "the count of an append by partial()")
    expect.equal(lab.everything(), sorted([*rows, (rows[0][0], 100, b"more")]), "what is stored")


@promise("persistence")
def a_lost_one_is_named(lab: Lab) -> None:
    """missing_shards() names all missing shards, each with the reason, whatever the filters: a
    transaction may write any topic to any shard. stats() names them, too, and counts the others."""
    _fill(lab)
    here, there = lab.topic_in(0, "m"), lab.topic_in(GONE, "m")
    with lab.without(GONE) as engine:
        whole = engine.missing_shards("#")
        expect.equal(list(whole), [GONE], "the missing shards")
        expect.true(whole[GONE] and isinstance(whole[GONE], str), "the reason is text")
        for filters in (None, "m/+", there, here, [here], [here, there]):
            expect.equal(engine.missing_shards(filters), whole, f"those for {filters}")
        stats = engine.stats()
        expect.equal(stats["missing_shards"], whole, "missing_shards, of stats()")
        shards = [shard["shard"] for shard in stats["shards"]]
        others = [shard for shard in range(lab.shards) if shard != GONE]
        expect.equal(shards, others, "the shards of stats()")


@promise("persistence")
def what_needs_it_is_refused(lab: Lab) -> None:
    """What needs a missing shard is a MissingShardError and changes nothing: writes to it, and
    reads and deletes of any topic, which a transaction may have written to it."""
    rows = _fill(lab)
    here, there = lab.topic_in(0, "m"), lab.topic_in(GONE, "m")
    if lab.has("transactions"):
        with lab.transaction(GONE) as transaction:
            transaction.write(here, 50, b"elsewhere")
        rows.append((here, 50, b"elsewhere"))
    with lab.without(GONE) as engine:
        for name, use in _reads(engine).items():
            for filter in ("#", "m/+", there, here):
                with expect.raises(_core.MissingShardError, f"{name} of {filter!r}"):
                    use(filter)
        writes: dict[str, tuple[str, Callable[[], object]]] = {
            "append": ("", lambda: engine.append_rows([(here, 100, b""), (there, 9, b"")], None)),
            "delete": ("deletes", lambda: engine.delete("#", None, None, None)),
            "delete of a topic": ("deletes", lambda: engine.delete(here, None, None, None)),
            "begin": ("transactions", lambda: engine.begin(GONE, None, None)),
        }
        for name, (feature, write) in writes.items():
            if feature not in lacks_of(engine):
                with expect.raises(_core.MissingShardError, name):
                    write()
    lab.reopen()
    expect.equal(lab.everything(), sorted(rows), "what is stored")


@promise("persistence")
def the_rest_goes_on(lab: Lab) -> None:
    """What needs no missing shard goes on: appends, transactions, and reads that name what is
    there. Everything is there when the shard is back."""
    rows = _fill(lab)
    here = lab.topic_in(0, "m")
    mine = [row for row in rows if row[0] == here]
    with lab.without(GONE) as engine:
        for name, found in _reads_of_what_is_named(engine, here).items():
            expect.equal(sorted(found), mine, f"what {name} of another shard give")
        receipt = engine.append_rows([(here, 100, b"appended")], None)
        expect.equal(list(receipt.serials), [0], "the shards of a receipt")
        rows.append((here, 100, b"appended"))
        if "transactions" not in lacks_of(engine):
            transaction = engine.begin(0, None, None)
            transaction.delete(here, 0, 5)
            transaction.write(here, 101, b"committed")
            transaction.commit()
            rows = [row for row in rows if not (row[0] == here and row[1] < 5)]
            rows.append((here, 101, b"committed"))
    lab.reopen()
    expect.equal(lab.everything(), sorted(rows), "what is stored")
    expect.equal(lab.engine.missing_shards(None), {}, "missing shards afterwards")


@promise("persistence")
def a_partial_read_leaves_it_out(lab: Lab) -> None:
    """Reads of partial() leave out missing shards, say which, and give all the rest; in all else it
    is like the engine, whose own reads are still refused."""
    rows = _fill(lab)
    here, there = lab.topic_in(0, "m"), lab.topic_in(GONE, "m")
    left = _left(lab, rows)
    with lab.without(GONE) as engine:
        part, missing = engine.partial(), engine.missing_shards("#")
        scan = part.scan(None, None, None, "none", None)
        expect.equal(scan.missing_shards(), missing, "what a scan leaves out")
        expect.equal(sorted(read(scan)), left, "what a scan gives")
        scan = part.scan(here, None, None, "stream", None)
        expect.equal(scan.missing_shards(), missing, "what a scan of another shard leaves out")
        expect.equal(read(scan), [row for row in rows if row[0] == here], "what it gives")
        scan = part.last("m/+", None, None)
        expect.equal(scan.missing_shards(), missing, "what last() leaves out")
        expect.equal(read(scan), [row for row in left if row[1] == 9], "what last() gives")
        for name, use in _reads(part).items():
            for filter in ("#", there, here):
                use(filter)
            with expect.raises(_core.MissingShardError, f"{name} of the engine"):
                _reads(engine)[name]("#")
        with expect.raises(_core.MissingShardError, "an append"):
            part.append_rows([(there, 9, b"")], None)
    lab.reopen()
    expect.equal(lab.everything(), sorted(rows), "what is stored")


@promise("persistence")
def partial_reads_go_on_where_they_are(lab: Lab) -> None:
    """Streams, slices, scans in steps, tails and subscriptions of partial() are of the shards that
    are there, and name no other, so that whoever stores where they stand reads the rest later."""
    rows = _fill(lab)
    left = _left(lab, rows)
    others = [shard for shard in range(lab.shards) if shard != GONE]
    with lab.without(GONE) as engine:
        part, missing = engine.partial(), engine.missing_shards("#")
        has = set(FEATURES) - lacks_of(engine)
        if "streams" in has:
            shards = {stream.shard for stream in part.streams("m/+", None, None, None)}
            expect.equal(sorted(shards), others, "the shards of streams")
        if "steps" in has:
            at = part.scan_iterator("m/+", None, None)
            expect.equal(sorted(at.serials), others, "the shards of a scan in steps")
            expect.equal(sorted(_stepped(part, at)), left, "what it gives")
        if "slices" in has:
            slices = part.slices(["m/+"], None, None, {}, {}, 1 << 20)
            held = read(part.scan_slices(["m/+"], slices))
            expect.equal(sorted(held), left, "what slices hold")
        if "log" in has:
            tail = part.tail(["m/+"], {}, {})
            expect.equal(tail.missing_shards(), missing, "what a tail leaves out")
            expect.equal(sorted(tail.shards()), others, "the shards of a tail")
            expect.equal(sorted(_drained(tail)), left, "what it gives")
            expect.equal(sorted(tail.serials()), others, "the shards of its serials")
            tail.close()
        if "subscriptions" in has:
            cursor = part.subscribe(["m/+"], {}, 0, 1_000, 1 << 20)
            expect.equal(cursor.missing_shards(), missing, "what a subscription leaves out")
            found: Messages = []
            while len(found) < len(left):
                delivered = cursor.next(lab.patience_us, 1_000)
                assert delivered is not None
                found += plain(delivered.batch)
            expect.equal(sorted(found), left, "what it gives")
            expect.equal(sorted(cursor.info()["places"]), others, "the shards of its places")
            cursor.close()

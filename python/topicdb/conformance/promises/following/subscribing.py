"""Subscriptions: history and then commits, windows, places, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, plain
from topicdb.conformance.promise import promise
from topicdb.engine import RowPlace, SubscriptionCursor
from topicdb.follow.losses import Loss
from topicdb.results import Delivered

ALL = (1 << 63) - 1
INFO_KEYS = {"state", "delivered", "acknowledged", "waiting", "waiting_bytes", "places", "lost"}


def subscribe(
    lab: Lab,
    filters: Sequence[str] | None = None,
    places: dict[int, RowPlace] | None = None,
    start_us: int = 0,
    window: int = 1_000,
    **more: Any,
) -> SubscriptionCursor:
    """Subscribes; ``places`` None: from the oldest message on."""
    begin = {} if places is None else places
    rest = more.get("part", (0, 1)), more.get("counted", {}), more.get("given", ())
    return lab.engine.subscribe(filters, begin, start_us, window, 8 << 20, *rest)


def take(lab: Lab, cursor: SubscriptionCursor, count: int, rows: int = ALL) -> list[Delivered]:
    """Waits for deliveries of ``count`` messages together, and acknowledges each."""
    found: list[Delivered] = []
    while count > 0:
        delivered = cursor.next(lab.patience_us, rows)
        expect.true(delivered is not None, f"{count} more messages come")
        assert delivered is not None
        found.append(delivered)
        if delivered.loss is None:
            count -= len(delivered.batch)
            cursor.acknowledge(delivered.seqno)
    return found


def texts(found: Sequence[Delivered]) -> list[bytes]:
    """Returns the values of deliveries."""
    return [value for one in found for value in one.batch.values]


@promise("subscriptions")
def history_and_then_what_comes(lab: Lab) -> None:
    """A subscription gives what is stored and then each commit, in each shard in the order of
    commits, each message once."""
    topic, late = lab.topic_in(0), lab.topic_in(0, "late")
    for commit in range(5):
        lab.append(*[(topic, 99 - commit, b"%d.%d" % (commit, n)) for n in range(4)])
    cursor = subscribe(lab)
    found = texts(take(lab, cursor, 20))
    for commit in range(5, 10):
        lab.append(*[(late, 1, b"%d.%d" % (commit, n)) for n in range(4)])
    found += texts(take(lab, cursor, 20))
    expect.equal(found, [b"%d.%d" % (c, n) for c in range(10) for n in range(4)], "what it gives")
    expect.equal(cursor.next(1_000, ALL), None, "what it gives when nothing is left")
    cursor.close()


@promise("subscriptions")
def from_now_on(lab: Lab) -> None:
    """With places None a subscription gives what is committed from now on."""
    lab.append(("a", 1, b"before"))
    cursor = lab.engine.subscribe(None, None, 0, 100, 1 << 20)
    lab.append(("a", 2, b"after"))
    expect.equal(texts(take(lab, cursor, 1)), [b"after"], "what it gives")
    cursor.close()


@promise("subscriptions")
def filters_and_times_are_kept(lab: Lab) -> None:
    """A subscription gives what its filters match, each once, from the timestamp start_us on,
    whether it is stored already or comes later."""
    lab.append(("a/1", 5, b"old"), ("a/1", 50, b"1"), ("b", 60, b"no"), ("a/2", 70, b"2"))
    cursor = subscribe(lab, ["a/#", "a/1"], start_us=50)
    found = texts(take(lab, cursor, 2))
    lab.append(("a/3", 49, b"old"), ("a/3", 50, b"3"), ("$SYS/a", 90, b"no"))
    found += texts(take(lab, cursor, 1))
    expect.equal(sorted(found), [b"1", b"2", b"3"], "what it gives")
    expect.equal(cursor.next(1_000, ALL), None, "what is left")
    cursor.close()


@promise("subscriptions")
def deliveries_have_places(lab: Lab) -> None:
    """A delivery says its shard, its messages' commits and numbers, the place behind it, and the
    number of its last message; another subscription can begin at that place."""
    topic = lab.topic_in(0)
    serials = [
        lab.append(*[(topic, n, b"%d.%d" % (c, n)) for n in range(4)]).serials[0] for c in range(4)
    ]
    ranks = {b"%d.%d" % (c, n): (serials[c], n) for c in range(4) for n in range(4)}
    cursor = subscribe(lab)
    seqno = 0
    for found in take(lab, cursor, 16, rows=3):
        assert found.batch.serials is not None
        expect.true(len(found.batch) <= 3, "rows_max limits a delivery")
        seqno += len(found.batch)
        expect.equal((found.seqno, found.shard, found.loss), (seqno, 0, None), "seqno, shard, loss")
        places = list(zip(found.batch.serials.tolist(), found.rows.tolist(), strict=True))
        expect.equal(places, [ranks[value] for value in found.batch.values], "places of messages")
        expect.true(
            (found.serial, found.row) > places[-1], "the place behind is behind the last message"
        )
        again = subscribe(lab, places={0: (found.serial, found.row)})
        rest = texts(take(lab, again, 16 - seqno)) if seqno < 16 else []
        expect.equal(rest, list(ranks)[seqno:], "what a subscription from there gives")
        again.close()
    behind = cursor.info()["places"][0]
    expect.equal(tuple(behind), (serials[-1] + 1, 0), "the place behind a whole commit")
    cursor.close()


@promise("subscriptions")
def a_window_holds_back(lab: Lab) -> None:
    """At most as many messages as the window are given and not acknowledged; then nothing comes
    until some are acknowledged, and nothing is missed."""
    topic = lab.topic_in(0)
    lab.append(*[(topic, n, b"%d" % n) for n in range(50)])
    cursor = subscribe(lab, window=10)
    found: list[bytes] = []
    while len(found) < 50:
        room = min(10, 50 - len(found))
        while room > 0:
            delivered = cursor.next(lab.patience_us, ALL)
            expect.true(delivered is not None, "the window is filled")
            assert delivered is not None
            room -= len(delivered.batch)
            found += delivered.batch.values
        expect.equal(room, 0, "room in the window")
        if len(found) < 50:
            expect.equal(cursor.next(1_000, ALL), None, "what comes while the window is full")
            expect.equal(cursor.info()["state"], "full", "the state then")
        cursor.acknowledge(len(found))
    expect.equal(found, [b"%d" % n for n in range(50)], "what came")
    cursor.close()


@promise("subscriptions")
def acknowledgements_that_cannot_be(lab: Lab) -> None:
    """To acknowledge what was not given, or twice, is a ValueError, and changes nothing."""
    lab.append(*[("a", n, b"") for n in range(5)])
    cursor = subscribe(lab)
    with expect.raises(ValueError, "acknowledging before a delivery"):
        cursor.acknowledge(1)
    found = cursor.next(lab.patience_us, 3)
    assert found is not None
    cursor.acknowledge(2)
    for seqno in (0, 1, 2, found.seqno + 1):
        with expect.raises(ValueError, f"acknowledging {seqno}"):
            cursor.acknowledge(seqno)
    cursor.acknowledge(found.seqno)
    cursor.close()


@promise("subscriptions")
def a_pause_gives_nothing(lab: Lab) -> None:
    """A subscription that is paused gives nothing until it is resumed, and misses nothing."""
    cursor = subscribe(lab)
    cursor.pause()
    lab.append(("a", 1, b"1"))
    expect.equal(cursor.info()["state"], "paused", "the state")
    expect.equal(cursor.next(20_000, ALL), None, "what comes during a pause")
    cursor.resume()
    expect.equal(texts(take(lab, cursor, 1)), [b"1"], "what comes afterwards")
    cursor.close()


@promise("subscriptions")
def it_says_how_it_stands(lab: Lab) -> None:
    """info() says the state, what was given and acknowledged, what waits, and the places."""
    lab.append(*[("a", n, b"12345") for n in range(6)])
    cursor = subscribe(lab)
    lab.wait_until(lambda: cursor.info()["waiting"] == 6, "six messages wait")
    info = cursor.info()
    expect.equal(INFO_KEYS - set(info), set(), "keys that info() lacks")
    expect.equal(
        (info["delivered"], info["waiting_bytes"], info["lost"]), (0, 36, 0), "what it says"
    )
    found = cursor.next(lab.patience_us, 4)
    assert found is not None
    info = cursor.info()
    expect.equal((info["delivered"], info["waiting"]), (4, 2), "delivered and waiting")
    expect.equal(info["places"][found.shard], (found.serial, found.row), "the place of the shard")
    cursor.acknowledge(3)
    expect.equal(cursor.info()["acknowledged"], 3, "what is acknowledged")
    expect.equal(lab.engine.subscription_stats()["subscriptions"], 1, "how many there are")
    cursor.close()
    expect.equal((cursor.info()["state"], cursor.closed), ("closed", True), "the state afterwards")


@promise("subscriptions")
def a_commit_wakes_it(lab: Lab) -> None:
    """A call that waits returns when something comes; on_ready gives its token then."""
    cursor = subscribe(lab, ["a/+"])
    expect.equal(cursor.next(0, ALL), None, "what comes before a commit")
    waits = lab.beside(lambda: cursor.next(None, ALL))
    lab.append(("b", 1, b""))
    lab.append(("a/x", 1, b"mine"))
    found = waits.result()
    expect.equal(None if found is None else found.batch.values, [b"mine"], "what came")
    tokens = _core.ReadyTokens()
    cursor.on_ready(tokens, 7)
    expect.equal(cursor.next(0, ALL), None, "what comes before the next commit")
    lab.append(("a/y", 1, b"more"))
    ready = lab.beside(lambda: tokens.take(lab.patience_us))
    expect.equal(set(ready.result()), {7}, "the tokens of on_ready")
    lab.wait_until(lambda: cursor.next(0, ALL) is not None, "next() has what on_ready told of")
    tokens.close()
    cursor.close()


@promise("subscriptions")
def closing_ends_a_wait(lab: Lab) -> None:
    """A call that waits returns None when another thread closes the subscription."""
    cursor = subscribe(lab)
    waits = lab.beside(lambda: cursor.next(None, ALL))
    expect.equal(cursor.closed, False, "closed")
    cursor.close()
    cursor.close()
    expect.equal(waits.result(), None, "what a call gets that waits")
    expect.equal((cursor.next(None, ALL), cursor.closed), (None, True), "a call afterwards")


@promise("subscriptions")
def parts_divide_the_topics(lab: Lab) -> None:
    """The parts of a count together give each message once; a topic is in one part."""
    rows = [(f"part/{n % 40}", n, b"%d" % n) for n in range(200)]
    lab.append(*rows)
    cursors = [subscribe(lab, part=(number, 3)) for number in range(3)]
    found: list[list[tuple[str, int, bytes]]] = [[], [], []]

    def have_all() -> bool:
        for mine, cursor in zip(found, cursors, strict=True):
            if (one := cursor.next(1_000, ALL)) is not None:
                mine += plain(one.batch)
                cursor.acknowledge(one.seqno)
        return sum(map(len, found)) >= len(rows)

    lab.wait_until(have_all, "the parts together give all messages")
    expect.equal(sorted(m for mine in found for m in mine), sorted(rows), "what all parts give")
    topics = [topic for mine in found for topic in sorted({topic for topic, _, _ in mine})]
    expect.equal(len(topics), len(set(topics)), "how many topics are in one part alone")
    for cursor in cursors:
        cursor.close()


@promise("subscriptions")
def messages_are_found_by_place(lab: Lab) -> None:
    """find() gives the messages of a shard at given places that the filters match."""
    topic, other = lab.topic_in(0), lab.topic_in(0, "other")
    serial = lab.append((topic, 1, b"0"), (other, 2, b"1"), (topic, 3, b"2")).serials[0]
    cursor = subscribe(lab, [topic])
    batch, rows = cursor.find(0, [(serial, 0), (serial, 1), (serial, 2), (serial, 9)])
    expect.equal(plain(batch), [(topic, 1, b"0"), (topic, 3, b"2")], "the messages")
    expect.equal(rows.tolist(), [0, 2], "their numbers in the commit")
    cursor.close()


@promise("subscriptions")
def places_of_a_time(lab: Lab) -> None:
    """places_at() gives for each shard the place of the first message, in the order of commits,
    that is not older; where there is none, the place behind all."""
    topic = lab.topic_in(0)
    lab.append((topic, 10, b"old"), (topic, 30, b"1"))
    lab.append((topic, 20, b"old"), (topic, 40, b"2"))
    places = lab.engine.places_at(None, 25)
    expect.equal(sorted(places), list(range(lab.shards)), "the shards")
    cursor = subscribe(lab, places=places)
    expect.equal(texts(take(lab, cursor, 3)), [b"1", b"old", b"2"], "what comes from there on")
    cursor.close()
    end = lab.engine.places_at(None, ALL)
    cursor = subscribe(lab, places=end)
    lab.append((topic, 50, b"3"))
    expect.equal(texts(take(lab, cursor, 1)), [b"3"], "what comes from the end on")
    cursor.close()


@promise("subscriptions", "deletes")
def deleted_messages_are_left_out(lab: Lab) -> None:
    """What was deleted before a subscription began is left out, and is no loss."""
    topic = lab.topic_in(0)
    lab.append(*[(topic, n, b"%d" % n) for n in range(6)])
    lab.engine.delete(topic, 1, 4, None)
    cursor = subscribe(lab)
    expect.equal(texts(take(lab, cursor, 3)), [b"0", b"4", b"5"], "what it gives")
    expect.equal(cursor.info()["lost"], 0, "what is lost")
    cursor.close()


@promise("subscriptions", "generations")
def a_dropped_generation_is_a_loss(lab: Lab) -> None:
    """A reader that had not read a generation when it was dropped is told of the loss before it
    gets what is behind it; count_dropped() says so, too."""
    topic = lab.topic_in(0)
    receipt = lab.append(*[(topic, n, b"%d" % n) for n in range(20)])
    before = (receipt.serials[0], 0)
    cursor = subscribe(lab, places={0: before}, window=5)
    given = cursor.next(lab.patience_us, ALL)
    assert given is not None
    lab.engine.rotate(None)
    lab.append((topic, 1, b"behind"))
    slab = next(s for s in lab.engine.slabs() if s.shard == 0 and s.read_only and s.messages)
    lab.engine.drop_slab(0, slab.retention_class, slab.generation)
    place = given.serial, given.row
    dropped = lab.engine.count_dropped(0, None, 0, place, 0)
    expect.true(
        dropped >= 20 - len(given.batch),
        f"count_dropped() says at least what is missing, not {dropped}",
    )
    cursor.acknowledge(given.seqno)
    losses: list[Loss] = []
    rest: list[bytes] = []
    for one in take(lab, cursor, 1):
        expect.true(one.loss is not None or losses, "the loss comes before what is behind it")
        if one.loss is not None:
            losses.append(one.loss)
        else:
            rest += one.batch.values
    expect.equal(rest, [b"behind"], "what comes behind it")
    expect.equal(
        [(loss.shard, loss.retention_class, loss.generation) for loss in losses],
        [(0, slab.retention_class, slab.generation)],
        "the losses",
    )
    expect.true(losses[0].messages >= 20 - len(given.batch), "it counts at least what is missing")
    expect.equal(cursor.info()["lost"], losses[0].messages, "what info() counts as lost")
    cursor.close()
    counted = lab.engine.count_dropped(0, None, 0, place, losses[0].serial)
    expect.equal(counted, 0, "what was dropped behind the commit that was counted")


@promise("subscriptions")
def what_cannot_be_is_refused(lab: Lab) -> None:
    """A shard that does not exist is a ValueError, as is an empty window; a bad filter is a
    TopicError."""
    with expect.raises(ValueError, "places of a shard too many"):
        subscribe(lab, places={lab.shards: (1, 0)})
    with expect.raises(ValueError, "an empty window"):
        subscribe(lab, window=0)
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        subscribe(lab, ["a/#/b"])


@promise("subscriptions")
def beside_writers(lab: Lab) -> None:
    """Subscriptions beside writers give each message once, those of a writer in their order; one
    that is slow does not hold up others."""
    writers, commits = 2, 40
    slow, fast = subscribe(lab, window=3), subscribe(lab, window=1_000)

    def write(writer: int) -> None:
        for commit in range(commits):
            lab.append(*[(f"w/{writer}", 1, b"%d.%d" % (commit, n)) for n in range(3)])

    tasks = [lab.beside(lambda n=n: write(n)) for n in range(writers)]  # type: ignore[misc]
    wanted = [b"%d.%d" % (commit, n) for commit in range(commits) for n in range(3)]
    for cursor in (fast, slow):
        seen: dict[str, list[bytes]] = {f"w/{n}": [] for n in range(writers)}
        for found in take(lab, cursor, writers * commits * 3):
            for topic, _, value in found.batch:
                seen[topic].append(value)
        for topic, values in seen.items():
            expect.equal(values, wanted, f"what {topic!r} gave")
        cursor.close()
    for task in tasks:
        task.result()

"""Deletes of messages by filter and time."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise


def _fill(lab: Lab) -> list[tuple[str, int, bytes]]:
    rows = [(f"{kind}/{n % 4}", n, b"%d" % n) for n in range(40) for kind in ("a", "b", "$SYS")]
    lab.append(*rows)
    return rows


@promise("deletes")
def exactly_what_matches_is_gone(lab: Lab) -> None:
    """A delete removes the messages of its filter with start <= timestamp < end, and no others."""
    rows = _fill(lab)
    receipt = lab.engine.delete("a/+", 5, 9, None)
    left = [row for row in rows if not (row[0].startswith("a/") and 5 <= row[1] < 9)]
    expect.equal(receipt.count, len(rows) - len(left), "how many messages the receipt counts")
    expect.equal(lab.everything(), sorted(left), "what is left")
    lab.engine.delete("b/2", None, None, None)
    left = [row for row in left if row[0] != "b/2"]
    expect.equal(lab.everything(), sorted(left), "what is left")


@promise("deletes")
def a_wildcard_spares_dollar_topics(lab: Lab) -> None:
    """A filter that begins with a wildcard deletes no topic that begins with "$"."""
    rows = _fill(lab)
    lab.engine.delete("#", None, None, None)
    left = sorted(row for row in rows if row[0].startswith("$"))
    expect.equal(lab.everything(), left, "what is left")
    lab.engine.delete("$SYS/#", None, None, None)
    expect.equal(lab.everything(), [], "what is left")


@promise("deletes")
def it_is_a_commit(lab: Lab) -> None:
    """A delete is a commit of its own in each shard, whose serial the receipt has."""
    receipt = lab.append(*[(lab.topic_in(shard), 1, b"") for shard in range(lab.shards)])
    deleted = lab.engine.delete("#", None, None, None)
    for shard, serial in deleted.serials.items():
        expect.true(serial > receipt.serials[shard], "the serial of a delete is a later one")
    expect.equal(deleted.count, lab.shards, "the count")


@promise("deletes")
def nothing_to_delete_is_no_error(lab: Lab) -> None:
    """A delete that matches nothing counts 0, and changes no message."""
    rows = _fill(lab)
    expect.equal(lab.engine.delete("c/#", None, None, None).count, 0, "the count")
    expect.equal(lab.engine.delete("a/#", 1_000, None, None).count, 0, "the count")
    expect.equal(lab.engine.delete("a/#", 5, 5, None).count, 0, "the count of an empty range")
    expect.equal(lab.everything(), sorted(rows), "what is stored")


@promise("deletes")
def what_cannot_be_deletes_nothing(lab: Lab) -> None:
    """A bad filter is a TopicError, a range that ends before it begins a ValueError."""
    _fill(lab)
    with lab.nothing_changes("a/#/b"), expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.delete("a/#/b", None, None, None)
    with lab.nothing_changes("a range"), expect.raises(ValueError, "a range from 9 to 5"):
        lab.engine.delete("a/#", 9, 5, None)
    with lab.nothing_changes("durability"), expect.raises(ValueError, "durability 'much'"):
        lab.engine.delete("a/#", None, None, "much")


@promise("deletes")
def what_comes_later_stays(lab: Lab) -> None:
    """A delete removes what was stored before it, and nothing that is stored after it."""
    lab.append(("a", 1, b"before"))
    lab.engine.delete("a", None, None, None)
    lab.append(("a", 1, b"after"))
    expect.equal(lab.messages("a"), [("a", 1, b"after")], "what is stored")


@promise("deletes", "generations")
def all_generations_are_meant(lab: Lab) -> None:
    """A delete removes messages from older generations, too."""
    lab.append(("a", 1, b"old"), ("b", 1, b"stays"))
    lab.engine.rotate(None)
    lab.append(("a", 2, b"new"))
    expect.equal(lab.engine.delete("a", None, None, None).count, 2, "the count")
    expect.equal(lab.everything(), [("b", 1, b"stays")], "what is left")


@promise("deletes")
def readers_see_all_of_it_or_nothing(lab: Lab) -> None:
    """A scan that began before a delete sees none of it, one that begins afterwards all of it."""
    rows = [("a", n, b"%d" % n) for n in range(100)]
    lab.append(*rows)
    scan = lab.engine.scan("a", None, None, "stream", None)
    first = scan.next_batch(10, 1 << 20)
    lab.engine.delete("a", None, None, None)
    expect.equal(lab.messages("a"), [], "what a new scan gives")
    rest = []
    while (batch := scan.next_batch(10, 1 << 20)) is not None:
        rest += batch.values
    scan.close()
    assert first is not None
    expect.equal([*first.values, *rest], [value for _, _, value in rows], "what the old scan gives")


@promise("deletes", "persistence")
def deletes_are_kept(lab: Lab) -> None:
    """What was deleted does not come back when the engine is opened again."""
    rows = _fill(lab)
    lab.engine.delete("a/#", None, 20, None)
    left = sorted(row for row in rows if not (row[0].startswith("a/") and row[1] < 20))
    lab.reopen()
    expect.equal(lab.everything(), left, "what is there afterwards")

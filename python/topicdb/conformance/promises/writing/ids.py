"""Appends with an id, which may be repeated."""

from __future__ import annotations

from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise

ROWS = [("ids/a", 1, b"one"), ("ids/b", 2, b"two"), ("ids/c", 3, b"three")]


@promise("ids")
def a_repeated_append_is_stored_once(lab: Lab) -> None:
    """An append that is repeated with its id stores nothing, and gets the first receipt."""
    first = lab.engine.append_rows(ROWS, None, False, "x")
    expect.equal(first.repeated, False, "repeated, of the first append")
    lab.append(("other", 1, b""))
    with lab.nothing_changes("the repeated append"):
        again = lab.engine.append_rows(iter(ROWS), None, False, "x")
    expect.equal(again.repeated, True, "repeated, of the second append")
    expect.equal(
        (again.serials, again.count), (first.serials, 3), "the receipt of the second append"
    )
    expect.equal(lab.engine.append_rows(ROWS, None, False, "y").repeated, False, "with another id")


@promise("ids")
def an_id_is_for_one_append(lab: Lab) -> None:
    """An id that was used for other messages is a ValueError, and so is one without bytes or with
    more than 255."""
    lab.engine.append_rows(ROWS, None, False, "x")
    others = [ROWS[:2], [*ROWS[:2], ("ids/c", 3, b"other")], [*ROWS, ("ids/d", 4, b"")]]
    for rows in others:
        with lab.nothing_changes("other messages"), expect.raises(ValueError, "other messages"):
            lab.engine.append_rows(rows, None, False, "x")
    for id in ("", "i" * 256):
        with (
            lab.nothing_changes("a bad id"),
            expect.raises(ValueError, f"an id of {len(id)} bytes"),
        ):
            lab.engine.append_rows(ROWS, None, False, id)
    expect.equal(lab.engine.append_rows(ROWS, None, False, "i" * 255).count, 3, "the longest id")


@promise("ids")
def an_append_is_found(lab: Lab) -> None:
    """find_append returns the receipt of an append with this id, or None."""
    first = lab.engine.append_rows(ROWS, None, False, "x")
    found = lab.engine.find_append("x")
    expect.true(found is not None, "the append is found")
    assert found is not None
    expect.equal((found.serials, found.count), (first.serials, 3), "its receipt")
    expect.equal(lab.engine.find_append("y"), None, "an id that nobody used")


@promise("ids")
def threads_share_an_id(lab: Lab) -> None:
    """Threads that make one append at the same time store it once in each shard."""
    rows = [(lab.topic_in(0, f"ids/{n}"), n, b"%d" % n) for n in range(3)]
    receipts = lab.together(
        [lambda: lab.engine.append_rows(rows, None, False, "x") for _ in range(6)]
    )
    expect.equal(sum(not receipt.repeated for receipt in receipts), 1, "how many have stored it")
    expect.equal(
        len({str(receipt.serials) for receipt in receipts}), 1, "how many serials they got"
    )
    lab.together([lambda: lab.engine.append_rows(ROWS, None, False, "y") for _ in range(6)])
    expect.equal(lab.everything(), sorted([*rows, *ROWS]), "what is stored")


@promise("ids", "persistence")
def ids_are_kept(lab: Lab) -> None:
    """An id is remembered when the engine is opened again."""
    first = lab.engine.append_rows(ROWS, None, False, "x")
    lab.reopen()
    again = lab.engine.append_rows(ROWS, None, False, "x")
    expect.equal((again.repeated, again.serials), (True, first.serials), "the receipt afterwards")
    expect.equal(lab.everything(), sorted(ROWS), "what is stored")


@promise("ids", "deletes")
def what_was_deleted_stays_so(lab: Lab) -> None:
    """An append whose messages were deleted since is not stored again by repeating it."""
    lab.engine.append_rows(ROWS, None, False, "x")
    lab.engine.delete("ids/#", None, None, None)
    expect.equal(lab.engine.append_rows(ROWS, None, False, "x").repeated, True, "repeated")
    expect.equal(lab.everything(), [], "what is stored")

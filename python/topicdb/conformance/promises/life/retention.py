"""Retention classes, and what maintenance drops."""

from __future__ import annotations

import time
from collections.abc import Sequence

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.results import RetentionClass

DAY_US = 86_400 * 1_000_000


def _set(lab: Lab, *ages: tuple[str, int], dry_run: bool = False) -> None:
    lab.engine.set_retention(
        [RetentionClass(f, days * DAY_US, 0, 0, 0) for f, days in ages], dry_run
    )


def _classes(lab: Lab) -> list[tuple[str, int]]:
    return [(one.filter, one.age_us // DAY_US) for one in lab.engine.retention()]


def _in(days: int) -> int:
    return time.time_ns() // 1_000 + days * DAY_US


@promise("retention", "generations")
def the_first_class_that_matches(lab: Lab) -> None:
    """retention() gives the classes as they were set; a message is stored in the first one whose
    filter matches its topic."""
    _set(lab, ("r/debug/#", 1), ("r/#", 7))
    expect.equal(_classes(lab), [("r/debug/#", 1), ("r/#", 7)], "the classes")
    lab.append(("r/debug/x", 1, b""), ("r/x", 1, b""), ("other", 1, b""))
    found = sorted(slab.retention_class for slab in lab.engine.slabs() if slab.messages)
    expect.equal(found, ["#", "r/#", "r/debug/#"], "the classes of slabs with messages")


@promise("retention")
def a_trial_changes_nothing(lab: Lab) -> None:
    """With dry_run set_retention() changes nothing."""
    _set(lab, ("r/#", 7))
    lab.append(("r/x", 1, b""))
    with lab.nothing_changes("a trial"):
        _set(lab, ("r/#", 1), dry_run=True)
    expect.equal(_classes(lab), [("r/#", 7)], "the classes")


@promise("retention")
def classes_that_cannot_be(lab: Lab) -> None:
    """Classes that are malformed or contradict each other are a SchemaError, and change nothing."""
    _set(lab, ("r/#", 7))
    bad: list[Sequence[tuple[str, int]]] = [
        [("r/#/x", 1)],
        [("r/#", 1), ("r/x", 2)],
        [("r/#", 1), ("r/#", 2)],
        [("#", 1), ("r/#", 2)],
    ]
    for classes in bad:
        with lab.nothing_changes(str(classes)), expect.raises(_core.SchemaError, str(classes)):
            _set(lab, *classes)
        expect.equal(_classes(lab), [("r/#", 7)], "the classes")


@promise("retention", "generations")
def what_is_too_old_goes(lab: Lab) -> None:
    """maintain() and expire() drop generations that ended longer ago than their class allows, and
    no message that is younger."""
    _set(lab, ("r/short", 1), ("r/long", 30))
    lab.append(("r/short", 1, b"s"), ("r/long", 1, b"l"), ("kept", 1, b"k"))
    lab.engine.rotate(None)
    expect.equal(lab.engine.expire(None), [], "what is too old now")
    gone = lab.engine.expire(_in(2))
    found = [slab.retention_class for slab in gone if slab.messages]
    expect.equal(found, ["r/short"], "what is too old in two days")
    expect.equal(lab.everything(), [("kept", 1, b"k"), ("r/long", 1, b"l")], "what is left")
    done = lab.engine.maintain(_in(31))
    dropped = [(one.slab.retention_class, one.reason) for one in done.dropped if one.slab.messages]
    expect.equal(dropped, [("r/long", "age")], "what maintenance drops in 31 days")
    expect.equal(lab.everything(), [("kept", 1, b"k")], "what is left")


@promise("retention")
def maintenance_rotates(lab: Lab) -> None:
    """maintain() begins a new generation where one has taken messages for its time."""
    _set(lab, ("r/#", 8))
    lab.append(("r/x", 1, b""))
    expect.equal(lab.engine.maintain(None).rotated, 0, "how many it begins at once")
    expect.true(lab.engine.maintain(_in(2)).rotated >= 1, "it begins one in two days")


@promise("retention", "persistence")
def classes_are_kept(lab: Lab) -> None:
    """The classes are the same when the engine is opened again."""
    _set(lab, ("r/#", 7))
    lab.reopen()
    expect.equal(_classes(lab), [("r/#", 7)], "the classes")

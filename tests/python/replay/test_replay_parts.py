"""Tests of the parts of replay logs and endpoints that need no database."""

from __future__ import annotations

import pytest

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.course import Course
from topicdb.replay.endpoint.interest import Interest
from topicdb.replay.endpoint.saving import StoreTimes
from topicdb.replay.errors import OutOfResourcesError
from topicdb.replay.log.log_rules import Change, LogRules
from topicdb.replay.log.running import EVENTS_KEPT, Running
from topicdb.replay.records import EndpointRecord, LogRecord, RunRecord, Subscribed
from topicdb.replay.rules import Promoter, Promotion
from topicdb.replay.selector.properties import selector_of
from topicdb.replay.states import Event, State

RUNNING = [State.INITIALIZING, State.ACTIVE, State.PENDING_COMPLETE]


def record(*filters: str) -> EndpointRecord:
    subscriptions = [Subscribed(one, Place(1, 0)) for one in filters]
    return EndpointRecord("q", "queue", True, subscriptions, Place(1, 0))


def run(**options: int) -> RunRecord:
    return RunRecord("", "beginning", Place(1, 0), Place(100, 0), **options)  # type: ignore[arg-type]


def test_a_subscription_that_was_removed_brings_nothing_more_and_stays_for_what_is_here() -> None:
    kept = record("a/#", "b")
    interest = Interest(kept)
    interest.remove("b", Place(5, 0))
    assert interest.subscriptions == ["a/#"]
    assert interest.filters == ["a/#", "b"]
    interest.forget_removed(Place(4, 9))
    assert interest.filters == ["a/#", "b"]
    interest.forget_removed(Place(5, 0))
    assert interest.filters == ["a/#"]


def test_a_filter_that_is_subscribed_again_is_removed_again() -> None:
    interest = Interest(record("a"))
    interest.remove("a", Place(5, 0))
    interest.add("a", Place(7, 0))
    assert interest.subscriptions == ["a"] and interest.filters == ["a"]
    interest.remove("a", Place(9, 0))
    assert interest.subscriptions == []
    interest.forget_removed(Place(6, 0))
    assert interest.filters == ["a"]  # messages of the second subscription may be here
    interest.forget_removed()
    assert interest.filters == ["$topicdb/nothing"]


def test_another_subscription_takes_the_place_of_all() -> None:
    pytest.importorskip("sqlglot")
    kept = record("a", "b")
    interest = Interest(kept)
    selector = "size > 3"
    interest.replace("c", selector, selector_of(selector), Place(8, 2))
    assert kept.subscriptions == [Subscribed("c", Place(8, 2))]
    assert kept.selector == selector


@pytest.mark.parametrize(
    ("stored", "resumed"),
    [
        (State.NONE, State.NONE),
        (State.INITIALIZING, State.INITIALIZING),
        (State.ACTIVE, State.INITIALIZING),
        (State.PENDING_COMPLETE, State.PENDING_COMPLETE),
        (State.COMPLETE, State.COMPLETE),
        (State.FAILED, State.NONE),
    ],
)
def test_a_replay_goes_on_after_a_restart(stored: State, resumed: State) -> None:
    assert Course(stored, 0.0).state is resumed


@pytest.mark.parametrize("state", list(State))
def test_a_replay_is_complete_once_all_is_read_and_acknowledged(state: State) -> None:
    course = Course(State.NONE, 0.0)
    course.state = state
    following = {
        (read_all, left): course.following(lambda: read_all, lambda: left)  # noqa: B023
        for read_all in (False, True)
        for left in (False, True)
    }
    expected: dict[tuple[bool, bool], State | None] = dict.fromkeys(following)
    if state is State.ACTIVE:
        expected[True, False] = expected[True, True] = State.PENDING_COMPLETE
    if state is State.PENDING_COMPLETE:
        expected[False, False] = expected[True, False] = State.COMPLETE
    assert following == expected


@pytest.mark.parametrize("state", list(State))
def test_a_replay_wants_more_when_half_of_it_is_gone(state: State) -> None:
    course = Course(State.NONE, 0.0)
    course.state = state
    assert course.wants_more(True) is (state in RUNNING)
    assert course.wants_more(False) is (state is State.PENDING_COMPLETE)


def test_a_failure_is_over_once_all_clients_know() -> None:
    course = Course(State.NONE, 0.0)
    assert not course.all_know_of_failure  # there is no failure
    course.fail(["one", "two"])
    course.state = State.FAILED
    course.acknowledged_by("one")
    course.acknowledged_by("a third")
    assert not course.all_know_of_failure
    course.acknowledged_by("two")
    assert course.all_know_of_failure


def test_a_replay_that_starts_forgets_who_was_to_be_told() -> None:
    course = Course(State.NONE, 0.0)
    course.fail(["one"])
    course.seek(1.0)
    course.begin(2.0)
    course.state = State.FAILED
    assert course.all_know_of_failure


def test_a_replay_stalls_when_it_is_refused_for_too_long_and_nothing_more_can_come() -> None:
    course = Course(State.INITIALIZING, 0.0)
    limited = run(stall_timeout_us=60_000_000)
    assert not course.has_stalled(limited, True, 1_000.0)  # no client has refused anything
    course.note_refusal(100.0)
    course.note_refusal(150.0)  # the first refusal counts
    assert not course.has_stalled(limited, True, 159.0)
    assert course.has_stalled(limited, True, 160.0)
    assert not course.has_stalled(limited, False, 160.0)  # there is room for more messages
    assert not course.has_stalled(run(), True, 160.0)  # this one may stall for ever
    course.state = State.PENDING_COMPLETE
    assert course.has_stalled(limited, False, 160.0)
    course.note_progress()
    assert not course.has_stalled(limited, True, 1_000.0)


def test_progress() -> None:
    course = Course(State.INITIALIZING, 0.0)
    course.begin(10.0)
    course.state = State.ACTIVE
    none = course.progress(None, Place(3, 4), 20.0)
    assert none == (State.ACTIVE, "3-4", 0, 0, 0.0, 0.0, None)
    half = course.progress(run(total=100, done=50), Place(3, 4), 20.0)
    assert half == (State.ACTIVE, "3-4", 50, 100, 5.0, 10.0, 10.0)
    paused = course.progress(run(total=100, done=50, paused=True), Place(3, 4), 20.0)
    assert paused.eta_s is None
    more = course.progress(run(total=10, done=50), Place(3, 4), 20.0)
    assert (more.total, more.eta_s) == (50, 0.0)
    course.seek(20.0)
    begun = course.progress(run(total=100), Place(3, 4), 20.0)
    assert (begun.per_s, begun.elapsed_s, begun.eta_s) == (0.0, 0.0, None)


def test_endpoints_are_stored_at_the_same_ticks() -> None:
    early, late = StoreTimes(2.0, 10.1), StoreTimes(2.0, 11.9)
    assert early.due_s(10.2) is None and not early.is_dirty
    assert early.touch() and late.touch()
    assert not early.touch()
    assert early.is_dirty
    assert early.due_s(11.5) == late.due_s(11.5) == 0.5
    assert early.due_s(13.0) == -1.0
    early.stored(13.0)
    assert early.due_s(13.0) is None
    assert early.touch()
    assert early.due_s(13.0) == 1.0


def test_an_era_begins_only_with_other_rules() -> None:
    kept = LogRecord(1)
    rules = LogRules(kept)
    assert rules.begin(rules.ingress_era(True, Place(5, 0))) is Change.NOTHING
    assert rules.begin(rules.ingress_era(False, Place(6, 0))) is Change.INGRESS
    assert rules.begin(rules.filters_era(["a/#"], ["a/b"], Place(7, 0))) is Change.FILTERS
    assert rules.begin(rules.filters_era(["a/#"], ["a/b"], Place(8, 0))) is Change.NOTHING
    assert rules.begin(rules.ingress_era(True, Place(9, 0))) is Change.INGRESS
    assert [(era.since.serial, *era.rules) for era in kept.eras] == [
        (0, True, ("#",), ()),
        (6, False, ("#",), ()),
        (7, False, ("a/#",), ("a/b",)),
        (9, True, ("a/#",), ("a/b",)),
    ]
    assert rules.era is kept.eras[-1]


def test_counts_of_direct_messages_go_on_with_other_rules() -> None:
    kept = LogRecord(1, promote=[Promotion("a")])
    rules = LogRules(kept)
    assert rules.promotes("a", b"x") and not rules.promotes("b", b"x")
    rules.set_promotion([Promotion("b")])
    assert rules.promotes("b", b"x") and not rules.promotes("a", b"x")
    assert rules.direct == {"logged": 2, "no rule": 2, "over budget": 0}
    assert kept.promote == [Promotion("b")]


def test_the_budget_in_bytes_is_of_topics_as_utf_8() -> None:
    promoter = Promoter([Promotion("#", bytes_per_s=10)], clock=lambda: 0.0)
    assert promoter.promotes("üüü", b"x")  # 7 bytes of 10
    assert not promoter.promotes("üü", b"")  # 4 bytes


def test_rules_are_replaced_under_the_lock_of_the_counts() -> None:
    promoter = Promoter([Promotion("a", messages_per_s=1)], clock=lambda: 0.0)
    outcomes = [promoter.promotes("a", b"") for _ in range(2)]
    promoter.set_rules([Promotion("a", messages_per_s=1)])
    outcomes += [promoter.promotes("a", b"") for _ in range(2)]
    assert outcomes == [True, False, True, False]
    assert promoter.counts == {"logged": 2, "no rule": 0, "over budget": 2}


def test_replays_take_slots_of_which_there_are_so_many() -> None:
    running = Running("log", 2)
    for endpoint in ("a", "b", "a"):
        running.take_slot(endpoint)
    with pytest.raises(OutOfResourcesError, match="2 replays run in log 'log': replays_max"):
        running.take_slot("c")
    for endpoint in ("a", "a"):
        running.give_slot(endpoint)
    running.take_slot("c")
    assert len(running) == 2


def test_the_last_events_are_kept() -> None:
    running = Running("log", 1)
    for number in range(EVENTS_KEPT + 1):
        running.note(Event(number, "q", State.NONE, State.NONE, "", ""))
    times = [event.time for event in running.events()]
    assert times == list(range(1, EVENTS_KEPT + 1))

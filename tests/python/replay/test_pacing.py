"""Tests of rates, of pacing with a clock of the test, and of remapping."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicdb.replay.broker.remap import Remap
from topicdb.replay.pacing import WAIT_MAX_S, Pacer, Rate, parse_rate

START_US = 1_700_000_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seconds(*values: float) -> npt.NDArray[np.int64]:
    return np.array([START_US + round(value * 1e6) for value in values], np.int64)


def test_rates() -> None:
    assert parse_rate(None) == parse_rate("max") == parse_rate(" MAX ") == Rate()
    assert parse_rate("1x") == Rate(factor=1.0) and parse_rate("0.5X") == Rate(factor=0.5)
    assert parse_rate("10 x") == Rate(factor=10.0) and parse_rate(".5x") == Rate(factor=0.5)
    for same in (500, 500.0, "500", "500/s", "500 /S"):
        assert parse_rate(same) == Rate(per_s=500.0)
    assert [str(parse_rate(text)) for text in ("10x", "0.5x", 500, None)] == [
        "10x",
        "0.5x",
        "500/s",
        "max",
    ]


@pytest.mark.parametrize(
    "wrong",
    ["", "fast", "0x", "0", "-1x", "-5/s", "1e3", "x", "1xx", "inf", "nan", "1/m", "9" * 400 + "x"],
)
def test_texts_that_are_no_rates(wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^rate: {wrong!r}"):
        parse_rate(wrong)


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan"), -0.5])
def test_numbers_that_are_no_rates(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"^rate: "):
        parse_rate(wrong)


@pytest.mark.parametrize("wrong", [True, b"1x", Rate()])
def test_what_is_neither(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"^rate: "):
        parse_rate(wrong)  # type: ignore[arg-type]


def test_as_fast_as_it_goes(clock: Clock) -> None:
    pacer = Pacer(Rate(), clock)
    assert pacer.allowed(seconds(0, 100, 5)) == (3, 0.0)
    assert pacer.allowed(seconds()) == (0, 0.0)


@pytest.mark.parametrize("factor", [1.0, 10.0, 0.25])
def test_gaps_are_kept(clock: Clock, factor: float) -> None:
    pacer = Pacer(Rate(factor=factor), clock)
    times = seconds(0, 0, 1, 1.5, 4)
    assert pacer.allowed(times) == pytest.approx((2, 1 / factor))
    clock.now_s += 0.6 / factor
    assert pacer.allowed(times[2:]) == pytest.approx((0, 0.4 / factor))
    clock.now_s += 0.4 / factor
    assert pacer.allowed(times[2:]) == pytest.approx((1, 0.5 / factor))
    clock.now_s += 3 / factor
    assert pacer.allowed(times[3:]) == (2, 0.0)


def test_who_is_late_catches_up_but_not_more(clock: Clock) -> None:
    pacer = Pacer(Rate(factor=1.0), clock)
    assert pacer.allowed(seconds(0)) == (1, 0.0)
    clock.now_s += 100
    assert pacer.allowed(seconds(1, 50, 99, 101)) == pytest.approx((3, 1.0))


def test_late_messages_go_with_what_is_before_them(clock: Clock) -> None:
    pacer = Pacer(Rate(factor=1.0), clock)
    assert pacer.allowed(seconds(10, 3, 9.5, 11, 2, 12)) == pytest.approx((3, 1.0))
    clock.now_s += 1
    assert pacer.allowed(seconds(11, 2, 12)) == pytest.approx((2, 1.0))


def test_a_pause_does_not_count(clock: Clock) -> None:
    for rate in (Rate(factor=2.0), Rate(per_s=1.0)):
        pacer = Pacer(rate, clock)
        pacer.resume()
        assert pacer.allowed(seconds(0, 2)) == pytest.approx((1, 1.0))
        clock.now_s += 0.5
        pacer.pause()
        clock.now_s += 50
        pacer.pause()
        assert pacer.allowed(seconds(2)) == (0, WAIT_MAX_S)
        clock.now_s += 50
        pacer.resume()
        pacer.resume()
        assert pacer.allowed(seconds(2)) == pytest.approx((0, 0.5))
        clock.now_s += 0.5
        assert pacer.allowed(seconds(2)) == (1, 0.0)


def test_another_factor_from_now_on(clock: Clock) -> None:
    pacer = Pacer(Rate(factor=1.0), clock)
    pacer.allowed(seconds(0))
    clock.now_s += 4
    pacer.set_rate(Rate(factor=10.0))
    assert pacer.rate == Rate(factor=10.0)
    assert pacer.allowed(seconds(10)) == pytest.approx((0, 0.6))
    pacer.pause()
    clock.now_s += 100
    pacer.set_rate(Rate(factor=1.0))
    clock.now_s += 100
    pacer.resume()
    assert pacer.allowed(seconds(10)) == pytest.approx((0, 6.0))


def test_another_factor_of_one_that_is_behind(clock: Clock) -> None:
    """A new factor forgets the delay, so that later messages are not rushed."""
    pacer = Pacer(Rate(factor=100.0), clock)
    pacer.allowed(seconds(0))
    clock.now_s += 100
    assert pacer.allowed(seconds(5)) == (1, 0.0)
    pacer.set_rate(Rate(factor=1.0))
    assert pacer.allowed(seconds(6)) == pytest.approx((0, 1.0))


def test_from_one_kind_of_rate_to_another(clock: Clock) -> None:
    pacer = Pacer(Rate(), clock)
    pacer.allowed(seconds(0))
    pacer.set_rate(Rate(factor=1.0))
    assert pacer.allowed(seconds(100, 101)) == pytest.approx((1, 1.0))
    pacer.set_rate(Rate(per_s=10.0))
    assert pacer.allowed(seconds(200, 300)) == pytest.approx((1, 0.1))
    pacer.set_rate(Rate(factor=1.0))
    assert pacer.allowed(seconds(300, 301)) == pytest.approx((1, 1.0))


def test_after_a_seek_the_first_goes_at_once(clock: Clock) -> None:
    pacer = Pacer(Rate(factor=1.0), clock)
    assert pacer.allowed(seconds(0, 1)) == pytest.approx((1, 1.0))
    pacer.restart()
    assert pacer.allowed(seconds(900, 903)) == pytest.approx((1, 3.0))
    pacer.restart()
    assert pacer.allowed(seconds(5, 6)) == pytest.approx((1, 1.0))


def test_so_many_a_second(clock: Clock) -> None:
    pacer = Pacer(Rate(per_s=100.0), clock)
    times = seconds(*range(1_000))
    count, wait_s = pacer.allowed(times)
    assert (count, wait_s) == pytest.approx((5, 0.01))
    for _ in range(95):
        clock.now_s += 0.01
        more, wait_s = pacer.allowed(times)
        assert (more, wait_s) == pytest.approx((1, 0.01))
        count += more
    assert count == 100
    clock.now_s += 50
    assert pacer.allowed(times)[0] == 5  # messages that nobody took in time are not saved up
    assert pacer.allowed(times[:1])[0] == 0


@given(per_s=st.floats(0.1, 1e6), steps=st.lists(st.floats(0, 0.5), min_size=1, max_size=50))
def test_never_more_a_second(per_s: float, steps: list[float]) -> None:
    clock = Clock()
    pacer = Pacer(Rate(per_s=per_s), clock)
    times = np.zeros(100_000, np.int64)
    begin = clock.now_s
    gone = 0
    for step in steps:
        clock.now_s += step
        gone += pacer.allowed(times)[0]
        assert gone <= max(1.0, 0.05 * per_s) + (clock.now_s - begin) * per_s + 1e-3


@given(
    times=st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=20),
    factor=st.floats(1e-300, 1e300),
)
def test_waiting_as_told_brings_all_in_order(times: list[int], factor: float) -> None:
    clock = Clock()
    pacer = Pacer(Rate(factor=factor), clock)
    left = np.array(times, np.int64)
    turns = 0
    while len(left) and turns < 1_000:
        count, wait_s = pacer.allowed(left)
        assert (wait_s == 0.0) == (count == len(left)) and 0 <= wait_s <= WAIT_MAX_S
        if wait_s == WAIT_MAX_S:
            return
        left = left[count:]
        clock.now_s += wait_s + 1e-6
        turns += 1
    assert not len(left)


# Remapping


def test_first_rule_that_matches() -> None:
    remap = Remap(
        {
            "site/a/#": "test/a/#",
            "site/+/x": "x/+",
            "plant/+/line/+": "copy/{2}-{1}/{2}",
            "deep/+/+/#": "+/d/+/#",
            "one": "two",
            "all/#": "same",
        }
    )
    for topic, name in {
        "site/a/1/2": "test/a/1/2",
        "site/a": "test/a",
        "site/a/": "test/a/",
        "site/a/x": "test/a/x",
        "site/b/x": "x/b",
        "site/b/y": "site/b/y",
        "plant/n/line/7": "copy/7-n/7",
        "plant//line/": "copy/-/",
        "deep/p/q/r": "p/d/q/r",
        "deep/p/q": "p/d/q",
        "one": "two",
        "one/1": "one/1",
        "all/a/b": "same",
    }.items():
        assert remap(topic) == name and remap(topic) == name


def test_prefixes_put_before_and_taken_away() -> None:
    assert Remap({"#": "old/#"})("a/b") == "old/a/b"
    assert Remap({"#": "old/#"})("$SYS/b") == "$SYS/b"
    assert Remap({"+/#": "old/+/#"})("$SYS/b") == "$SYS/b"
    assert Remap({"$SYS/#": "sys/#"})("$SYS/b") == "sys/b"
    taken = Remap({"site/#": "#"})
    assert taken("site/a/b") == "a/b" and taken("site") == "site" and taken("site/") == "site/"


def test_rules_as_texts() -> None:
    remap = Remap.parse(["a/#=b/#", "c=d=e"])
    assert remap.rules == {"a/#": "b/#", "c": "d=e"} and remap("c") == "d=e"
    assert repr(remap) == "Remap({'a/#': 'b/#', 'c': 'd=e'})"
    for wrong in (["a"], ["=a"], ["a="], [""]):
        with pytest.raises(ValueError, match="expected FILTER=TOPIC"):
            Remap.parse(wrong)
    with pytest.raises(ValueError, match="'a' is given twice"):
        Remap.parse(["a=b", "a=c"])


@pytest.mark.parametrize(
    ("filter", "name", "why"),
    [
        ("a/+", "b/+/+", "number 2, and there are 1"),
        ("a/+", "b/{2}", "number 2"),
        ("a/+", "b/{0}", "number 0"),
        ("a", "b/#", "only on the right"),
        ("a/+", "b/#", "only on the right"),
        ("a/+/+", "b/+/{1}", "not both"),
        ("a/#", "b/#/c", "b/#/c|topic"),
        ("a/+", "b/x+", "wildcard|topic"),
        ("a", "", "topic"),
        ("a", "b\0", "topic"),
    ],
)
def test_rules_that_cannot_be(filter: str, name: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"(?i)^remap {filter[0]}.*({why})"):
        Remap({filter: name})


def test_filters_that_are_none() -> None:
    import topicdb

    for wrong in ("a/#/b", "a+", ""):
        with pytest.raises(topicdb.TopicError):
            Remap({wrong: "b"})


LEVELS = st.sampled_from(["a", "b", "", "$c", "x\n"])


@given(
    filter=st.lists(LEVELS | st.just("+"), min_size=1, max_size=4),
    rest=st.booleans(),
    topic=st.lists(LEVELS, min_size=1, max_size=5).map("/".join),
)
def test_it_matches_as_filters_do(filter: list[str], rest: bool, topic: str) -> None:
    from topicdb import _core

    text = "/".join([*filter, "#"] if rest else filter)
    if not text or not topic:
        return
    assert (Remap({text: "found"})(topic) == "found") == _core.topic_matches(text, topic)
    assert Remap({text: text})(topic) == topic

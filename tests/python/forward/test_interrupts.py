"""Tests of signals that come while ``uninterrupted`` replaces or restores their handlers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from topicdb.forward import interrupts
from topicdb.forward.interrupts import uninterrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Handlers:
    """The program's handlers of both signals: they note what came, and raise."""

    def __init__(self) -> None:
        self.came: list[int] = []

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.came.append(number)
        raise KeyboardInterrupt(number)


class Meddling:
    """The module ``signal``, but a signal comes right after the nth handler was set."""

    def __init__(self, nth: int, number: int) -> None:
        self._left = nth
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    def signal(self, number: int, handler: Any) -> Any:
        before = signal.signal(number, handler)
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(self._number)
        return before


@pytest.fixture
def program() -> Iterator[Handlers]:
    handlers = Handlers()
    before = {number: signal.signal(number, handlers.handle) for number in SIGNALS}
    yield handlers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("late", SIGNALS)
@pytest.mark.parametrize("early", SIGNALS)
def test_no_signal_is_lost_while_handlers_are_replaced_or_restored(
    program: Handlers, monkeypatch: pytest.MonkeyPatch, nth: int, late: int, early: int
) -> None:
    """``early`` comes within the block if that begins, ``late`` as a handler is set."""
    monkeypatch.setattr(interrupts, "signal", Meddling(nth, late))
    sent = [late]
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        sent.append(early)
        signal.raise_signal(early)
        assert early not in program.came, "the block was interrupted"
    assert [signal.getsignal(number) for number in SIGNALS] == [program.handle] * 2
    assert sorted(program.came) == sorted(sent)


def test_all_signals_of_the_block_are_handled_after_it(program: Handlers) -> None:
    sent = [signal.SIGTERM, signal.SIGINT, signal.SIGTERM]
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        for number in sent:
            signal.raise_signal(number)
        assert program.came == []
    assert program.came == sent
    assert [signal.getsignal(number) for number in SIGNALS] == [program.handle] * 2


def test_a_handler_that_could_not_be_restored_still_passes_signals_on(
    program: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(number: int, handlers: object) -> None:
        raise KeyboardInterrupt("as if another Ctrl-C came first")

    monkeypatch.setattr(interrupts, "_restore", fails)
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        pass
    for number in SIGNALS:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert program.came == list(SIGNALS)

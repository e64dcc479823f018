"""Tests of OpenReaders, which keeps what is open of a database by name, without a database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support import PATIENCE_S

import topicdb
from topicdb.follow.readers import OpenReaders


class Handle:
    """A stand-in for a reader that is opened under a name."""

    def __init__(self) -> None:
        self.closed = False
        self.abandoned = False
        self.give_up: Callable[[], None] | None = None

    def abandon(self) -> None:
        self.closed = self.abandoned = True

    def at_end(self, give_up: Callable[[], None]) -> None:
        self.give_up = give_up


class Names:
    """A stand-in for the names that a server holds for all processes."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []

    def hold(self, kind: str, name: str, takeover: bool) -> Callable[[], None]:
        self.log.append(("hold", kind, name, takeover))
        return lambda: self.log.append(("give up", kind, name))


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def readers(names: Names) -> Any:
    engine: Any = None  # no test here reads or stores anything
    return OpenReaders(engine, names.hold)


@pytest.mark.parametrize("kind", ["consumer", "session"])
def test_a_name_is_open_once(readers: Any, names: Names, kind: str) -> None:
    first = Handle()
    opened = getattr(readers, kind)
    assert opened("a", lambda: first, takeover=False) is first
    assert names.log == [("hold", kind, "a", False)]
    with pytest.raises(topicdb.ConflictError, match=f"{kind} 'a' is open already"):
        opened("a", Handle, takeover=False)
    assert not first.abandoned and len(names.log) == 1  # the name was not asked for a second time
    other = opened("b", Handle, takeover=False)
    second = opened("a", Handle, takeover=True)
    assert first.abandoned and not other.abandoned and not second.closed
    assert names.log[-1] == ("hold", kind, "a", True)


def test_a_name_is_free_once_it_is_closed(readers: Any, names: Names) -> None:
    first = readers.consumer("a", Handle, takeover=False)
    first.give_up()
    assert names.log == [("hold", "consumer", "a", False), ("give up", "consumer", "a")]
    first.closed = True
    second = readers.consumer("a", Handle, takeover=False)
    assert second is not first and not first.abandoned


def test_a_session_and_a_consumer_may_have_the_same_name(readers: Any) -> None:
    consumer = readers.consumer("a", Handle, takeover=False)
    assert not readers.has_session("a")
    session = readers.session("a", Handle, takeover=False)
    assert readers.has_session("a")
    session.closed = True
    assert not readers.has_session("a")
    assert not consumer.closed


def test_a_name_is_given_up_if_nothing_could_be_opened(readers: Any, names: Names) -> None:
    def fail() -> Handle:
        raise topicdb.ReadOnlyError("it may not be written")

    with pytest.raises(topicdb.ReadOnlyError):
        readers.session("a", fail, takeover=False)
    assert names.log == [("hold", "session", "a", False), ("give up", "session", "a")]
    assert not readers.has_session("a")


def test_what_nobody_has_any_more_has_no_name(readers: Any) -> None:
    session = readers.session("a", Handle, takeover=False)
    assert readers.has_session("a")
    del session
    assert not readers.has_session("a")


def test_a_group_is_one_object_until_it_is_closed(readers: Any, names: Names) -> None:
    joined: list[Handle] = []
    first = readers.group("g", Handle, joined.append)
    assert joined == []
    assert readers.group("g", Handle, joined.append) is first
    assert joined == [first]
    first.closed = True
    second = readers.group("g", Handle, joined.append)
    assert second is not first and joined == [first]
    assert names.log == []  # a group takes no name from others


def test_a_group_that_two_ask_for_is_made_once(readers: Any) -> None:
    making, go_on = threading.Event(), threading.Event()
    made: list[Handle] = []
    found: list[Handle] = []

    def make() -> Handle:
        making.set()
        assert go_on.wait(PATIENCE_S)
        made.append(Handle())
        return made[-1]

    def ask() -> None:
        found.append(readers.group("g", make, lambda group: None))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert making.wait(PATIENCE_S)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and found == [made[0], made[0]]

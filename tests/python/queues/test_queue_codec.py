"""A queue with a codec takes and gives objects; its files have bytes."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import PATIENCE_S

import topicdb

MODES = ("memory", "disk", "offload", "volatile")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


class Reversed:
    """A codec that can encode anything bytes-like, and cannot decode what begins with "!"."""

    def encode(self, item: Any) -> bytes:
        return bytes(item)[::-1]

    def decode(self, data: bytes) -> bytes:
        if data.startswith(b"!"):
            raise KeyError("no such thing")
        return data[::-1]


def opened(path: Path, mode: Any = "disk", **options: Any) -> topicdb.Queue:
    return topicdb.Queue.open(None if mode == "memory" else path, mode=mode, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q"


@pytest.fixture
def broken(path: Path) -> Iterator[topicdb.Queue]:
    """A queue whose second and third items cannot be decoded."""
    with opened(path) as queue:
        queue.append([b'"a"', b"{", b"\xff", b'"d"', b'"e"'])
    with opened(path, codec="json") as queue:
        yield queue


@pytest.mark.parametrize("mode", MODES)
def test_objects_come_back_in_order(path: Path, mode: str) -> None:
    items = [{"n": i, "text": "ä" * i} for i in range(50)]
    with opened(path, mode, codec="json", segment_bytes=512) as queue:
        for item in items:
            queue.append([item])
        assert queue.peek() == items[0]
        got, ref = queue.pop(20)
        assert got == items[:20] and ref is not None and ref.sequences == list(range(1, 21))
        queue.nack(ref)
        assert list(queue.cursor("other")) == items
        assert list(queue) == items


@given(items=st.lists(VALUES, min_size=1, max_size=4))
def test_json_keeps_what_it_has(items: list[Any]) -> None:
    with topicdb.Queue.open(mode="memory", codec="json") as queue:
        queue.append(items)
        assert queue.pop().items == items


def test_the_files_have_bytes(path: Path) -> None:
    with opened(path, codec="json") as queue:
        queue.append([{"a": 1}, "ä"])
        popped = queue.pop(raw=True)
        assert popped.items == [b'{"a":1}', '"ä"'.encode()]
        queue.nack(popped.ref)
        assert queue.peek(raw=True) == b'{"a":1}'
    with opened(path) as queue:
        assert list(queue) == [b'{"a":1}', '"ä"'.encode()]


def test_objects_and_pairs_are_codecs(path: Path) -> None:
    with opened(path, codec=Reversed()) as queue:
        queue.append([b"abc", bytearray(b"def")])
        assert queue.peek(raw=True) == b"cba"
        assert list(queue) == [b"abc", b"def"]
    pair = (pickle.dumps, pickle.loads)
    with opened(path, codec=pair) as queue:
        queue.append([(1, {2: {3}})])
        assert list(queue) == [(1, {2: {3}})]


def test_stop_before_and_sizer_get_objects(path: Path) -> None:
    with opened(path, codec="json", sizer=lambda item: item["size"]) as queue:
        queue.append([{"size": size} for size in (10, 20, 30)])
        assert queue.bytes == 60
        assert queue.pop(bytes=25).items == [{"size": 10}]
        seen: list[Any] = []

        def is_large(item: Any) -> bool:
            seen.append(item)
            return bool(item["size"] == 30)

        popped = queue.pop(stop_before=is_large)
        assert popped.items == [{"size": 20}] and seen == [{"size": 20}, {"size": 30}]


def test_what_cannot_be_decoded_comes_alone(broken: topicdb.Queue) -> None:
    assert broken.pop().items == ["a"]
    for number, data in ((2, b"{"), (3, b"\xff")):
        with pytest.raises(topicdb.CodecError, match=f"item {number}: the codec cannot") as caught:
            broken.pop()
        error = caught.value
        assert error.data == data and error.__cause__ is not None
        assert error.ref is not None and error.ref.sequences == [number]
        assert broken.stats().cursors["default"].in_flight == number
    assert broken.pop().items == ["d", "e"]


def test_it_is_in_flight_until_it_is_acknowledged_or_given_back(broken: topicdb.Queue) -> None:
    broken.pop(1)
    with pytest.raises(topicdb.CodecError) as caught:
        broken.pop()
    broken.nack(caught.value.ref)
    with pytest.raises(topicdb.CodecError, match="next item"):
        broken.peek()
    with pytest.raises(topicdb.CodecError) as caught:
        broken.pop()
    assert caught.value.data == b"{"
    broken.ack(caught.value.ref)
    assert broken.pop(1, raw=True).items == [b"\xff"]
    assert list(broken) == ["d", "e"]


def test_a_loop_goes_on_behind_it(broken: topicdb.Queue) -> None:
    got = []
    failed = 0
    while len(broken) > 0:
        try:
            got += list(broken)
        except topicdb.CodecError as error:
            broken.ack(error.ref)
            failed += 1
    # A list that is not finished is lost with its items, which were acknowledged one by one.
    assert failed == 2 and got == ["d", "e"]
    assert broken.bytes == 0


def test_it_comes_again_when_the_queue_is_reopened(path: Path, broken: topicdb.Queue) -> None:
    assert broken.pop().items == ["a"]
    with pytest.raises(topicdb.CodecError):
        broken.pop()
    broken.close()
    with opened(path) as queue:
        assert list(queue) == [b'"a"', b"{", b"\xff", b'"d"', b'"e"']


def test_what_stop_before_raises_loses_nothing(path: Path) -> None:
    with opened(path, codec="json") as queue:
        queue.append([3, 2, 1, 0])
        with pytest.raises(ZeroDivisionError):
            queue.pop(stop_before=lambda item: 1 // item < 0)
        assert queue.pop().items == [3, 2, 1, 0]


def test_asyncio(broken: topicdb.Queue) -> None:
    async def run() -> None:
        assert (await broken.pop_await(timeout=PATIENCE_S)).items == ["a"]
        with pytest.raises(topicdb.CodecError) as caught:
            await broken.pop_await(timeout=PATIENCE_S)
        broken.ack(caught.value.ref)
        assert (await broken.pop_await(1, raw=True)).items == [b"\xff"]
        assert (await broken.pop_await()).items == ["d", "e"]
        waiting = asyncio.create_task(broken.pop_await(timeout=PATIENCE_S))
        await broken.append_await([{"late": True}])
        assert (await waiting).items == [{"late": True}]

    asyncio.run(run())


def test_a_cancelled_task_gives_back_what_cannot_be_decoded(path: Path) -> None:
    decoding, may_go_on = threading.Event(), threading.Event()

    def decode(data: bytes) -> None:
        decoding.set()
        assert may_go_on.wait(PATIENCE_S)
        raise ValueError("never")

    with opened(path, codec=(bytes, decode)) as queue:
        queue.append([b"a"])

        async def run() -> None:
            task = asyncio.create_task(queue.pop_await(timeout=PATIENCE_S))
            while not decoding.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            may_go_on.set()

        asyncio.run(run())
        assert queue.pop(timeout=PATIENCE_S, raw=True).items == [b"a"]


def test_a_forwarder_takes_the_bytes(broken: topicdb.Queue) -> None:
    arrived: list[bytes] = []
    topicdb.Forwarder(broken, arrived.extend).run(until_empty=True)
    assert arrived == [b'"a"', b"{", b"\xff", b'"d"', b'"e"']


@pytest.mark.parametrize("item", [b"bytes", {1, 2}, float("nan"), "\ud800", object()])
def test_what_cannot_be_encoded_changes_nothing(path: Path, item: Any) -> None:
    with opened(path, codec="json") as queue:
        with pytest.raises(topicdb.CodecError, match="item 1: the codec cannot encode") as caught:
            queue.append([1, item, 2])
        assert caught.value.__cause__ is not None and caught.value.ref is None
        assert len(queue) == 0 and queue.stats().next_sequence == 1


def test_a_codec_that_makes_no_bytes(path: Path) -> None:
    with opened(path, codec=(lambda item: item, bytes)) as queue:
        with pytest.raises(topicdb.CodecError, match="item 1: the codec made str of it"):
            queue.append([b"a", "text"])
        assert len(queue) == 0


def test_one_item_is_no_list(path: Path) -> None:
    with opened(path, codec="json") as queue:
        singles: tuple[Any, ...] = ({"a": 1}, "text", b"bytes")
        for single in singles:
            with pytest.raises(TypeError, match=r"write \[item\]"):
                queue.append(single)
            with pytest.raises(TypeError, match=r"write \[item\]"):
                asyncio.run(queue.append_await(single))
        assert len(queue) == 0


@pytest.mark.parametrize(
    ("codec", "error", "words"),
    [
        ("pickle", ValueError, "pickle.dumps, pickle.loads"),
        ("xml", ValueError, "expected one of .'json'."),
        (5, TypeError, "codec: expected a name, a pair"),
        ((len,), TypeError, "codec: expected"),
        ((len, None), TypeError, "codec: expected"),
    ],
)
def test_what_is_no_codec(path: Path, codec: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        opened(path, codec=codec)
    assert not path.exists()

"""Learned topic structures, as the base algorithm makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ANY = "+"


@dataclass(slots=True)
class Node:
    """A node of the tree. ``words`` has its children for single words, ``wildcard`` is for '+'."""

    depth: int
    words: dict[str, Node] = field(default_factory=dict)
    wildcard: Node | None = None
    is_topic: bool = False  # some topic ends here, so there is a stream
    varies_below: bool = False  # a hint ends here with '#': every level from here on varies


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Identifies a stream in a slab; it has a '+' in each level in which the topics vary."""

    levels: tuple[str, ...]

    @property
    def structure(self) -> str:
        return "/".join(self.levels)

    def varying(self, topic: str) -> tuple[str, ...]:
        """Returns the words of ``topic`` in the levels that vary."""
        words = zip(topic.split("/"), self.levels, strict=True)
        return tuple(word for word, level in words if level == ANY)


class Structures:
    """Learns structures from topics.

    At a node with threshold T the first T words get a child of their own, and later words share a
    '+'. A word that has a child of its own keeps it.
    """

    def __init__(self, thresholds: Sequence[int], hints: Sequence[str] = ()) -> None:
        self._thresholds = list(thresholds)
        self._root = Node(0)
        for hint in hints:
            self._plant(hint.split("/"))

    def learn(self, topic: str) -> StreamKey:
        """Returns the stream of ``topic``, and learns the topic if it is new."""
        node = self._root
        path = []
        for word in topic.split("/"):
            label, node = self._step(node, word)
            path.append(label)
        node.is_topic = True
        return StreamKey(tuple(path))

    def streams(self) -> list[StreamKey]:
        """Returns all streams."""
        return [StreamKey(path) for path, node in _walk(self._root) if node.is_topic]

    def inherit(self, older: Structures) -> None:
        """Takes over each structure of ``older`` that has a '+'.

        Such a structure has a stream only when one of its topics comes.
        """
        for key in older.streams():
            if ANY in key.levels:
                self._plant(list(key.levels))

    def _step(self, node: Node, word: str) -> tuple[str, Node]:
        if word in node.words:
            return word, node.words[word]
        if node.wildcard is not None:
            return ANY, node.wildcard
        threshold = self._threshold(node)
        if threshold == 0:
            return ANY, self._add_wildcard(node)
        child = self._add_word(node, word)
        if len(node.words) >= threshold:
            self._add_wildcard(node)
        return word, child

    def _threshold(self, node: Node) -> int:
        if node.varies_below:
            return 0
        return self._thresholds[min(node.depth, len(self._thresholds) - 1)]

    def _plant(self, levels: list[str]) -> None:
        """Adds exactly this path if it is not there, whatever the thresholds say."""
        node = self._root
        for level in levels:
            if level == "#":
                for _, below in _walk(node):
                    below.varies_below = True
                break
            if level == ANY:
                node = node.wildcard or self._add_wildcard(node)
            else:
                node = node.words.get(level) or self._add_word(node, level)

    def _add_word(self, node: Node, word: str) -> Node:
        child = node.words[word] = Node(node.depth + 1, varies_below=node.varies_below)
        return child

    def _add_wildcard(self, node: Node) -> Node:
        node.wildcard = Node(node.depth + 1, varies_below=node.varies_below)
        return node.wildcard


def _walk(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yields every path from ``root``. It does not recurse: topics may be deeper than the stack."""
    pending: list[tuple[tuple[str, ...], Node]] = [((), root)]
    while pending:
        path, node = pending.pop()
        yield path, node
        pending.extend(((*path, word), child) for word, child in node.words.items())
        if node.wildcard is not None:
            pending.append(((*path, ANY), node.wildcard))

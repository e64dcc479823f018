"""Learned topic structures, as the base algorithm describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ANY = "+"


@dataclass(slots=True)
class Node:
    """One level reached in the tree. ``words`` are its concrete children."""

    depth: int
    words: dict[str, Node] = field(default_factory=dict)
    wildcard: Node | None = None
    is_topic: bool = False  # some topic ends here: there is a stream
    varies_below: bool = False  # a hint's trailing '#': every level from here on varies


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Identifies a stream in a slab: '+' where its topics vary."""

    levels: tuple[str, ...]

    @property
    def structure(self) -> str:
        return "/".join(self.levels)

    def varying(self, topic: str) -> tuple[str, ...]:
        """Words of ``topic`` at the varying levels."""
        words = zip(topic.split("/"), self.levels, strict=True)
        return tuple(word for word, level in words if level == ANY)


class Structures:
    """Learns structures from topics: at a node with threshold T the first T words get a child of
    their own, later ones share a '+'. A word that has its own child keeps it."""

    def __init__(self, thresholds: Sequence[int], hints: Sequence[str] = ()) -> None:
        self._thresholds = list(thresholds)
        self._root = Node(0)
        for hint in hints:
            self._plant(hint.split("/"))

    def learn(self, topic: str) -> StreamKey:
        """The stream of ``topic``; learns it where it is new."""
        node = self._root
        path = []
        for word in topic.split("/"):
            label, node = self._step(node, word)
            path.append(label)
        node.is_topic = True
        return StreamKey(tuple(path))

    def streams(self) -> list[StreamKey]:
        """Every stream there is."""
        return [StreamKey(path) for path, node in _walk(self._root) if node.is_topic]

    def inherit(self, older: Structures) -> None:
        """Takes over what ``older`` learned to vary: each of its structures that has a '+'.

        There is a stream of it only when a topic comes.
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
        """Makes sure that exactly this path is there, whatever the thresholds say."""
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
    """Every path below ``root`` (a loop: topics may be deeper than Python's stack)."""
    pending: list[tuple[tuple[str, ...], Node]] = [((), root)]
    while pending:
        path, node = pending.pop()
        yield path, node
        pending.extend(((*path, word), child) for word, child in node.words.items())
        if node.wildcard is not None:
            pending.append(((*path, ANY), node.wildcard))

"""Rules that give messages other topics when they are replayed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from topicdb import _core

_TOPICS_KNOWN_MAX = 100_000
_NUMBERED = re.compile(r"\{(\d+)\}")


class Remap:
    """Gives a topic the name under which it is replayed. Thread-safe.

    The first rule whose filter matches the topic decides. A topic that no filter matches keeps its
    name. In the new name, the first ``+`` stands for what the first ``+`` of the filter matched,
    and so on; ``{2}``, also within a level, stands for what the second ``+`` matched; and ``#``
    stands for what ``#`` matched.

    Example:
        >>> from topicdb.replay import Remap
        >>> remap = Remap({"site/a/#": "test/a/#", "plant/+/temp": "copy/{1}-temp"})
        >>> remap("site/a/pump/3"), remap("plant/north/temp"), remap("other")
        ('test/a/pump/3', 'copy/north-temp', 'other')
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        """Makes a Remap of these rules.

        Arguments:
            rules: topic filters with the new name of each, in the order in which they are tried.

        Raises:
            ValueError: a new name has wildcards that its filter has not, or is no topic.
            TopicError: a bad filter.
        """
        self.rules = dict(rules)
        self._rules = [_Rule(filter, name) for filter, name in rules.items()]
        self._known: dict[str, str] = {}

    @staticmethod
    def parse(texts: Iterable[str]) -> Remap:
        """Returns a Remap of texts such as ``"site/a/#=test/a/#"``.

        Arguments:
            texts: rules, divided at the first ``=``.

        Returns:
            The Remap.

        Raises:
            ValueError: a text has not this form, or a filter comes twice. What ``Remap`` raises
                comes through, too.
        """
        rules: dict[str, str] = {}
        for text in texts:
            filter, equals, name = text.partition("=")
            if not equals or not filter or not name:
                raise ValueError(f"remap: expected FILTER=TOPIC, got {text!r}")
            if filter in rules:
                raise ValueError(f"remap: {filter!r} is given twice")
            rules[filter] = name
        return Remap(rules)

    def __call__(self, topic: str) -> str:
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= _TOPICS_KNOWN_MAX:
                self._known.clear()
            self._known[topic] = found = self._find(topic)
        return found

    def _find(self, topic: str) -> str:
        for rule in self._rules:
            if (name := rule.apply(topic)) is not None:
                return name
        return topic

    def __repr__(self) -> str:
        return f"Remap({self.rules!r})"


class _Rule:
    def __init__(self, filter: str, name: str) -> None:
        _core.check_filter(filter)
        self._where = f"remap {filter}={name}"
        levels = filter.split("/")
        self._plus_count = levels.count("+")
        self._has_rest = levels[-1] == "#"
        self._pattern = re.compile(_pattern_of(levels), re.DOTALL)
        self._parts, self._takes_rest = self._parts_of(name)
        self._is_rest_only = name == "#"

    def _parts_of(self, name: str) -> tuple[list[str | int], bool]:
        """Returns the parts of a new name, and whether what ``#`` matched follows them.

        A part is a text, or the number of the ``+`` whose level stands there.
        """
        levels = name.split("/")
        takes_rest = levels[-1] == "#"
        if takes_rest and not self._has_rest:
            raise ValueError(f"{self._where}: there is a # only on the right")
        if "+" in levels and _NUMBERED.search(name):
            raise ValueError(f"{self._where}: use + or {{1}} on the right, not both")
        self._check_topic([*levels[:-1], "x"] if takes_rest else levels)
        parts: list[str | int] = []
        for number, level in enumerate(levels[:-1] if takes_rest else levels):
            parts += ["/"] if number else []
            parts += self._parts_of_level(level, parts)
        return parts, takes_rest

    def _parts_of_level(self, level: str, before: list[str | int]) -> list[str | int]:
        if level == "+":
            return [self._checked(sum(isinstance(part, int) for part in before) + 1)]
        pieces = _NUMBERED.split(level)  # texts and numbers in turn, the first is a text
        return [
            self._checked(int(piece)) if place % 2 else piece for place, piece in enumerate(pieces)
        ]

    def _checked(self, number: int) -> int:
        if not 1 <= number <= self._plus_count:
            raise ValueError(
                f"{self._where}: the right asks for + number {number}, and there are "
                f"{self._plus_count} on the left"
            )
        return number

    def _check_topic(self, levels: list[str]) -> None:
        sample = "/".join("x" if level == "+" else _NUMBERED.sub("x", level) for level in levels)
        try:
            _core.check_topic(sample)
        except _core.TopicError as error:
            raise ValueError(f"{self._where}: on the right: {error}") from None

    def apply(self, topic: str) -> str | None:
        """Returns the new name, or None if the topic does not match or its new name is empty."""
        match = self._pattern.fullmatch(topic)
        if match is None:
            return None
        name = "".join(part if isinstance(part, str) else match[part] for part in self._parts)
        if self._takes_rest and (rest := match["rest"]) is not None:
            name = rest if self._is_rest_only else f"{name}/{rest}"
        return name or None


def _pattern_of(levels: list[str]) -> str:
    """Returns a regular expression that matches as MQTT does.

    ``#`` also matches the level above it, and no wildcard matches a first level that begins with
    ``$``.
    """
    text = r"(?!\$)" if levels[0] in ("+", "#") else ""
    for number, level in enumerate(levels):
        slash = "/" if number else ""
        if level == "#":
            text += f"(?:{slash}(?P<rest>.*))?" if number else "(?P<rest>.*)"
        else:
            text += slash + ("([^/]*)" if level == "+" else re.escape(level))
    return text

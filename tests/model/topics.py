"""MQTT topics and filters, written by the text of MQTT 5 and not by the C++ code."""

from __future__ import annotations

TOPIC_BYTES_MAX = 65_535


def is_topic(text: str) -> bool:
    """Returns whether ``text`` is a topic name that a message can have."""
    return _is_mqtt_string(text) and "+" not in text and "#" not in text


def is_filter(text: str) -> bool:
    """Returns whether ``text`` is a topic filter: wildcards fill a level, ``#`` is the last one."""
    if not _is_mqtt_string(text):
        return False
    levels = text.split("/")
    if any(("+" in level or "#" in level) and len(level) > 1 for level in levels):
        return False
    return "#" not in levels[:-1]


def matches(filter: str, topic: str) -> bool:
    """Returns whether a valid ``filter`` matches a valid ``topic`` (MQTT 5, section 4.7)."""
    filter_levels = filter.split("/")
    topic_levels = topic.split("/")
    if topic.startswith("$") and filter_levels[0] in ("+", "#"):
        return False
    return levels_match(filter_levels, topic_levels)


def levels_match(filter_levels: list[str], topic_levels: list[str]) -> bool:
    """Compares level by level, without the rule for topics that begin with ``$``."""
    if filter_levels[-1] == "#":
        fixed = filter_levels[:-1]
        topic_levels = topic_levels[: len(fixed)]
    else:
        fixed = filter_levels
    if len(fixed) != len(topic_levels):
        return False
    return all(wanted in ("+", level) for wanted, level in zip(fixed, topic_levels, strict=True))


def may_match(filter: str, structure: list[str]) -> bool:
    """Returns whether ``filter`` could match a topic of ``structure``, which varies at each '+'."""
    wanted = filter.split("/")
    if structure[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        structure = structure[: len(wanted)]
    if len(wanted) != len(structure):
        return False
    return all(a == b or "+" in (a, b) for a, b in zip(wanted, structure, strict=True))


def _is_mqtt_string(text: str) -> bool:
    if not text or "\0" in text:
        return False
    try:
        return len(text.encode()) <= TOPIC_BYTES_MAX
    except UnicodeEncodeError:  # a lone surrogate
        return False

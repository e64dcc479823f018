"""Checks of a history that need no search: what was acknowledged is stored once, and no more.

Each check yields a sentence for every fault that it finds. ``cluster/checker`` looks for an order
of the operations that explains all answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest

from cluster.histories.client import ACCOUNTS, BALANCE, PAIRS
from cluster.histories.history import Operation

Contents = Mapping[str, Sequence[str]]
"""The values of each topic, in their order."""
Timestamps = Mapping[str, int]
"""Those that the database has assigned to messages, by value."""
WRITES = {"append": "topic", "same": "topic", "put": "key", "cas": "key", "race": "name"}
"""The operations that write a value that no other one writes, and the argument that says where."""
ONCE = ("log/", "same/", "map/", "race/")


def faults_of(
    operations: Sequence[Operation],
    stored: Mapping[str, Contents],
    timestamps: Mapping[str, Timestamps] | None = None,
) -> list[str]:
    """Returns all faults. ``stored`` and ``timestamps``: what each site has in the end."""
    found = [*_differences(stored), *_serials(operations), *_promises_of_reads(operations)]
    for site, contents in stored.items():
        checks = (_written, _races, _invariants, _peeks)
        found += [
            f"site {site}: {fault}" for check in checks for fault in check(operations, contents)
        ]
    for site, assigned in (timestamps or {}).items():
        found += [f"site {site}: {fault}" for fault in _timestamps(operations, assigned)]
    return list(dict.fromkeys(found))


def _of(operations: Sequence[Operation], *kinds: str) -> Iterator[Operation]:
    return (one for one in operations if one.operation in kinds)


def _differences(stored: Mapping[str, Contents]) -> Iterator[str]:
    """Finds topics that not all sites have in the same way."""
    sites = list(stored)
    for site in sites[1:]:
        for topic in sorted({*stored[sites[0]], *stored[site]}):
            left, right = (list(stored[one].get(topic, [])) for one in (sites[0], site))
            if left != right:
                pairs = enumerate(zip_longest(left, right))
                first = next(n for n, (one, other) in pairs if one != other)
                part = slice(first, first + 3)
                yield (
                    f"{topic}: site {sites[0]} has {len(left)} messages, site {site} {len(right)}; "
                    f"they differ from number {first} on: {left[part]}, {right[part]}"
                )


def _serials(operations: Sequence[Operation]) -> Iterator[str]:
    """Finds serials that two commits of a shard have."""
    seen: dict[tuple[str, int], Operation] = {}
    for one in operations:
        for shard, serial in (one.result or {}).get("serials", {}).items():
            other = seen.setdefault((shard, serial), one)
            if other is not one:
                yield f"shard {shard}: serial {serial} is that of {other} and of {one}"
    for one in _of(operations, "same"):
        answers = (one.result or {}).get("answers", [])
        if any(answer != answers[0] for answer in answers):
            yield f"{one.argument['topic']}: sites told different serials: {answers}"


def _written(operations: Sequence[Operation], stored: Contents) -> Iterator[str]:
    """Finds what was lost, stored twice, or stored although it had failed.

    A topic keeps all messages that were written to it, those of one timestamp, too.
    """
    counts = Counter(
        (topic, value)
        for topic, values in stored.items()
        if topic.startswith(ONCE)
        for value in values
    )
    order: dict[str, list[tuple[int, str]]] = {}
    for one in _of(operations, *WRITES):
        topic = one.argument[WRITES[one.operation]]
        value = one.argument["value"]
        count = counts.pop((topic, value), 0)
        result = one.result or {}
        is_done = one.is_done and result.get("swapped", True)
        if is_done:
            (serial,) = result["serials"].values()
            order.setdefault(topic, []).append((serial, value))
        if is_done and count == 0:
            yield f"{topic}: {value} was acknowledged, and is lost: {one}"
        if count > 0 and not is_done and not one.is_unknown:
            yield f"{topic}: {value} was not written, and is stored: {one}"
        if count > 1:
            yield f"{topic}: {value} is stored {count} times: {one}"
    for topic, value in counts:
        yield f"{topic}: nobody has written {value}"
    for topic, expected in order.items():
        values = [value for _, value in sorted(expected)]
        found = [value for value in stored.get(topic, []) if value in set(values)]
        if sorted(found) == sorted(values) and found != values:
            yield f"{topic}: the order of serials is {values}, the order of messages {found}"


def _timestamps(operations: Sequence[Operation], assigned: Timestamps) -> Iterator[str]:
    """Finds timestamps that do not rise with the serials of their shard, whatever clocks said."""
    shards: dict[str, list[tuple[int, str]]] = {}
    for one in _of(operations, "append", "same"):
        value = one.argument["value"]
        if not one.is_done or one.result is None:
            continue
        if value in assigned:
            ((shard, serial),) = one.result["serials"].items()
            shards.setdefault(shard, []).append((serial, value))
        else:
            yield f"{value} was acknowledged, and has no timestamp"
    for shard, found in shards.items():
        for (_, earlier), (serial, value) in pairwise(sorted(found)):
            if assigned[value] <= assigned[earlier]:
                yield (
                    f"shard {shard}: {value}, of serial {serial}, has the timestamp "
                    f"{assigned[value]}, and {earlier} before it has {assigned[earlier]}"
                )


def _races(operations: Sequence[Operation], stored: Contents) -> Iterator[str]:
    """Finds names that two have taken."""
    attempts: dict[str, list[Operation]] = {}
    for one in _of(operations, "race"):
        attempts.setdefault(one.argument["name"], []).append(one)
    for name, found in attempts.items():
        winners = [one.argument["value"] for one in found if one.is_done]
        values = list(stored.get(name, []))
        if len(winners) > 1:
            yield f"{name}: {winners} were all told that they have it"
        if len(values) > 1:
            yield f"{name}: it has {values}, and only one may have it"


def _invariants(operations: Sequence[Operation], stored: Contents) -> Iterator[str]:
    """Finds money that was made or lost, and pairs of which both are off."""
    balances = {one: int((stored.get(one) or [str(BALANCE)])[-1]) for one in ACCOUNTS}
    yield from _sum(balances, "in the end")
    for pair in PAIRS:
        if [stored.get(one, ["on"])[-1] for one in pair] == ["off", "off"]:
            yield f"{pair}: both are off in the end"


def _sum(balances: Mapping[str, int], when: str) -> Iterator[str]:
    if sum(balances.values()) != BALANCE * len(ACCOUNTS) or min(balances.values()) < 0:
        yield f"the accounts have {dict(balances)} {when}, which is not {BALANCE} each on average"


def _promises_of_reads(operations: Sequence[Operation]) -> Iterator[str]:
    """Finds transactions that have read what may never be."""
    for one in _of(operations, "total"):
        if one.is_done and one.result is not None:
            found = {**dict.fromkeys(ACCOUNTS, BALANCE), **one.result["balances"]}
            yield from _sum(found, f"in {one}")
    for one in _of(operations, "skew"):
        if one.is_done and one.result is not None and one.result["found"] == ["off", "off"]:
            yield f"both of a pair were off in {one}"


def _peeks(operations: Sequence[Operation], stored: Contents) -> Iterator[str]:
    """Finds plain reads that saw what was not there in the end, or in another order."""
    for one in _of(operations, "peek"):
        if one.is_done and one.result is not None:
            values, topic = one.result["values"], one.argument["topic"]
            if list(stored.get(topic, []))[: len(values)] != values:
                yield f"{topic} does not begin with what was read in {one}"

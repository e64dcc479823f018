"""Writes replay.zip: replay logs as they were stored before endpoints had dead letters; or
replay-letters.zip: the same with these, and with replays on temporary endpoints.

    python tests/data/make_golden_replay.py tests/data/v1/replay.zip
    python tests/data/make_golden_replay.py tests/data/v1/replay-letters.zip

Run once with the release that writes a format; never again after that. What is in them is written
down in tests/python/replay/test_replay_golden.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack
from topicdb import replay

BASE = 1_700_000_000_000_000


def fill(log: replay.ReplayLog, options: dict[str, Any]) -> None:
    """Twenty messages, of which one era leaves out five; a queue that holds some of them."""
    queue = log.queue("orders", ["a/#", "b"], spool=50, owner="till", others="read", **options)
    log.topic_endpoint("shared", "a/+", exclusive=False)
    for number in range(20):
        if number in (10, 15):
            log.ingress = number == 15
        log.publish([(("a/1", "b")[number % 2], BASE + number, b"%d" % number)])
    queue.unsubscribe("b")
    with queue.bind(client="till") as flow:
        found = [taken(flow) for _ in range(5)]
        flow.ack(found[0], found[1], found[3])
        if options:
            flow.reject(found[4])
    log.trim(BASE + 2)


def taken(flow: replay.Flow) -> replay.ReplayMessage:
    message = flow.receive(timeout=60)
    assert message is not None
    return message


def begin(log: replay.ReplayLog) -> None:
    """A replay that pauses behind two messages of which one is acknowledged."""
    queue = log.queue("again", "#", spool=2)
    queue.replay(BASE + 4, end=BASE + 18, rate=1_000_000, stall_timeout="1h")
    while queue.info()["messages"] < 2:
        time.sleep(0.01)
    queue.pause_replay()
    with queue.bind() as flow:
        flow.ack(taken(flow))


def main(target: Path) -> None:
    is_new = target.stem == "replay-letters"
    options: dict[str, Any] = {"dead_letter": "$dead", "expired": "remove"} if is_new else {}
    more: dict[str, Any] = {"temporary_replays": True} if is_new else {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "replay.db"
        with topicdb.open(path) as db:
            promote: list[replay.Promotion | str] = ["b", replay.Promotion("a/#", 5, 1_000)]
            with replay.open(db, quota_bytes=1 << 30, promote=promote, **more) as log:
                fill(log, options)
                begin(log)
            with replay.open(db, "night/shift", include=["a/#"], exclude="a/x") as other:
                other.egress = False
        pack(path, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

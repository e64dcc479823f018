"""Clients of a broker work in a process with more open files than ``select`` can take."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from brokers import MOSQUITTO, mosquitto
from support import run_child

import topicdb

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
FILES = 1_100

CODE = """
    import os, resource, sys, time
    import topicdb
    from topicdb.bridge import Bridge
    from topicdb.forward import Forwarder, MqttSink
    from topicdb.replay.broker.broker import BrokerReplay

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), hard))
    path, port = sys.argv[1], int(sys.argv[2])
    with topicdb.open(path) as db, topicdb.Queue.open(path + ".queue") as queue:
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
        assert max(files) > 1_024
        bridge = Bridge(db, "127.0.0.1", port, filters=["from-queue", "test/#"], store_replays=True)
        with bridge:
            while bridge.status().state != "connected":
                assert bridge.status().state in ("connecting", "stopped"), bridge.status()
                time.sleep(0.01)
            queue.append([b"1", b"2"])
            Forwarder(queue, MqttSink("127.0.0.1", port, topic="from-queue")).run(until_empty=True)
            while bridge.status().stored < 2:
                time.sleep(0.01)
            BrokerReplay(
                db, host="127.0.0.1", port=port, remap={"#": "test/#"}, give_up_after=0
            ).run()
            while bridge.status().stored < 4:
                time.sleep(0.01)
        print(bridge.status().connections)
"""


def test_they_connect_all_the_same(tmp_path: Path) -> None:
    wanted = FILES + 400
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < wanted:
        pytest.skip("so many open files are not allowed here")
    with mosquitto(tmp_path / "broker") as broker:
        assert run_child(CODE, tmp_path / "db", broker.port, wanted) == "1\n"
    with topicdb.open(tmp_path / "db", mode="r") as db:
        assert sorted(message.topic for message in db.scan("#")) == [
            "from-queue",
            "from-queue",
            "test/from-queue",
            "test/from-queue",
        ]

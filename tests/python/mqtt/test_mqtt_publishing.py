"""Tests of the client that publishes, with a Mosquitto that refuses some messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, mosquitto
from paho.mqtt.client import MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from support import wait_until

from topicdb.mqtt.polling import turn
from topicdb.mqtt.publishing import PublishingClient, check_methods

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
NOT_AUTHORIZED = 0x87


@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_message_is_told_and_holds_up_no_other(tmp_path: Path, qos: int) -> None:
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    rules = directory / "acl"
    rules.write_text("topic write allowed\n")
    answers: dict[int, int] = {}
    log: list[str] = []

    def told(client: Any, data: Any, mid: int, reason: Any, properties: Any) -> None:
        answers[mid] = reason.value

    # Without a limit of queued messages, Mosquitto 2.0.11 disconnects unauthorized clients.
    with mosquitto(directory, f"acl_file {rules}", "max_queued_messages 1000") as broker:
        client = PublishingClient(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        client.max_inflight_messages_set(1)
        client.on_publish = told
        client.on_log = lambda client, data, level, text: log.append(text)
        client.connect("127.0.0.1", broker.port)
        wait_until(lambda: turn(client, 0.1) == 0 and client.is_connected())
        topics = ["forbidden", "allowed", "forbidden", "allowed"]
        mids = [client.publish(topic, b"x", qos).mid for topic in topics]
        wait_until(lambda: turn(client, 0.1) == 0 and len(answers) == len(mids))
        client.disconnect()
    # Mosquitto says 0x10, "no matching subscribers", with QoS 1.
    assert [answers[mid] >= 0x80 for mid in mids] == [True, False, True, False]
    assert answers[mids[0]] == NOT_AUTHORIZED
    assert not client._out_messages and client._inflight_messages == 0
    released = [line for line in log if "Sending PUBREL" in line]
    assert len(released) == (2 if qos == 2 else 0)


def test_a_paho_without_what_is_needed_is_named() -> None:
    check_methods("_handle_pubrec")
    with pytest.raises(ImportError, match=r"no Client\._gone; .* 2\.0 to 2\.2"):
        check_methods("_gone")

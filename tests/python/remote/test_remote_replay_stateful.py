"""Compares replay logs of a server, as its clients see them, with the model."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from replay_machine import ReplayMachine

import topicdb
from topicdb import replay


class RemoteReplayMachine(ReplayMachine):
    """Everything that the rules do goes over the connection; the server closes its log and opens it
    again."""

    server: Any = None
    client: topicdb.Database

    def open_log(self) -> None:
        if self.server is None:
            self.server = topicdb.serve(self.db)
            self.client = topicdb.connect(self.server.url)
        self.inner = replay.open(self.db)
        self.log = replay.open(self.client)

    def teardown(self) -> None:
        if self.server is not None:
            self.client.close()
            self.server.close()
        super().teardown()


TestRemoteReplay = RemoteReplayMachine.TestCase
TestRemoteReplay.settings = settings(max_examples=20, stateful_step_count=20)

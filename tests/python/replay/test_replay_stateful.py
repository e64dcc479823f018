"""Compares replay logs of this process with the model."""

from __future__ import annotations

from replay_machine import ReplayMachine

TestReplay = ReplayMachine.TestCase

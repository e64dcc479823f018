"""Replay logs that another process has open."""

"""Replays stored messages into an MQTT broker."""

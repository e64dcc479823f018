"""Replay into an MQTT broker."""

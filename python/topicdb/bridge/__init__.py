"""The bridge from an MQTT broker into a database; see docs/reference/bridge.md."""

from topicdb.bridge.bridge import Bridge, Status

__all__ = ["Bridge", "Status"]

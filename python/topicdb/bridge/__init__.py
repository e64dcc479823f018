"""The bridge from an MQTT broker into a database; see docs/reference/bridge.md."""

from topicdb.bridge.bridge import Bridge
from topicdb.bridge.status import Status

__all__ = ["Bridge", "Status"]

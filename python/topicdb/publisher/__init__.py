"""A publisher for devices: messages are on disk before they are on their way to a broker.

>>> import topicdb
>>> with topicdb.Publisher("out.q", "mqtts://broker.example") as publisher:  # doctest: +SKIP
...     publisher.publish("plant/pump/temperature", "21.5")
"""

from topicdb.publisher.messages import Will
from topicdb.publisher.publisher import Publisher
from topicdb.publisher.refused import RefusedMessage
from topicdb.publisher.stats import Pending, PublisherStats

__all__ = ["Pending", "Publisher", "PublisherStats", "RefusedMessage", "Will"]

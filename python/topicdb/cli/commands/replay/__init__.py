"""The commands ``topicdb replay``."""

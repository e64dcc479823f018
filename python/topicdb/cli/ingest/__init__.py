"""``topicdb ingest``: records in, messages out."""

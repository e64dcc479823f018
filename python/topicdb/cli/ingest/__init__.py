"""``topicdb ingest``: reads records from a file or pipe, and stores them as messages."""

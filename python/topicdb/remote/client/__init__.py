"""The client: a database in another process, with the API of ``topicdb.Database``."""

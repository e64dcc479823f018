"""A database in another process, as its clients have it."""

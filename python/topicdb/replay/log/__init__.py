"""The replay log: how it is opened, its rules and endpoints, its thread, and how it is trimmed."""

"""The replay log: what is logged, how large it is, how it is opened."""

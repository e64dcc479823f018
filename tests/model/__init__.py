"""Reference models in plain Python, with which the tests compare the database."""

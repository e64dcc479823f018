"""The buffer queue and its files."""

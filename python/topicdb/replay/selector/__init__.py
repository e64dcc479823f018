"""Selectors: conditions on the properties of messages."""

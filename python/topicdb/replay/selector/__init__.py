"""Conditions on the properties of messages."""

"""Endpoints: what comes to them, what they hold, and who reads it."""

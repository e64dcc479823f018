"""Endpoints: the messages that come to them and that they hold, their replays and clients."""

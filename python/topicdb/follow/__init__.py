"""Readers that follow commits: subscriptions, consumers, sessions and groups."""

"""The server: who may call, what it keeps for its clients, and what they can call."""

"""The database as its users have it: opening, copying, checking and repairing it."""

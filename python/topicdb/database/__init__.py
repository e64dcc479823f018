"""The database as its users have it: opening, making, copying, checking and repairing it."""

"""Orders: what another process asks of a replay log, in a form that JSON has."""

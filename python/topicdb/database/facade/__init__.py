"""The methods of a Database in groups, which keep nothing: they hand on what is asked for."""

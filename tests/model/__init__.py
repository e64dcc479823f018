"""A plain-Python reference model of the database, for the tests to compare with."""

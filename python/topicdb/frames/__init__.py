"""Messages as pandas and polars frames, as a table of DuckDB, and as text of a notebook.

This room knows values, results and Arrow. It does not know databases: it is given what it reads.
"""

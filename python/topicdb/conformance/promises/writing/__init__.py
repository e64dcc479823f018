"""What is written: appends, deletes, transactions, and commits for which nobody waits."""

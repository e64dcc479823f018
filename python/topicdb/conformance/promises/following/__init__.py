"""What is read in the order of commits: the log, subscriptions."""

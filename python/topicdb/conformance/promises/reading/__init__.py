"""What is read in the order of time: scans, streams, slices."""

"""Cursors: scans, tails, and notice of streams as they come to be."""

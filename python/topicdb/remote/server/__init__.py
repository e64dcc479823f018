"""The server: which calls clients can make, which tokens may make them, and what stays open."""

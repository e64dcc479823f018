"""Simulates crashes of a program that stores files; README.md says how. Knows no TopicDB itself."""

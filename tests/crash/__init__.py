"""Simulates crashes of a program that stores files, of any program; README.md says how."""

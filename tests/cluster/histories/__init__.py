"""Histories of a cluster in which things fail, and what must hold of them."""

"""Those who follow what is written, and their places in it."""

"""How long messages stay, and what they take."""

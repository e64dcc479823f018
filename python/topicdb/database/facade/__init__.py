"""The methods of a Database in groups, which hold no state and call its engine."""

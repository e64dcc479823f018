"""What calls are given: times, sizes, filters and forms of values, and messages for wrong types."""

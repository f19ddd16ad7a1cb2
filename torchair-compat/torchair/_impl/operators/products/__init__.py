"""Products of integers, of few-bit weights, and of groups."""

"""Methods and functions that are compiled once, for later processes."""

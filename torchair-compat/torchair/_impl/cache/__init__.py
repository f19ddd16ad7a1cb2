"""Methods and functions that one process compiles and later processes load."""

"""Operators that write into caches."""

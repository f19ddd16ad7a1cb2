"""Formats of memory, and operators that have an effect instead of a result."""

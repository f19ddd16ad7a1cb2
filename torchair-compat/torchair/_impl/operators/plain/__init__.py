"""Operators that older models call: those of PyTorch by other names, and ranges of
elements."""

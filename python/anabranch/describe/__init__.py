"""Describes an ATen graph as the JSON that the compiler reads."""

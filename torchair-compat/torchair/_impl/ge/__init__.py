"""Converters of operators, and the IR nodes that they make."""

"""Older names of modules that converters use."""

from . import fx2ge_converter, ge_apis, ge_graph, utils

__all__ = ["fx2ge_converter", "ge_apis", "ge_graph", "utils"]

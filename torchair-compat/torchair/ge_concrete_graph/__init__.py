"""Older places of what converters are written with."""

from . import fx2ge_converter, ge_apis, ge_graph, utils

__all__ = ["fx2ge_converter", "ge_apis", "ge_graph", "utils"]

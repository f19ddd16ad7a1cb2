"""Tools for traces of graphs: alignment, collectives, deadlocks."""

from . import align_trace, deadlock_check, filter_operators

__all__ = ["align_trace", "deadlock_check", "filter_operators"]

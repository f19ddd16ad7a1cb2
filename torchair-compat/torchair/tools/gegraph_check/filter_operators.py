"""filter_comm_ops: keeps the collectives of a trace and the tasks that order them."""

from ..._impl.dump.deadlock import filter_comm_ops

__all__ = ["filter_comm_ops"]

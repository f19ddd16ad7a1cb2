"""filter_comm_ops of the traces of graphs."""

from ..._impl.dump.deadlock import filter_comm_ops

__all__ = ["filter_comm_ops"]

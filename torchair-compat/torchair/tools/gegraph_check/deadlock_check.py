"""deadlock_check of the traces of graphs."""

from ..._impl.dump.deadlock import deadlock_check

__all__ = ["deadlock_check"]

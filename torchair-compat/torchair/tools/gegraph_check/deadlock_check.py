"""deadlock_check: finds collectives in a trace that may wait for each other."""

from ..._impl.dump.deadlock import deadlock_check

__all__ = ["deadlock_check"]

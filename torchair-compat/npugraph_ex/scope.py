"""npugraph_ex.scope: limits the cores that operators use."""

from torchair.scope import limit_core_num

__all__ = ["limit_core_num"]

"""npugraph_ex.scope: how many cores operators take."""

from torchair.scope import limit_core_num

__all__ = ["limit_core_num"]

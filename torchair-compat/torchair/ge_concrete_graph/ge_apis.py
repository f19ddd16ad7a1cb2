"""The older place of torchair.ge's nodes."""

from ..ge import Cast, Clone, Const, custom_op

__all__ = ["Cast", "Clone", "Const", "custom_op"]

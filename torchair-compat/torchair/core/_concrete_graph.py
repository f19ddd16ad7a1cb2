"""Private names that serving code imports and patches."""

from torchair._impl.surface.captured import ValuePack
from torchair._impl.surface.captured import is_symlist as _is_symlist

__all__ = ["ValuePack", "_is_symlist"]

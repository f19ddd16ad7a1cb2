"""What `import torch_npu` adds to PyTorch: torch.npu, `.npu()`, device="npu"."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import torch

from . import alias, npu

__all__ = ["install"]


@functools.cache
def install() -> ModuleType:
    """Once a process. Gives torch.npu."""
    alias.install()
    torch.npu = npu
    sys.modules["torch.npu"] = npu
    return npu

"""What `import torch_npu` adds to PyTorch: torch.npu, `.npu()`, device="npu"."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import torch

from . import alias, distributed, formats, npu

__all__ = ["install"]


@functools.cache
def install() -> tuple[ModuleType, ModuleType]:
    """Installs the alias and the modules, once a process. Returns torch.npu and
    torch_npu.dynamo."""
    alias.install()
    formats.install()
    torch.npu = npu
    sys.modules["torch.npu"] = npu
    sys.modules["torch_npu.distributed"] = distributed
    return npu, _dynamo()


def _dynamo() -> ModuleType:
    """torch_npu.dynamo.torchair is torchair, module by module: a second copy
    would have a configuration class of its own."""
    dynamo = ModuleType("torch_npu.dynamo")
    sys.modules["torch_npu.dynamo"] = dynamo
    for name, module in list(sys.modules.items()):
        if name == "torchair" or name.startswith("torchair."):
            sys.modules[f"torch_npu.dynamo.{name}"] = module
    dynamo.torchair = sys.modules["torchair"]  # type: ignore[attr-defined]
    return dynamo

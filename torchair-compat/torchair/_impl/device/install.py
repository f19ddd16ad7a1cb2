"""Adds torch.npu, `.npu()` and device="npu" to PyTorch, for `import torchair` and
`import torch_npu`."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

from . import (
    alias,
    contrib,
    distributed,
    hccl,
    indices,
    names,
    npu,
    products,
    profiler,
    testing,
    traced_streams,
)

__all__ = ["install"]


@functools.cache
def install() -> tuple[ModuleType, ModuleType]:
    """Installs the alias and the modules, once a process. Returns torch.npu and
    torch_npu.dynamo."""
    names.install(npu)
    alias.install()
    products.install()
    indices.install()
    hccl.install()
    traced_streams.install()
    sys.modules["torch.npu"] = npu
    sys.modules["torch_npu.npu"] = npu
    sys.modules["torch_npu.distributed"] = distributed
    sys.modules["torch_npu.profiler"] = profiler
    # Packages, so that their modules are imported when somebody asks for them.
    sys.modules["torch_npu.contrib"] = contrib
    sys.modules["torch_npu.testing"] = testing
    return npu, _dynamo()


def _dynamo() -> ModuleType:
    """torch_npu.dynamo.torchair is torchair itself, module by module: a copy would have
    another configuration class."""
    dynamo = ModuleType("torch_npu.dynamo")
    sys.modules["torch_npu.dynamo"] = dynamo
    for name, module in list(sys.modules.items()):
        if name == "torchair" or name.startswith("torchair."):
            sys.modules[f"torch_npu.dynamo.{name}"] = module
    dynamo.torchair = sys.modules["torchair"]  # type: ignore[attr-defined]
    return dynamo

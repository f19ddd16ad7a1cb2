"""Adds torch.npu, `.npu()`, device="npu" and the operators torch.ops.npu to PyTorch,
for `import torchair` and `import torch_npu`."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

from ..device import contrib, hccl, names, profiler, testing
from . import (  # these modules define operators
    activations,  # noqa: F401
    alias,
    attention,  # noqa: F401
    distributed,
    effects,  # noqa: F401
    experts,  # noqa: F401
    formats,
    norms,  # noqa: F401
    npu,
    quantise,  # noqa: F401
    scatter,  # noqa: F401
    traced_streams,
    weights,  # noqa: F401
)
from .llm import (  # these too
    caches,  # noqa: F401
    dispatch,  # noqa: F401
    flash_attention,  # noqa: F401
    init_routing,  # noqa: F401
    latent,  # noqa: F401
    routing,  # noqa: F401
)
from .training import dropout  # noqa: F401

__all__ = ["install"]


@functools.cache
def install() -> tuple[ModuleType, ModuleType]:
    """Installs the alias and the modules, once a process. Returns torch.npu and
    torch_npu.dynamo."""
    names.install(npu)
    alias.install()
    formats.install()
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

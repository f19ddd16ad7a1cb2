"""torch_npu.utils.cpp_extension: extensions in C++ that are built for the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["NpuExtension"]

# Libraries of an NPU, which the host does not have.
_LIBRARIES = ("ascendcl", "hccl", "torch_npu")


def NpuExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """PyTorch's CppExtension without libraries of an NPU. Code that calls an NPU's
    functions does not compile."""
    # The import compiles nothing, but takes a second.
    from torch.utils.cpp_extension import CppExtension

    libraries = kwargs.pop("libraries", [])
    kwargs["libraries"] = [one for one in libraries if one not in _LIBRARIES]
    return CppExtension(name, list(sources), *args, **kwargs)

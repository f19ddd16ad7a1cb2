"""The operators of torch_npu, as torch.ops.npu: compositions of ATen operators.

Being compositions they need no kernels and no shape functions of their own:
PyTorch traces what they are made of, and the compiler fuses that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("npu", "FRAGMENT")


def operator(schema: str) -> Callable[[Callable[..., Any]], Any]:
    """Registers the function under its name in torch.ops.npu. `schema` has what
    comes after the name."""

    def register(function: Callable[..., Any]) -> Any:
        name = function.__name__
        _library.define(f"{name}{schema}")
        _library.impl(name, function, "CompositeImplicitAutograd")
        packet = getattr(torch.ops.npu, name)
        packet.__doc__ = function.__doc__
        return packet

    return register


def check(condition: bool, name: str, message: str) -> None:
    """RuntimeError that names the operator."""
    if not condition:
        raise RuntimeError(f"{name}: {message}")


def to_int8(values: torch.Tensor) -> torch.Tensor:
    """Rounded half to even and clamped to -128..127."""
    return values.round().clamp(-128, 127).to(torch.int8)

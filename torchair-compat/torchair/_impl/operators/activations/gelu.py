"""Activations, after Ascend's API reference of torch_npu: pages npu_gelu,
npu_fast_gelu."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype
from ..definition import npu_operator


@npu_operator
def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU of a float tensor, exact ("none") or by its approximation with tanh
    ("tanh"). RuntimeError: another `approximate` or dtype."""
    check_dtype(self, "npu_gelu", "self")
    known = approximate in ("none", "tanh")
    check(known, "npu_gelu", f"approximate must be none or tanh, got {approximate!r}")
    return torch.nn.functional.gelu(self, approximate=approximate)


@npu_operator
def npu_fast_gelu(self: Tensor) -> Tensor:
    """x sigmoid(1.702 x), computed in f32. RuntimeError: x is no float tensor."""
    check_dtype(self, "npu_fast_gelu", "self")
    wide = self.to(torch.float32)
    return (wide * torch.sigmoid(1.702 * wide)).to(self.dtype)

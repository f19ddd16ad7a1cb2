"""Activations, after Ascend's API reference of torch_npu: pages npu_gelu,
npu_fast_gelu and npu_gelu_mul."""

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
    return gelu_of(self, approximate, "npu_gelu")


@npu_operator
def npu_fast_gelu(self: Tensor) -> Tensor:
    """x sigmoid(1.702 x), computed in f32. RuntimeError: x is no float tensor."""
    check_dtype(self, "npu_fast_gelu", "self")
    wide = self.to(torch.float32)
    return (wide * torch.sigmoid(1.702 * wide)).to(self.dtype)


@npu_operator
def npu_gelu_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU of the first half of the last dimension, times the second half, computed in
    f32. The result has the input's dtype.

    approximate  none computes GELU exactly, tanh by its approximation

    RuntimeError: an odd last dimension, another `approximate` or dtype.
    """
    name = "npu_gelu_mul"
    check_dtype(input, name, "input")
    size = input.shape[-1] if input.dim() else 1
    check(size % 2 == 0, name, f"the last dimension of input must be even, got {size}")
    left, right = input.to(torch.float32).chunk(2, -1)
    return (gelu_of(left, approximate, name) * right).to(input.dtype)


def gelu_of(values: Tensor, approximate: str, name: str) -> Tensor:
    known = approximate in ("none", "tanh")
    check(known, name, f"approximate must be none or tanh, got {approximate!r}")
    return torch.nn.functional.gelu(values, approximate=approximate)

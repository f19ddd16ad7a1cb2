"""A product with a weight of bytes, as `torch.ops.quantized.linear_dynamic` computes it:
what it multiplies is rounded to bytes, with one scale for the whole tensor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# What a scale is at least: PT2E's constant.
_LEAST = torch.finfo(torch.float32).eps
# The largest byte. PyTorch leaves a bit free, since the instructions of processors
# without VNNI add two products in 16 bits.
MOST = 127


def product(
    x: Tensor, integers: Tensor, scale: Tensor, bias: Tensor | None, most: int = MOST
) -> Tensor:
    """x W' + b.

    integers  int8 [rows, columns]: W without its scales
    scale     float32 [rows]
    most      the largest byte that x is rounded to; the least is zero
    """
    import torch.ao.quantization.fx._decomposed  # defines the operators

    operators = torch.ops.quantized_decomposed
    kind = torch.uint8
    own, zero = operators.choose_qparams.tensor(x, 0, most, _LEAST, kind)
    whole = operators.quantize_per_tensor.tensor(x, own, zero, 0, most, kind)
    rounded = operators.dequantize_per_tensor.tensor(whole, own, zero, 0, most, kind)
    weight = operators.dequantize_per_channel.default(
        integers, scale, None, 0, -128, 127, torch.int8
    )
    return functional.linear(rounded, weight, bias)

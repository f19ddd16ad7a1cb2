"""Products of the rounded weights of quantised checkpoints, visible to the compiler.

Weights of four bits stand for floats, which the program computes block by block. Weights
of bytes multiply activations that are rounded to bytes, so their sums are exact. Products
of floats of eight bits sum in float32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from anabranch import extension

LOWEST, HIGHEST = -128, 127  # of a byte
# The largest float of eight bits, and the least number for which one of them stands: the
# least with which vLLM rounds.
LARGEST = torch.finfo(torch.float8_e4m3fn).max
LEAST_STEP = 1 / (LARGEST * 512)


def half_bytes(packed: Tensor) -> Tensor:
    """int32 [rows, columns / 8], with eight columns in each, the first one lowest, as
    uint8 [rows, columns / 2]. This is what the words are in memory, if rows are whole."""
    return packed.contiguous().view(torch.uint8)


def integers(packed: Tensor) -> Tensor:
    """The integers [rows, columns] of int32 [rows, columns / 8]."""
    pairs = half_bytes(packed)
    return torch.stack((pairs & 15, pairs >> 4), -1).flatten(1)


def multiply_half_bytes(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    center: int,
    bias: Tensor | None,
) -> Tensor:
    """x W' + b, with W = (weight - center) * scale + offset for groups of columns."""
    floats = extension.dequantized(weight, scale, offset, center, x.dtype)
    return F.linear(x, floats, bias)


def multiply_bytes(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    sums: Tensor | None,
    step: Tensor | None,
    zero: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """x W' + b, with bytes for both factors. A byte of x stands for its distance from
    `zero` times `step`.

    scale  float32 [rows] of the weight
    sums   float32: the sum of each row of the weight; None: no byte of x stands for zero
           but zero
    step   None: each row of x has its own, and its own zero if there are sums
    """
    wide = x.flatten(0, -2).float()
    if step is None:
        step, zero = _steps(wide, sums is not None)
    bytes_ = torch.round(wide / step)
    if zero is not None:
        bytes_ = bytes_ + zero
    rounded = bytes_.clamp(LOWEST, HIGHEST).to(torch.int8)
    product = torch._int_mm(rounded, weight.t()).float()
    if zero is not None and sums is not None:
        product = product - zero * sums
    product = product * step * scale
    if bias is not None:
        product = product + bias.float()
    return product.to(x.dtype).view(*x.shape[:-1], -1)


def multiply_small_floats(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    rounding: str,
    step: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """x W' + b, with W = weight * scale and a weight of floats of eight bits.

    scale     float32 [rows] of the weight, or one number
    rounding  "none", or to floats of eight bits: with a scale for each "row" of x, or for
              all of the "tensor"
    step      the scale of a tensor; None: x has its own"""
    wide = x.flatten(0, -2).float()
    if rounding != "none":
        if step is None:
            largest = wide.abs()
            over = (
                largest.amax(-1, keepdim=True) if rounding == "row" else largest.amax()
            )
            step = (over / LARGEST).clamp(min=LEAST_STEP)
        wide = (wide * step.reciprocal()).clamp(-LARGEST, LARGEST)
        wide = wide.to(weight.dtype).float()
    product = torch.mm(wide, weight.float().t())
    if rounding != "none":
        product = product * step
    product = product * scale
    if bias is not None:
        product = product + bias.float()
    return product.to(x.dtype).view(*x.shape[:-1], -1)


def multiply_blocks(
    x: Tensor, weight: Tensor, scale: Tensor, height: int, bias: Tensor | None
) -> Tensor:
    """x W' + b, with W = weight * scale and a weight of floats of eight bits, for blocks
    of `height` rows and some columns.

    scale  float32 [blocks of rows, blocks of columns]"""
    rows, columns = weight.shape
    scales = scale.unsqueeze(1).expand(-1, height, -1).flatten(0, 1)[:rows]
    groups = weight.float().view(rows, scale.shape[1], -1)
    floats = (groups * scales.unsqueeze(-1)).view(rows, columns)
    return F.linear(x, floats.to(x.dtype), bias)


def _steps(wide: Tensor, has_zeros: bool) -> tuple[Tensor, Tensor | None]:
    """For each row the distance of two neighbouring bytes, and the byte of zero."""
    if not has_zeros:
        return wide.abs().amax(-1, keepdim=True) / HIGHEST, None
    lowest, highest = wide.amin(-1, keepdim=True), wide.amax(-1, keepdim=True)
    step = (highest - lowest) / (HIGHEST - LOWEST)
    zero = torch.round(LOWEST - lowest / step)
    return step, torch.where(step > 0, zero, 0)  # else a row of zeros has NaN

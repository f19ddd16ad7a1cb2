"""Decomposes the operators that quantise and dequantise tensors in graphs of PyTorch's
quantisation (PT2E): `torch.ops.quantized_decomposed`.

PyTorch's own functions for them serve as decompositions, where they compute with tensors
alone. Others read numbers out of tensors, which a trace cannot follow, or subtract
integers: these have a function here, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def decompositions() -> dict[Any, Callable[..., Any]]:
    # The import registers the operators.
    from torch.ao.quantization.fx import _decomposed as own

    operators = torch.ops.quantized_decomposed
    table: dict[Any, Callable[..., Any]] = {
        getattr(operators, name).default: getattr(own, name)
        for name in (
            "quantize_per_tensor",
            "dequantize_per_tensor",
            "quantize_per_channel",
            "choose_qparams_per_token",
            "choose_qparams_per_token_asymmetric",
            "quantize_per_token",
            "dequantize_per_token",
            "dequantize_per_channel_group",
        )
    }
    return table | {
        operators.quantize_per_tensor.tensor: quantize_by_tensors,
        operators.quantize_per_tensor.tensor2: quantize_by_tensors,
        operators.dequantize_per_tensor.tensor: dequantize_by_tensors,
        operators.dequantize_per_tensor.tensor2: dequantize_by_tensors,
        operators.dequantize_per_channel.default: dequantize_channels,
        operators.quantize_per_channel_group.default: quantize_groups,
        operators.choose_qparams.tensor: choose_scale_and_zero,
        operators.choose_qparams_symmetric.tensor: choose_scale,
        operators.convert_element_type.no_fuse: own.convert_element_type,
    }


def quantize_by_tensors(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    low: Any,
    high: Any,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Quantises a tensor of floats. Scale, zero point and, for the overload `tensor2`, the
    bounds are tensors of one element."""
    inverse = (1.0 / _number(scale).double()).float()
    whole = torch.round(x.float() * inverse) + _number(zero)
    if isinstance(low, torch.Tensor):
        whole = torch.minimum(torch.maximum(whole, _number(low)), _number(high))
    else:
        whole = torch.clamp(whole, low, high)
    return whole.to(dtype)


def dequantize_by_tensors(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    low: Any,
    high: Any,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The inverse of quantize_by_tensors. Results are float32, or `out_dtype`."""
    wide = x.to(out_dtype or torch.float32)
    wide = wide - _number(zero)
    return (wide.float() * _number(scale).float()).to(wide.dtype)


def _number(one: torch.Tensor) -> torch.Tensor:
    """A tensor of one element without dimensions: no result gets dimensions of it."""
    return one.reshape(())


def dequantize_channels(
    x: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Dequantises a tensor that has a scale and a zero point for each index of `axis`."""
    shape = [1] * x.dim()
    shape[axis] = scales.shape[0]
    if zeros is not None:
        # Products read a frozen weight in its few bits if floats are subtracted. Those of
        # bytes are exact.
        if x.dtype.itemsize == 1:
            x, zeros = x.float(), zeros.float()
        x = x - zeros.view(shape)
    return (x * scales.view(shape)).to(out_dtype or torch.float32)


def quantize_groups(
    x: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    group: int,
) -> torch.Tensor:
    """Quantises a matrix with a scale and a zero point for each `group` columns of a row.
    PyTorch refuses NaN at the call; here NaN becomes some integer."""
    rows, columns = x.shape
    if group > columns and scales.shape[-1] == 1:
        group = columns
    if group <= 1 or columns % group:
        raise ValueError(f"{columns} columns are no groups of {group}")
    parts = x.reshape(-1, group)
    whole = parts * (1.0 / scales.reshape(-1, 1)) + zeros.reshape(-1, 1)
    return whole.round().clamp(low, high).to(dtype).reshape(rows, columns)


def choose_scale_and_zero(
    x: torch.Tensor, low: int, high: int, least: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale, float64 [1], and zero point, int64 [1], whose integers from `low` to
    `high` cover all elements and zero."""
    smallest, largest = _bounds(x)
    scale = (largest - smallest) / float(high - low)
    scale = torch.maximum(scale, _least(x, least))
    zero = low - torch.round(smallest / scale).to(torch.int32)
    return scale.double(), zero.clamp(low, high).long()


def choose_scale(
    x: torch.Tensor, low: int, high: int, least: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for integers whose zero point is in their middle."""
    smallest, largest = _bounds(x)
    scale = torch.maximum(-smallest, largest) / (float(high - low) / 2)
    scale = torch.maximum(scale, _least(x, least))
    zero = torch.full((1,), 128 if dtype == torch.uint8 else 0, device=x.device)
    return scale.double(), zero.long()


def _bounds(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest and the largest of zero and all elements."""
    smallest, largest = torch.aminmax(x)
    return smallest.clamp(max=0), largest.clamp(min=0)


def _least(x: torch.Tensor, least: float) -> torch.Tensor:
    return torch.full((1,), least, dtype=torch.float32, device=x.device)

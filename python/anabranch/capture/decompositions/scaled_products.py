"""Decomposes PyTorch's product of floats of eight bits with scales.

The product sums in float32, and scales multiply its results. So a frozen operand stays
in its bytes, and the scales are a part of what the product stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten._scaled_mm.default: scaled_product}


def scaled_product(
    left: torch.Tensor,
    right: torch.Tensor,
    left_scale: torch.Tensor,
    right_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """(left * left_scale) (right * right_scale) + bias, in `out_dtype`, which is the
    dtype of `left` if it is None.

    left         [m, k], a float of eight bits
    right        [k, n], likewise
    left_scale   float32, one number or [m, 1]
    right_scale  float32, one number or [1, n]
    bias         [n]

    PyTorch computes products with other scales, and scaled results of eight bits."""
    known = (torch.Size([]), torch.Size([1]), torch.Size([1, 1]))
    rows, columns = left.shape[0], right.shape[1]
    by_row = left_scale.shape in known or left_scale.shape == (rows, 1)
    by_column = right_scale.shape in known or right_scale.shape == (1, columns)
    if scale_result is not None or not (by_row and by_column):
        return NotImplemented
    result = torch.mm(left.float(), right.float()) * left_scale * right_scale
    if bias is not None:
        result = result + bias
    return result.to(out_dtype or left.dtype)

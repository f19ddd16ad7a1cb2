"""Rows by their numbers, and a softmax in the place of its input.

After Ascend's API reference of torch_npu, page npu_gather_sparse_index, and the schemas of
its op-plugin."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written


@npu_operator
def npu_gather_sparse_index(input: Tensor, index: Tensor) -> Tensor:
    """The rows of a matrix with these numbers.

    input  (rows, n), of any dtype
    index  integers of 1 to 6 dimensions

    Returns (*index, n). RuntimeError: another shape or dtype. IndexError: no such row.
    """
    name = "npu_gather_sparse_index"
    check(input.dim() == 2, name, f"input must have 2 dimensions, got {input.dim()}")
    check_dtype(index, name, "index", INTEGERS)
    return functional.embedding(index, input)


@npu_operator
def npu_attn_softmax_(self: Written) -> Written:
    """Writes softmax(x) over the last dimension into x, computed in f32. RuntimeError: x is
    no float tensor."""
    check_dtype(self, "npu_attn_softmax_", "self")
    return self.copy_(torch.softmax(self.to(torch.float32), -1))


@npu_operator
def npu_masked_softmax_with_rel_pos_bias(
    x: Tensor,
    atten_mask: Tensor | None,
    relative_pos_bias: Tensor,
    scale_value: float = 1.0,
    inner_precision_mode: int = 0,
) -> Tensor:
    """softmax(x * scale_value + atten_mask + relative_pos_bias) over the last dimension,
    computed in f32.

    x                  (b, windows, n, s, s), or (b * windows, n, s, s): a float tensor
    atten_mask         windows of (s, s), (windows, s, s), (windows, 1, s, s) or
                       (1, windows, 1, s, s), added
    relative_pos_bias  (n, s, s), (1, n, s, s) or (1, 1, n, s, s)

    The result has x's dtype. RuntimeError: another shape, dtype or inner_precision_mode.
    """
    name = "npu_masked_softmax_with_rel_pos_bias"
    check_dtype(x, name, "x")
    check(x.dim() in (4, 5), name, f"x must have 4 or 5 dimensions, got {x.dim()}")
    known = inner_precision_mode == 0
    text = f"inner_precision_mode must be 0, got {inner_precision_mode}"
    check(known, name, text)
    heads, rows, columns = x.shape[-3:]
    check_dtype(relative_pos_bias, name, "relative_pos_bias", (x.dtype,))
    last = (heads, rows, columns)
    check_shape(
        relative_pos_bias, name, "relative_pos_bias", last, (1, *last), (1, 1, *last)
    )
    values = x.to(torch.float32) * scale_value
    if atten_mask is not None:
        check_dtype(atten_mask, name, "atten_mask", (x.dtype,))
        windows = atten_mask.numel() // (rows * columns)
        part = (rows, columns)
        known_shapes = (windows, *part), (windows, 1, *part), (1, windows, 1, *part)
        check_shape(atten_mask, name, "atten_mask", *known_shapes)
        count = x.shape[1] if x.dim() == 5 else x.shape[0]
        fits = windows > 0 and count % windows == 0
        fits = fits and (x.dim() == 4 or windows == count)
        check(fits, name, f"atten_mask has {windows} windows, and x has {count}")
        table = atten_mask.reshape(windows, 1, *part).to(torch.float32)
        values = (values.reshape(-1, windows, *last) + table).reshape(x.shape)
    values = values + relative_pos_bias.reshape(last).to(torch.float32)
    return torch.softmax(values, -1).to(x.dtype)

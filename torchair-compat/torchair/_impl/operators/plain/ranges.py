"""Ranges of elements: fills them, and normalises them.

After op-plugin's tests of npu_masked_fill_range and npu_normalize_batch."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator


@npu_operator
def npu_masked_fill_range(
    self: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int = -1
) -> Tensor:
    """The tensor with a value in ranges along `axis`. A later value goes over an earlier
    one.

    self        one to three dimensions
    start, end  (values, ranges) of integers: range j of value i is from start[i, j] up to
                before end[i, j]. Along the last of several dimensions, range j is of the
                j-th part of self along the first, of which there are as many. Along
                another one, each is of all
    value       (values,) in self's dtype

    RuntimeError: another shape, dtype or axis.
    """
    name = "npu_masked_fill_range"
    dims = self.dim()
    check(1 <= dims <= 3, name, f"self must have 1 to 3 dimensions, got {dims}")
    for what, given in (("start", start), ("end", end)):
        check_dtype(given, name, what, INTEGERS)
    check(
        start.dim() == 2, name, f"start must be (values, ranges), got {start.dim()}-d"
    )
    check_shape(end, name, "end", tuple(start.shape))
    check_dtype(value, name, "value", (self.dtype,))
    check_shape(value, name, "value", (start.shape[0],))
    right = -dims <= axis < dims
    check(right, name, f"axis must be from {-dims} to {dims - 1}, got {axis}")
    along = axis % dims
    by_part = dims > 1 and along == dims - 1
    if by_part:
        parts, ranges = self.shape[0], start.shape[1]
        text = f"start must have a range for each of the {parts} parts, got {ranges}"
        check(parts == ranges, name, text)
    places = torch.arange(self.shape[along], device=self.device)
    inside = (places >= start.unsqueeze(-1)) & (places < end.unsqueeze(-1))
    result = self
    for number, filled in enumerate(inside.unbind()):
        if by_part:
            mask = filled.view(filled.shape[0], *[1] * (dims - 2), filled.shape[1])
        else:
            mask = filled.any(0).view(-1, *[1] * (dims - 1 - along))
        result = torch.where(mask, value[number], result)
    return result.clone() if result is self else result


@npu_operator
def npu_normalize_batch(
    self: Tensor, seq_len: Tensor, normalize_type: int = 0
) -> Tensor:
    """(x - mean) / (deviation + 1e-5) of each sequence, (b, features, n) in self's dtype:
    mean and deviation are of its first seq_len elements. Computed in f32.

    self            (b, features, n)
    seq_len         (b,) of integers
    normalize_type  0: of each feature; 1: of all features together

    The deviation divides by one less than there are elements: of a single one it is NaN.

    RuntimeError: another shape, dtype or type.
    """
    name = "npu_normalize_batch"
    check_dtype(self, name, "self", FLOATS)
    check(self.dim() == 3, name, f"self must have 3 dimensions, got {self.dim()}")
    check_dtype(seq_len, name, "seq_len", INTEGERS)
    check_shape(seq_len, name, "seq_len", (self.shape[0],))
    known = normalize_type in (0, 1)
    check(known, name, f"normalize_type must be 0 or 1, got {normalize_type}")
    over = (1, 2) if normalize_type else (2,)
    wide = self.to(torch.float32)
    lengths = seq_len.clamp(max=self.shape[2]).view(-1, 1, 1)
    inside = torch.arange(self.shape[2], device=self.device) < lengths
    count = lengths * (self.shape[1] if normalize_type else 1)
    mean = torch.where(inside, wide, 0.0).sum(over, keepdim=True) / count
    apart = torch.where(inside, wide - mean, 0.0).square().sum(over, keepdim=True)
    deviation = (apart / (count - 1)).sqrt()
    return ((wide - mean) / (deviation + 1e-5)).to(self.dtype)

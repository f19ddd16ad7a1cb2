"""Chooses the scale and the offset of a tensor by what its quantisation loses.

After op-plugin's test of npu_ifmr."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator


@npu_operator
def npu_ifmr(
    data: Tensor,
    data_min: Tensor,
    data_max: Tensor,
    cumsum: Tensor,
    min_percentile: float,
    max_percentile: float,
    search_start: float,
    search_end: float,
    search_step: float,
    with_offset: bool,
) -> tuple[Tensor, Tensor]:
    """The scale and the offset to int8, (1,) of f32, among those of bounds that are
    search_start, search_start + search_step, ... times as large, which lose least: the
    sum of squares of data minus the dequantised data. Computed in f32.

    data                            a float tensor
    data_min, data_max              (1,) of its dtype: the least and the greatest element
    cumsum                          (bins,) int32: how many elements are in the first bins
                                    between them
    min_percentile, max_percentile  the part of the elements that the bounds hold
    with_offset                     the bounds hold 0; else they are alike on both sides,
                                    and the offset is 0

    RuntimeError: another shape or dtype, or a search without a step.
    """
    name = "npu_ifmr"
    for what, given in (("data", data), ("data_min", data_min), ("data_max", data_max)):
        check_dtype(given, name, what, FLOATS)
    for what, given in (("data_min", data_min), ("data_max", data_max)):
        check_shape(given, name, what, (1,))
    check_dtype(cumsum, name, "cumsum", (torch.int32,))
    check(cumsum.dim() == 1, name, f"cumsum must be (bins,), got {tuple(cumsum.shape)}")
    for what, part in (("min", min_percentile), ("max", max_percentile)):
        check(
            0 <= part <= 1, name, f"{what}_percentile must be from 0 to 1, got {part}"
        )
    check(search_step > 0, name, f"search_step must be above 0, got {search_step}")
    count = math.ceil((search_end - search_start) / search_step)
    text = f"search_end must be above search_start, got {search_end} and {search_start}"
    check(count > 0, name, text)

    low, high = data_min.to(torch.float32), data_max.to(torch.float32)
    part = cumsum.to(torch.float32) / data.numel()
    bins = cumsum.shape[0]
    upper = (part < max_percentile).sum() / bins * (high - low) + low
    lower = (part < 1 - min_percentile).sum() / bins * (high - low) + low
    steps = search_start + torch.arange(count, device=data.device) * search_step
    if with_offset:
        lower = lower.clamp(max=0)
        scales = (upper.clamp(min=0) * steps - lower) / 255
        scales = torch.where(scales < torch.finfo(torch.float32).eps, 1.0, scales)
        offsets = -((lower / scales).round() + 128)
    else:
        scales = torch.maximum(upper.abs(), lower.abs()) * steps / 127
        offsets = torch.zeros_like(scales)
    wide = data.to(torch.float32).flatten()
    lost = []
    for scale, offset in zip(scales.unbind(), offsets.unbind()):
        whole = ((wide / scale).round() + offset).clamp(-128, 127)
        lost.append(((whole - offset) * scale - wide).square().sum())
    best = torch.stack(lost).argmin().view(1)
    return scales[best], offsets[best]

"""npu_quant_conv2d: a convolution of integers, times a scale of each channel.

After the schema and tests of op-plugin."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import scalar_type
from ..quantisation.integer_sums import decode_scale
from ..schema import Reserved

_NAME = "npu_quant_conv2d"
_Pair = Annotated[list[int], "int[2]"]
_MOST = 255  # of an NPU's padding
_RESULTS = (torch.float16, torch.bfloat16, torch.float32)


@npu_operator
def npu_quant_conv2d(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    strides: _Pair = 1,  # type: ignore[assignment]
    pads: _Pair = 0,  # type: ignore[assignment]
    dilations: _Pair = 1,  # type: ignore[assignment]
    groups: int = 1,
    offset_x: int = 0,
    round_mode: str = "rint",
    output_dtype: int | None = None,
    bias: Tensor | None = None,
    offset: Reserved[Tensor | None] = None,
    input_dtype: Reserved[int | None] = None,
    weight_dtype: Reserved[int | None] = None,
) -> Tensor:
    """The convolution of images (n, c, h, w) of int8 by a weight of int8, plus bias, times
    the scale of each channel; sums are exact.

    scale         (channels,) f32, or int64 of npu_trans_quant_param
    bias          (channels,) int32, or float: added after the scale
    offset_x      what padding is, from -128 to 127
    round_mode    "rint"
    output_dtype  float16 (None), bfloat16 or float32

    RuntimeError: another shape or dtype.
    """
    for what, tensor in (("input", input), ("weight", weight)):
        check_dtype(tensor, _NAME, what, (torch.int8,))
        text = f"{what} must have 4 dimensions, got {tensor.dim()}"
        check(tensor.dim() == 4, _NAME, text)
    check(round_mode == "rint", _NAME, f"round_mode must be rint, got {round_mode!r}")
    known = -128 <= offset_x <= 127
    check(known, _NAME, f"offset_x must be from -128 to 127, got {offset_x}")
    small = all(0 <= pad <= _MOST for pad in pads)
    check(small, _NAME, f"pads must be from 0 to {_MOST}, got {list(pads)}")
    kind = scalar_type(output_dtype, _NAME, "output_dtype", _RESULTS) or torch.float16
    channels = weight.shape[0]
    check_dtype(scale, _NAME, "scale", (torch.float32, torch.int64))
    check_shape(scale, _NAME, "scale", (channels,))
    check_dtype(bias, _NAME, "bias", (torch.int32, *_RESULTS))
    check_shape(bias, _NAME, "bias", (channels,))
    # f64 holds every sum of products of bytes.
    down, across = (pads[0], pads[-1])
    wide = functional.pad(
        input.to(torch.float64), (across, across, down, down), value=float(offset_x)
    )
    told = {"stride": strides, "dilation": dilations, "groups": groups}
    sums = functional.conv2d(wide, weight.to(torch.float64), **told)
    shape = (1, channels, 1, 1)
    if bias is not None and bias.dtype == torch.int32:
        sums = sums + bias.to(torch.float64).reshape(shape)
    factor = decode_scale(scale)[0] if scale.dtype == torch.int64 else scale
    made = sums.to(torch.float32) * factor.reshape(shape)
    if bias is not None and bias.dtype != torch.int32:
        made = made + bias.to(torch.float32).reshape(shape)
    return made.to(kind)

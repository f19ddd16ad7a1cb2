"""Linear layers, convolutions and activations by names of torch_npu.

After Ascend's API reference of torch_npu, pages of their names."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator, writing
from ..schema import Written


@npu_operator
def npu_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (..., k) @ weight (n, k)^T plus bias (n,). RuntimeError: they don't fit."""
    return functional.linear(input, weight, bias)


@npu_operator
def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: list[int]) -> Tensor:
    """The product of matrices, whose first dimensions are broadcast, in the shape
    `output_sizes`, or in its own for []. RuntimeError: they don't fit."""
    made = torch.matmul(self, mat2)
    return made.reshape(output_sizes) if output_sizes else made


def _check_rank(
    name: str, input: Tensor, weight: Tensor, ranks: tuple[int, ...]
) -> None:
    text = (
        f"input must have {' or '.join(map(str, ranks))} dimensions, got {input.dim()}"
    )
    check(input.dim() in ranks, name, text)
    text = f"weight must have {input.dim()} dimensions, got {weight.dim()}"
    check(weight.dim() == input.dim(), name, text)


@writing("out")
@npu_operator
def npu_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """The convolution of images (n, c, h, w). RuntimeError: shapes that don't fit."""
    _check_rank("npu_conv2d", input, weight, (4,))
    return functional.conv2d(input, weight, bias, stride, padding, dilation, groups)


@writing("out")
@npu_operator
def npu_conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """The convolution of volumes (n, c, d, h, w). RuntimeError: shapes that don't fit."""
    _check_rank("npu_conv3d", input, weight, (5,))
    return functional.conv3d(input, weight, bias, stride, padding, dilation, groups)


@npu_operator
def npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """npu_conv2d or npu_conv3d, by the number of dimensions."""
    _check_rank("npu_convolution", input, weight, (4, 5))
    run = functional.conv2d if input.dim() == 4 else functional.conv3d
    return run(input, weight, bias, stride, padding, dilation, groups)


@npu_operator
def npu_conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """The transposed convolution of images (n, c, h, w). RuntimeError: shapes that don't
    fit."""
    _check_rank("npu_conv_transpose2d", input, weight, (4,))
    told = stride, padding, output_padding, groups, dilation
    return functional.conv_transpose2d(input, weight, bias, *told)


@npu_operator
def npu_convolution_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """The transposed convolution of images, or of volumes (n, c, d, h, w). RuntimeError:
    shapes that don't fit."""
    _check_rank("npu_convolution_transpose", input, weight, (4, 5))
    images = input.dim() == 4
    run = functional.conv_transpose2d if images else functional.conv_transpose3d
    return run(input, weight, bias, stride, padding, output_padding, groups, dilation)


def _checked(x: Tensor, name: str) -> Tensor:
    check_dtype(x, name, "self", FLOATS)
    return x.to(torch.float32)


@npu_operator
def npu_silu(self: Tensor) -> Tensor:
    """x sigmoid(x) of floats, computed in f32. RuntimeError: another dtype."""
    return functional.silu(_checked(self, "npu_silu")).to(self.dtype)


@npu_operator
def npu_silu_(self: Written) -> Written:
    """npu_silu into `self`. RuntimeError: as npu_silu raises."""
    return self.copy_(functional.silu(_checked(self, "npu_silu_")))


@npu_operator
def npu_mish(self: Tensor) -> Tensor:
    """x tanh(log(1 + exp(x))) of floats, computed in f32. RuntimeError: another dtype."""
    return functional.mish(_checked(self, "npu_mish")).to(self.dtype)

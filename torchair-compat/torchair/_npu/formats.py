"""Formats of memory: a tag on the tensor, values as they were."""

from __future__ import annotations

import enum

import torch
from torch import Tensor

from .library import check, operator


class Format(enum.IntEnum):
    """How an NPU lays a tensor out, by its numbers. Every format has two names."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FORMAT_UNDEFINED = -1
    FORMAT_NCHW = 0
    FORMAT_NHWC = 1
    FORMAT_ND = 2
    FORMAT_NC1HWC0 = 3
    FORMAT_FRACTAL_Z = 4
    FORMAT_NC1HWC0_C04 = 12
    FORMAT_HWCN = 16
    FORMAT_NDHWC = 27
    FORMAT_FRACTAL_NZ = 29
    FORMAT_NCDHW = 30
    FORMAT_NDC1HWC0 = 32
    FORMAT_FRACTAL_Z_3D = 33
    FORMAT_NC = 35
    FORMAT_NCL = 47


@operator(
    "(Tensor input, int acl_format, int? customize_dtype=None, int? input_dtype=None)"
    " -> Tensor"
)
def _format_cast(
    input: Tensor,
    acl_format: int,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    return input.clone()


def npu_format_cast(
    input: Tensor,
    acl_format: int,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    """A new tensor with the input's shape, dtype and values that carries the format.
    Operators give tensors without one. Raises RuntimeError for an unknown format."""
    number = _known(acl_format)
    made = torch.ops.npu._format_cast(input, number, customize_dtype, input_dtype)
    return made if torch.compiler.is_compiling() else _tag(made, number)


def npu_format_cast_(input: Tensor, acl_format: int) -> Tensor:
    """Gives the tensor itself the format."""
    number = _known(acl_format)
    return input if torch.compiler.is_compiling() else _tag(input, number)


def get_npu_format(tensor: Tensor) -> Format:
    """Of a tensor without one: NCHW with four dimensions in row-major order, else ND."""
    number = getattr(tensor, "_npu_format", None)
    if number is not None:
        return Format(number)
    plain = tensor.dim() == 4 and tensor.is_contiguous()
    return Format.NCHW if plain else Format.ND


def _known(number: int) -> int:
    known = [int(value) for value in Format]
    check(int(number) in known, "npu_format_cast", f"no such format: {number}")
    return int(number)


def _tag(tensor: Tensor, number: int) -> Tensor:
    tensor._npu_format = number  # type: ignore[attr-defined]
    return tensor

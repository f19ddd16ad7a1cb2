"""Formats of memory: a tag on the tensor, values as they were.

No strides say how the blocks of FRACTAL_NZ lie, so a tensor of this format keeps
its logical memory, which every operator of PyTorch reads, and has the blocks
beside it. They are made when they are first asked for, and again after the tensor
was written to.
"""

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


# Columns of a block, and rows whose bytes are neighbours: what the compiler's
# product of bytes reads where it lies.
_COLUMNS = 64
_ROWS = 4


def to_blocks(matrix: Tensor) -> Tensor:
    """(k, n) as (n / 64, k / 4, 64, 4), zero where there is no element."""
    rows, columns = matrix.shape
    padded = torch.nn.functional.pad(matrix, (0, -columns % _COLUMNS, 0, -rows % _ROWS))
    split = padded.unflatten(1, (-1, _COLUMNS)).unflatten(0, (-1, _ROWS))
    return split.permute(2, 0, 3, 1).contiguous()


def from_blocks(blocks: Tensor, rows: int, columns: int) -> Tensor:
    """What to_blocks was given."""
    columns_first = blocks.permute(0, 2, 1, 3)
    whole = columns_first.reshape(
        blocks.shape[0] * blocks.shape[2], blocks.shape[1] * blocks.shape[3]
    )
    return whole[:columns, :rows].t()


@torch.compiler.disable  # called by what Dynamo makes, not to be traced itself
def _blocks_of(tensor: Tensor) -> Tensor | None:
    """The blocks of a matrix of int8 in FRACTAL_NZ; None of other tensors, and of
    those of inference mode, whose writes PyTorch does not count."""
    if getattr(tensor, "_npu_format", None) != Format.FRACTAL_NZ:
        return None
    if tensor.dtype != torch.int8 or tensor.dim() != 2 or tensor.is_inference():
        return None
    known = getattr(tensor, "_npu_blocks_made", None)
    if known is None or known[0] != tensor._version:
        known = tensor._version, to_blocks(tensor)
        tensor._npu_blocks_made = known  # type: ignore[attr-defined]
    return known[1]


def install() -> None:
    """A property, so that compiled code, which looks it up in every call, never
    gets blocks of older values."""
    torch.Tensor._npu_blocks = property(_blocks_of)  # type: ignore[attr-defined]

"""Formats of memory: a tag on a tensor, whose values stay the same.

No strides describe the blocks of FRACTAL_NZ. So a tensor of this format keeps its
logical memory, which every operator of PyTorch reads, and has the blocks beside it.
They are made when they are first needed, and again after the tensor was written."""

from __future__ import annotations

import enum
from collections.abc import MutableMapping, Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from anabranch.extension import is_traced

from ...device.names import host_device
from ..checks import check
from ..definition import npu_function, npu_operator
from ..quantisation.integers import unpack_int4


class Format(enum.IntEnum):
    """The formats of an NPU, by their numbers. Every format has two names."""

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


@npu_operator
def _format_cast(
    input: Tensor,
    acl_format: int,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    return input.clone()


@npu_function
def npu_format_cast(
    input: Tensor,
    acl_format: int,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    """A new tensor with the input's shape, dtype and values, and this format.

    The results of other operators have no format. RuntimeError: an unknown format.
    """
    number = _known(acl_format)
    made = torch.ops.npu._format_cast(input, number, customize_dtype, input_dtype)
    return made if is_traced() else _tag(made, number)


@npu_function
def npu_format_cast_(input: Tensor, acl_format: int) -> Tensor:
    """Gives the tensor itself the format. RuntimeError: an unknown format."""
    number = _known(acl_format)
    return input if is_traced() else _tag(input, number)


@npu_function
def empty_with_format(
    size: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool | None = None,
    acl_format: int = 2,
) -> Tensor:
    """torch.empty of these sizes, with this format. RuntimeError: there is no such
    format."""
    check(layout in (None, torch.strided), "empty_with_format", f"layout {layout}")
    made = torch.empty(
        size, dtype=dtype, device=host_device(device), pin_memory=bool(pin_memory)
    )
    return npu_format_cast_(made, acl_format)


@npu_function
def get_npu_format(tensor: Tensor) -> Format:
    """The number of the tensor's format, or of the tensor's that it is a view of. Without
    one it is NCHW for four dimensions in row-major order, else ND."""
    origin: Tensor | None = tensor
    while origin is not None:
        number = getattr(origin, "_npu_format", None)
        if number is not None:
            return Format(number)
        origin = origin._base
    plain = tensor.dim() == 4 and tensor.is_contiguous()
    return Format.NCHW if plain else Format.ND


def _known(number: int) -> int:
    known = [int(value) for value in Format]
    check(int(number) in known, "npu_format_cast", f"no such format: {number}")
    return int(number)


def _tag(tensor: Tensor, number: int) -> Tensor:
    tensor._npu_format = number  # type: ignore[attr-defined]
    return tensor


# Columns of a block.
_COLUMNS = 64
# Rows whose elements are neighbours: the words that the compiler's products of each
# dtype read.
_ROWS = {torch.int8: 4, torch.bfloat16: 2, torch.float16: 1}
# For a tensor and its transpose: the version that the blocks were made of, and the
# blocks. They are no attributes, since copies of the tensor count their writes anew.
_blocks: MutableMapping[Tensor, dict[bool, tuple[int, Tensor]]]
_blocks = WeakTensorKeyDictionary()


def to_blocks(matrix: Tensor) -> Tensor:
    """The blocks of a matrix (k, n): (n / 64, k / r, 64, r), with zeros beyond its
    elements. r is 4 for int8 and 2 for bf16; f16 has (n / 64, k, 64)."""
    rows, columns = matrix.shape
    word = _ROWS[matrix.dtype]
    padded = torch.nn.functional.pad(matrix, (0, -columns % _COLUMNS, 0, -rows % word))
    split = padded.unflatten(1, (-1, _COLUMNS)).unflatten(0, (-1, word))
    blocks = split.permute(2, 0, 3, 1)
    return (blocks if word > 1 else blocks.squeeze(-1)).contiguous()


def from_blocks(blocks: Tensor, rows: int, columns: int) -> Tensor:
    """The matrix that to_blocks made the blocks of."""
    if blocks.dim() == 3:
        blocks = blocks.unsqueeze(-1)
    columns_first = blocks.permute(0, 2, 1, 3)
    whole = columns_first.reshape(
        blocks.shape[0] * blocks.shape[2], blocks.shape[1] * blocks.shape[3]
    )
    return whole[:columns, :rows].t()


def has_blocks(tensor: Tensor) -> bool:
    """Whether a tensor is a matrix in FRACTAL_NZ that has blocks. int32 stands for
    eight int4 each. Tensors of inference mode have none, since PyTorch does not count
    writes to them."""
    if getattr(tensor, "_npu_format", None) != Format.FRACTAL_NZ:
        return False
    known = tensor.dtype in _ROWS or tensor.dtype == torch.int32
    return known and tensor.dim() == 2 and not tensor.is_inference()


def blocks_of(tensor: Tensor, transposed: bool) -> Tensor:
    """The blocks of a matrix, or of its transpose. They are made at the first call and
    after writes; at each call for a matrix without blocks of its own."""
    if not has_blocks(tensor):
        return _made(tensor, transposed)
    known = _blocks.setdefault(tensor, {})
    if transposed not in known or known[transposed][0] != tensor._version:
        known[transposed] = tensor._version, _made(tensor, transposed)
    return known[transposed][1]


def _made(tensor: Tensor, transposed: bool) -> Tensor:
    values = tensor.detach()
    if values.dtype == torch.int32:
        values = unpack_int4(values)
    return to_blocks(values.t() if transposed else values)


# Code that Dynamo makes calls this function; it is not traced itself.
@torch.compiler.disable
def _integer_blocks(tensor: Tensor) -> Tensor | None:
    """The int8 blocks that a product of integers reads; None for a tensor without."""
    if tensor.dtype not in (torch.int8, torch.int32) or not has_blocks(tensor):
        return None
    return blocks_of(tensor, transposed=False)


def install() -> None:
    """Adds the property of tensors that gives their blocks. Compiled code reads a
    property at each call, so it never gets blocks of older values."""
    torch.Tensor._npu_blocks = property(_integer_blocks)  # type: ignore[attr-defined]

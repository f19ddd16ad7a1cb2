"""Exact sums of products of integers, and the scales that they are multiplied by."""

from __future__ import annotations

import torch
from torch import Tensor

from ..memory.formats import from_blocks

__all__ = ["decode_scale", "integer_product", "scale_sums"]


def scale_sums(
    total: Tensor, scale: Tensor, pertoken_scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    """int32 sums times scale, times the scale of each row, plus a bias that is not
    int32: f32, in this order."""
    values = total.to(torch.float32) * scale.to(torch.float32)
    if pertoken_scale is not None:
        values = values * pertoken_scale.unsqueeze(-1)
    if bias is not None and bias.dtype != torch.int32:
        values = values + bias.to(torch.float32)
    return values


def integer_product(x1: Tensor, x2: Tensor, blocks: Tensor | None = None) -> Tensor:
    """int8 (..., m, k) @ (..., k, n) in exact int32."""
    if x2.dim() != 2:
        return torch.matmul(x1.to(torch.int32), x2.to(torch.int32))
    if blocks is not None:
        x2 = from_blocks(blocks, *x2.shape)
    shape = (*x1.shape[:-1], x2.shape[-1])
    if x1.shape[-1] == 0:  # PyTorch's product refuses an empty operand
        return torch.zeros(shape, dtype=torch.int32, device=x1.device)
    rows = _plain(x1.reshape(-1, x1.shape[-1]))
    return torch._int_mm(rows, x2 if _is_transposed(x2) else _plain(x2)).reshape(shape)


def _plain(matrix: Tensor) -> Tensor:
    """The matrix in row-major order without gaps. PyTorch's product of integers
    misreads strides of dimensions of size 1, which `contiguous` keeps, and strides of
    0."""
    if matrix.stride() == (matrix.shape[1], 1):
        return matrix
    return matrix.clone(memory_format=torch.contiguous_format)


def _is_transposed(matrix: Tensor) -> bool:
    """Whether the matrix is the transpose of one without gaps, as weights are."""
    rows, columns = matrix.shape
    return rows > 1 and columns > 1 and matrix.stride() == (1, rows)


def decode_scale(code: Tensor) -> tuple[Tensor, Tensor]:
    """The f32 scale and offset that npu_trans_quant_param packed."""
    low = code & 0xFFFFFFFF
    # As a signed 32-bit number.
    scale = ((low ^ 0x80000000) - 0x80000000).to(torch.int32).view(torch.float32)
    offset = (((code >> 37) & 0x1FF) ^ 0x100) - 0x100
    return scale, offset.to(torch.float32)

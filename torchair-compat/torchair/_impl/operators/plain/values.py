"""Extremes, orders and encodings of values by names of torch_npu.

After Ascend's API reference of torch_npu, pages of their names."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator, writing
from ..schema import Written

_BITS = 8


def _axis(name: str, dim: int, dims: int, what: str = "dim") -> int:
    """The dimension, counted from the front."""
    known = -dims <= dim < dims
    check(known, name, f"{what} must be from {-dims} to {dims - 1}, got {dim}")
    return dim % dims


@npu_operator
def npu_max(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The largest elements along `dim`, and their places, int32. RuntimeError: no such
    dimension."""
    values, places = self.max(_axis("npu_max", dim, self.dim()), keepdim)
    return values, places.to(torch.int32)


@npu_operator
def npu_min(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest elements along `dim`, and their places, int32. RuntimeError: no such
    dimension."""
    values, places = self.min(_axis("npu_min", dim, self.dim()), keepdim)
    return values, places.to(torch.int32)


@writing("out")
@npu_operator
def npu_sort_v2(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The elements in order along the last dimension, without their places. RuntimeError:
    another dimension."""
    name, dims = "npu_sort_v2", self.dim()
    last = _axis(name, dim, dims) == dims - 1
    check(last, name, f"dim must be the last, -1, got {dim}")
    return self.sort(dim, descending).values


@npu_operator
def npu_one_hot(
    self: Tensor,
    num_classes: int = -1,
    depth: int = 1,
    on_value: Annotated[float, "Scalar"] = 1,
    off_value: Annotated[float, "Scalar"] = 0,
) -> Tensor:
    """A new dimension of `depth` elements, f32: on_value at the class that the tensor has
    there, off_value elsewhere, also for classes that are none.

    self         int32 or int64
    num_classes  the place of the new dimension; -1: after all others

    RuntimeError: another dtype, place or depth.
    """
    name = "npu_one_hot"
    check_dtype(self, name, "self", (*INTEGERS, torch.uint8))
    check(depth > 0, name, f"depth must be positive, got {depth}")
    place = _axis(name, num_classes, self.dim() + 1, "num_classes")
    shape = [1] * (self.dim() + 1)
    shape[place] = depth
    classes = torch.arange(depth, device=self.device).reshape(shape)
    hit = self.unsqueeze(place) == classes
    on = torch.full((), float(on_value), device=self.device)
    return torch.where(hit, on, float(off_value))


@npu_operator
def npu_sign_bits_pack(self: Tensor, size: int) -> Tensor:
    """One bit for each element, 1 for those not below 0, in bytes (size, n), the first
    in the lowest bit. Elements that are missing to full bytes count as negative.

    self  (n,) float16 or float32

    RuntimeError: another shape or dtype, or a size that does not divide the bytes.
    """
    name = "npu_sign_bits_pack"
    check_dtype(self, name, "self", (torch.float16, torch.float32))
    check(self.dim() == 1, name, f"self must have 1 dimension, got {self.dim()}")
    padded = torch.nn.functional.pad(self, (0, -self.shape[0] % _BITS), value=-1.0)
    bits = (padded >= 0).reshape(-1, _BITS).to(torch.int32)
    powers = 1 << torch.arange(_BITS, dtype=torch.int32, device=self.device)
    made = (bits * powers).sum(-1).to(torch.uint8)
    total = made.shape[0]
    text = f"size must divide {total} bytes, got {size}"
    check(size > 0 and total % size == 0, name, text)
    return made.reshape(size, -1)


@npu_operator
def npu_sign_bits_unpack(input: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """1 for each bit that is set and -1 for the others, the lowest bit first: (size, n) in
    the dtype, float16 or float32, of uint8 (bytes,). RuntimeError: another shape or dtype,
    or a size that does not divide the bits."""
    name = "npu_sign_bits_unpack"
    check_dtype(input, name, "input", (torch.uint8,))
    check(input.dim() == 1, name, f"input must have 1 dimension, got {input.dim()}")
    known = dtype in (torch.float16, torch.float32)
    check(known, name, f"dtype must be float16 or float32, got {dtype}")
    places = torch.arange(_BITS, dtype=torch.int32, device=input.device)
    bits = (input.to(torch.int32).unsqueeze(-1) >> places) & 1
    total = input.shape[0] * _BITS
    text = f"size must divide {total} bits, got {size}"
    check(size > 0 and total % size == 0, name, text)
    return (bits * 2 - 1).to(dtype).reshape(size, -1)


def _added(
    name: str, self: Tensor, index: Tensor, source: Tensor, alpha: float
) -> Tensor:
    check_dtype(index, name, "index", INTEGERS)
    check(index.dim() == 1, name, f"index must have 1 dimension, got {index.dim()}")
    check_dtype(source, name, "source", (self.dtype,))
    check_shape(source, name, "source", (index.shape[0], *self.shape[1:]))
    return self.index_add(0, index.to(torch.int64), source, alpha=alpha)


@npu_operator
def _npu_index_add(
    self: Tensor,
    index: Tensor,
    source: Tensor,
    *,
    alpha: Annotated[float, "Scalar"] = 1,
) -> Tensor:
    """self plus alpha times the rows of source, each at its index of the first dimension.
    RuntimeError: another shape or dtype."""
    return _added("_npu_index_add", self, index, source, alpha)


@npu_operator
def _npu_index_add_(
    self: Written,
    index: Tensor,
    source: Tensor,
    *,
    alpha: Annotated[float, "Scalar"] = 1,
) -> Written:
    """_npu_index_add into `self`. RuntimeError: as _npu_index_add raises."""
    return self.copy_(_added("_npu_index_add_", self, index, source, alpha))


@npu_operator
def npu_softmax_cross_entropy_with_logits(self: Tensor, labels: Tensor) -> Tensor:
    """Minus the sum of labels * log(softmax(self)) over each row, (n,) of two (n, c) of
    floats. Computed in f32. RuntimeError: another shape or dtype."""
    name = "npu_softmax_cross_entropy_with_logits"
    check_dtype(self, name, "self", FLOATS)
    check_dtype(labels, name, "labels", (self.dtype,))
    check(self.dim() == 2, name, f"self must have 2 dimensions, got {self.dim()}")
    check_shape(labels, name, "labels", tuple(self.shape))
    logs = torch.log_softmax(self.to(torch.float32), -1)
    return -(logs * labels.to(torch.float32)).sum(-1).to(self.dtype)


@npu_operator
def npu_scaled_masked_softmax(
    x: Tensor,
    mask: Tensor,
    scale: Annotated[float, "Scalar"] = 1,
    fixed_triu_mask: bool = False,
) -> Tensor:
    """softmax of x * scale over the last dimension, with -10000 where the mask is true.
    Computed in f32, in x's dtype.

    mask             bool, broadcast to x
    fixed_triu_mask  False

    RuntimeError: another shape or dtype.
    """
    name = "npu_scaled_masked_softmax"
    check(not fixed_triu_mask, name, "fixed_triu_mask must be False")
    check_dtype(x, name, "x", FLOATS)
    check_dtype(mask, name, "mask", (torch.bool,))
    check(mask.dim() <= x.dim(), name, "mask must not have more dimensions than x")
    scores = x.to(torch.float32) * scale
    hidden = mask.expand(x.shape)
    return scores.masked_fill(hidden, -10000.0).softmax(-1).to(x.dtype)


@npu_operator
def batch_norm_reduce(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The sums of the values and of their squares of each channel, f32 (c,).

    input  (n, c, ...)
    eps    has no effect

    RuntimeError: another dtype, or fewer than two dimensions.
    """
    name = "batch_norm_reduce"
    check_dtype(input, name, "input", FLOATS)
    text = f"input must have at least 2 dimensions, got {input.dim()}"
    check(input.dim() > 1, name, text)
    wide = input.to(torch.float32)
    others = [dim for dim in range(input.dim()) if dim != 1]
    return wide.sum(others), wide.square().sum(others)

"""Slices, orders and shapes of a tensor by names of torch_npu.

After Ascend's API reference of torch_npu, pages of their names."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator, writing
from ..schema import Written

Sizes = Annotated[list[int], "SymInt[]"]


def _check_order(name: str, perm: list[int], dims: int) -> None:
    right = sorted(one % max(dims, 1) for one in perm) == [*range(dims)]
    check(right, name, f"perm must order {dims} dimensions, got {list(perm)}")


@writing("out")
@npu_operator
def npu_transpose(
    self: Tensor, perm: list[int], require_contiguous: bool = True
) -> Tensor:
    """The tensor with its dimensions in the order `perm`, contiguous.

    require_contiguous  has no effect on this host

    RuntimeError: perm is no order of the dimensions.
    """
    _check_order("npu_transpose", perm, self.dim())
    return self.permute(perm).clone(memory_format=torch.contiguous_format)


@writing("out")
@npu_operator
def npu_reshape(self: Tensor, shape: Sizes, can_refresh: bool = False) -> Tensor:
    """A copy of the tensor in another shape with as many elements; one size may be -1.

    can_refresh  has no effect: the argument keeps its shape

    RuntimeError: another number of elements.
    """
    return self.reshape(shape).clone()


@writing("out")
@npu_operator
def npu_broadcast(self: Tensor, size: Sizes) -> Tensor:
    """The tensor broadcast to `size`, contiguous. RuntimeError: it does not fit."""
    return self.expand(size).clone(memory_format=torch.contiguous_format)


@writing("out")
@npu_operator
def npu_slice(self: Tensor, offsets: Sizes, size: Sizes) -> Tensor:
    """A copy of the elements from `offsets` on, `size` of them along each dimension; size
    -1 is all that follow. RuntimeError: they are outside."""
    name, dims = "npu_slice", self.dim()
    for what, given in (("offsets", offsets), ("size", size)):
        text = f"{what} must have {dims} numbers, got {list(given)}"
        check(len(given) == dims, name, text)
    made = self
    for place, (start, count) in enumerate(zip(offsets, size)):
        total = self.shape[place]
        length = total - start if count == -1 else count
        inside = start >= 0 and length >= 0 and start + length <= total
        text = f"offsets {start} and size {count} do not fit dimension {place}"
        check(inside, name, f"{text} of {total}")
        made = made.narrow(place, start, length)
    return made.clone(memory_format=torch.contiguous_format)


@npu_operator
def npu_pad(input: Tensor, paddings: list[int]) -> Tensor:
    """The tensor with zeros around it: for each dimension, from the first on, how many
    before and after. RuntimeError: a negative number, or another count of them."""
    name, wanted = "npu_pad", 2 * input.dim()
    right = len(paddings) == wanted and min(paddings, default=0) >= 0
    text = f"paddings must have {wanted} numbers, none negative, got {list(paddings)}"
    check(right, name, text)
    pairs = [*zip(paddings[::2], paddings[1::2])]
    turned = [number for pair in reversed(pairs) for number in pair]
    return torch.nn.functional.pad(input, turned)


@npu_operator
def npu_confusion_transpose(
    self: Tensor, perm: list[int], shape: Sizes, transpose_first: bool
) -> Tensor:
    """With `transpose_first` the tensor in the order `perm` and then in the shape `shape`;
    else in that shape first. Contiguous. RuntimeError: they don't fit."""
    name = "npu_confusion_transpose"
    if transpose_first:
        _check_order(name, perm, self.dim())
        return self.permute(perm).reshape(shape).clone()
    _check_order(name, perm, len(shape))
    made = self.reshape(shape).permute(perm)
    return made.clone(memory_format=torch.contiguous_format)


@npu_operator
def reverse(self: Tensor, axis: list[int]) -> Tensor:
    """The tensor with its elements along these dimensions in reverse. IndexError: there
    is no such dimension."""
    return self.flip(axis)


@writing("out")
@npu_operator
def npu_stride_copy(
    self: Tensor,
    shape: list[int],
    stride: list[int],
    storage_offset: Annotated[int, "Scalar"],
) -> Tensor:
    """A contiguous copy of the elements in self's memory at `storage_offset` and these
    steps. RuntimeError: an element is behind the memory."""
    name = "npu_stride_copy"
    text = f"stride must have {len(shape)} numbers, got {len(stride)}"
    check(len(shape) == len(stride), name, text)
    sizes = f"shape must not have sizes below 0, got {list(shape)}"
    check(min(shape, default=0) >= 0, name, sizes)
    below = min(stride, default=0) < 0 or storage_offset < 0
    text = f"stride and storage_offset must not be below 0, got {list(stride)} and"
    check(not below, name, f"{text} {storage_offset}")
    return self.as_strided(shape, stride, int(storage_offset)).clone(
        memory_format=torch.contiguous_format
    )


@npu_operator
def npu_view_copy(self: Written, other: Tensor, non_blocking: bool) -> Written:
    """Copies `other`, broadcast and in self's dtype, to self, and returns it. RuntimeError:
    it does not fit."""
    return self.copy_(other, non_blocking)


@npu_operator
def one_(self: Written) -> Written:
    """Fills the tensor with ones."""
    return self.fill_(1)

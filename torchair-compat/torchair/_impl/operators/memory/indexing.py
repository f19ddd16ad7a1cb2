"""npu_indexing: slices by masks of bits.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator, writing

_NAME = "npu_indexing"


@writing("out")
@npu_operator
def npu_indexing(
    self: Tensor,
    begin: list[int],
    end: list[int],
    strides: list[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """self[begin[0]:end[0]:strides[0], ...], as Python slices, a copy.

    strides           not 0; negative ones go backwards
    begin_mask        bit i: the slice i has no begin, and so end_mask for ends
    ellipsis_mask     bit i: place i stands for all dimensions that the others leave
    new_axis_mask     bit i: place i is a new dimension of size 1
    shrink_axis_mask  bit i: place i is the index begin[i], which leaves no dimension

    Of several bits of a place, the ellipsis counts, then the new dimension. RuntimeError:
    lists of different lengths, more places than dimensions, two ellipses, a stride of 0,
    an index that is not there, or a result of more than 8 dimensions.
    """
    count = len(begin)
    same = len(end) == len(strides) == count
    text = f"begin, end and strides must have one length, got {count}"
    check(same, _NAME, f"{text}, {len(end)} and {len(strides)}")
    bits = [
        [bool(mask >> place & 1) for place in range(count)]
        for mask in (ellipsis_mask, new_axis_mask, shrink_axis_mask)
    ]
    check(sum(bits[0]) <= 1, _NAME, f"ellipsis_mask has two bits: {ellipsis_mask}")
    taken = sum(not rest and not new for rest, new, _ in zip(*bits))
    text = f"begin has {taken} places for {self.dim()} dimensions"
    check(taken <= self.dim(), _NAME, text)
    result, dim = self, 0
    for place, (rest, new, shrinks) in enumerate(zip(*bits)):
        if rest:
            dim += self.dim() - taken
        elif new:
            result, dim = result.unsqueeze(dim), dim + 1
        elif shrinks:
            step = strides[place]
            text = f"strides must be positive at places of shrink_axis_mask, got {step}"
            check(step > 0, _NAME, text)
            result = _one(result, dim, begin[place])
        else:
            first = None if begin_mask >> place & 1 else begin[place]
            last = None if end_mask >> place & 1 else end[place]
            result = _slice(result, dim, slice(first, last, strides[place]))
            dim += 1
    check(result.dim() <= 8, _NAME, f"begin makes {result.dim()} dimensions, at most 8")
    return result.clone(memory_format=torch.contiguous_format)


def _one(x: Tensor, dim: int, index: int) -> Tensor:
    size = x.shape[dim]
    text = f"begin has {index}, and dimension {dim} has {size} elements"
    check(-size <= index < size, _NAME, text)
    return x.select(dim, index)


def _slice(x: Tensor, dim: int, part: slice) -> Tensor:
    check(part.step != 0, _NAME, "strides must not be 0")
    start, stop, step = part.indices(x.shape[dim])
    if step < 0:
        # PyTorch's slices go forwards only.
        last = x.shape[dim] - 1
        x, start, stop, step = x.flip(dim), last - start, last - stop, -step
    return x[(slice(None),) * dim + (slice(start, max(start, stop), step),)]

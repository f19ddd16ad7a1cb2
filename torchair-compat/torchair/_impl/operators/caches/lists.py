"""npu_scatter_list: updates at a place of each tensor of a list.

After the schema and tests of op-plugin."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator, npu_operator_of

_MASKS = (torch.uint8, torch.bool)


def _written(
    name: str,
    tensors: list[Tensor],
    indices: Tensor,
    updates: Tensor,
    mask: Tensor | None,
    reduce: str,
    axis: int,
) -> list[Tensor]:
    check(reduce == "update", name, f"reduce must be update, got {reduce!r}")
    check(axis in (-1, -2), name, f"axis must be -1 or -2, got {axis}")
    count = len(tensors)
    check(count > 0, name, "self must have a tensor")
    check_dtype(indices, name, "indices", INTEGERS)
    check_shape(indices, name, "indices", (count,))
    check_dtype(mask, name, "mask", _MASKS)
    check_shape(mask, name, "mask", (count,))
    made = []
    for number, tensor in enumerate(tensors):
        check_dtype(updates, name, "updates", (tensor.dtype,))
        shape = list(tensor.shape)
        right = tensor.dim() >= -axis
        check(right, name, f"self[{number}] has no dimension {axis}")
        shape[axis] = 1
        check_shape(updates, name, "updates", (count, *shape))
        place = indices[number].to(torch.int64).reshape([1] * tensor.dim())
        new = tensor.scatter(axis, place.expand(shape), updates[number])
        if mask is not None:
            new = torch.where(mask[number] != 0, new, tensor)
        made.append(new)
    return made


@npu_operator
def npu_scatter_list(
    self: list[Tensor],
    indices: Tensor,
    updates: Tensor,
    mask: Tensor | None = None,
    reduce: str = "update",
    axis: int = -2,
) -> list[Tensor]:
    """Copies of the tensors, each with its update at its place along `axis`.

    self     n tensors (a, b, c)
    indices  (n,): the place of each update
    updates  (n, a, 1, c), or with `axis` -1 (n, a, b, 1)
    mask     (n,) uint8: tensors with 0 stay as they are

    RuntimeError: another shape, dtype or axis.
    """
    told = indices, updates, mask, reduce, axis
    return _written("npu_scatter_list", list(self), *told)


@npu_operator_of(
    "(Tensor(a!)[] self, Tensor indices, Tensor updates, Tensor? mask=None, str"
    " reduce='update', int axis=-2) -> ()"
)
def npu_scatter_list_(
    self: list[Tensor],
    indices: Tensor,
    updates: Tensor,
    mask: Tensor | None = None,
    reduce: str = "update",
    axis: int = -2,
) -> None:
    """npu_scatter_list into the tensors. RuntimeError: as npu_scatter_list raises."""
    told = indices, updates, mask, reduce, axis
    made = _written("npu_scatter_list_", list(self), *told)
    for tensor, new in zip(self, made):
        tensor.copy_(new)

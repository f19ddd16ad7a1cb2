"""Handles operators whose result depends on the layout of a tensor in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from .symbols import has_hint, hint, same
from .tensors import foreign_strides
from .views import overlaps
from .written import Misplaced, is_dense, storage, updates

aten = torch.ops.aten

_STRIDED = (aten.as_strided.default, aten.as_strided_copy.default)
_READS_STORAGE = {
    *_STRIDED,
    aten.as_strided_scatter.default,
    aten.resize.default,  # keeps the first elements in the order of the memory
    aten.resize_as.default,
}

# Operators by which functionalization updates a part of a tensor. In eager PyTorch their
# results have the tensor's layout, its offset included; a trace gives them no offset.
_KEEPS_OFFSET = {
    aten.copy.default,
    aten.select_scatter.default,
    aten.slice_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
}

# Those that change the chosen elements of a tensor and copy the others.
_CHANGES_PART = _KEEPS_OFFSET - {aten.copy.default}


def check_parts(nodes: Iterable[torch.fx.Node]) -> None:
    """Raises Misplaced if an operator changes a part of a tensor whose elements share
    memory. Eager PyTorch copies the memory, so elements that share memory with a chosen
    one change, too; a program keeps each element in a place of its own."""
    for node in nodes:
        if node.target in _CHANGES_PART and _shares_memory(node):
            raise Misplaced("it changes a part of a tensor whose elements share memory")


def _shares_memory(node: torch.fx.Node) -> bool:
    """Whether elements of the changed tensor share memory in eager PyTorch's copy, which
    repeats no dimension, or elements of the part do."""
    tensor = node.all_input_nodes[0].meta["val"]
    sizes, strides = _numbers(tensor.shape), _numbers(tensor.stride())
    repeats = any(size > 1 and not stride for size, stride in zip(sizes, strides))
    if not repeats and 0 not in sizes and overlaps(sizes, strides):
        return True
    if node.target is not aten.as_strided_scatter.default:
        return False
    sizes, strides = (_numbers(node.args[place]) for place in (2, 3))
    return 0 not in sizes and overlaps(sizes, strides)


def _numbers(given: Any) -> list[int]:
    """The sizes or strides in the call that was traced; none if data decide one."""
    found = [n.meta["val"] if isinstance(n, torch.fx.Node) else n for n in given]
    if not all(map(has_hint, found)):
        return []
    return list(map(hint, found))


def check_places(nodes: Iterable[torch.fx.Node]) -> None:
    """Raises Misplaced if an operator counts from the start of a memory that the trace
    and eager PyTorch begin at different places.

    `as_strided` counts from the start of a tensor's memory. The new value of an input is
    a tensor of its own in the trace, without the offset that the input has in its memory.
    """
    nodes = list(nodes)
    inputs = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
    inputs = [value for value in inputs if is_dense(value)]
    moved = {storage(v) for v in inputs if not same(v.storage_offset(), 0)}
    if not moved:
        return
    of_inputs = {storage(value) for value in inputs}
    replaces = any(storage(new.target.meta["val"]) in moved for new in updates(nodes))
    for node in nodes:
        if not _counts_places(node) or storage(_source(node)) in of_inputs:
            continue
        if replaces or moved & _storages_it_keeps(node):
            raise Misplaced(
                "it counts places from the start of the memory of an input that has an"
                " offset there, after an update or a copy"
            )


def _counts_places(node: torch.fx.Node) -> bool:
    """Whether an argument of the node counts from the start of its input's memory."""
    return node.target in (*_STRIDED, aten.as_strided_scatter.default)


def _source(node: torch.fx.Node) -> torch.Tensor:
    return node.all_input_nodes[0].meta["val"]


def _storages_it_keeps(node: torch.fx.Node) -> set[int]:
    """Where eager PyTorch finds the offset of the node's source."""
    source = node.all_input_nodes[0]
    while source.all_input_nodes and (
        source.target in _KEEPS_OFFSET
        or _storages(source) & _storages(source.all_input_nodes[0])
    ):
        source = source.all_input_nodes[0]
    return _storages(source)


def _storages(node: torch.fx.Node) -> set[int]:
    """The storages of a node's tensor, or of its list of tensors."""
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return {storage(tensor) for tensor in values if is_dense(tensor)}


def reads_outside_of_view(node: torch.fx.Node) -> bool:
    return node.target in _READS_STORAGE and not _is_whole(_source(node))


def replaced_arguments(node: torch.fx.Node) -> dict[str, Any] | None:
    """The arguments of an operator that reads memory outside of a view.

    A program keeps every tensor in row-major order, so such an operator gets the tensor
    that is the whole storage, instead of a view of it. None: the graph has no such
    tensor.
    """
    if node.target not in _READS_STORAGE:
        return {}
    source = node.all_input_nodes[0]
    value = source.meta["val"]
    owner = source if _is_whole(value) else _owner(node, value)
    if owner is source:
        return {}
    if owner is None or node.target not in _STRIDED:
        return None
    given = node.args[3] if len(node.args) > 3 else None
    offset = node.kwargs.get("storage_offset", given)
    if offset is None:
        offset = value.storage_offset()
    return {"self": owner, "storage_offset": offset}


def _owner(node: torch.fx.Node, value: torch.Tensor) -> torch.fx.Node | None:
    """The tensor before `node` that is the whole storage of `value`."""
    storage = value.untyped_storage()._cdata
    for other in node.graph.nodes:
        if other is node:
            break
        found = other.meta.get("val")
        if (
            isinstance(found, torch.Tensor)
            and found.layout is torch.strided
            and found.untyped_storage()._cdata == storage
            and found.dtype == value.dtype
            and _is_whole(found)
        ):
            return other
    return None


def _is_whole(value: torch.Tensor) -> bool:
    size = value.numel() * value.element_size()
    return (
        foreign_strides(value) is None
        and same(value.storage_offset(), 0)
        and same(value.untyped_storage().nbytes(), size)
    )

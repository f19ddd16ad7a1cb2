"""Handles operators whose result depends on how a tensor's elements lie in memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .symbols import same
from .tensors import foreign_strides

aten = torch.ops.aten

_STRIDED = (aten.as_strided.default, aten.as_strided_copy.default)
_READS_STORAGE = {
    *_STRIDED,
    aten.as_strided_scatter.default,
    aten.resize.default,  # keeps the first elements in the order of the memory
    aten.resize_as.default,
}


def reads_behind_a_view(node: torch.fx.Node) -> bool:
    return node.target in _READS_STORAGE and not _is_whole(
        node.all_input_nodes[0].meta["val"]
    )


def replaced_arguments(node: torch.fx.Node) -> dict[str, Any] | None:
    """The arguments of an operator that reads memory behind a view.

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

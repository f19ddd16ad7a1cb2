"""Removes operators that return their argument unchanged.

Before: %b = aten.repeat(%a, [1, 1]); %c = aten.mul(%b, 2)
After:  %c = aten.mul(%a, 2)"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from anabranch.extension import is_wait_result

__all__ = ["remove_noops"]

aten = torch.ops.aten

# Operators that return their first argument unchanged if the result has its dtype,
# sizes and strides.
_BY_FORM = frozenset(
    (
        aten.alias.default,
        aten.clone.default,
        aten.expand.default,
        aten.repeat.default,
        aten.reshape.default,
        aten.slice.Tensor,
        aten.view.default,
        aten._to_copy.default,
        aten._unsafe_view.default,
        torch.ops.prims.convert_element_type.default,
        torch.ops.prims.device_put.default,
    )
)
_OF_INTEGERS = frozenset(
    (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)
)


def remove_noops(module: torch.fx.GraphModule) -> int:
    """Removes such operators and returns their number.

    A copy stays if it keeps a result apart from an input or another result, or if its
    source is written later.
    """
    output = module.graph.output_node()
    count = 0
    for node in list(module.graph.nodes):
        source = _source(node)
        if source is None or not _is_same(node, source):
            continue
        if _is_written(node) or _is_written(source):
            continue
        if output in node.users and not _is_own(source, node):
            continue
        node.replace_all_uses_with(source)
        module.graph.erase_node(node)
        count += 1
    if count:
        module.recompile()
    return count


def _source(node: Node) -> Node | None:
    """The argument that the operator returns unchanged; None if it changes it."""
    target, args = node.target, node.args
    found: Any = None
    if target in _BY_FORM and not is_wait_result(node):
        found = args[0]
    elif target is aten.slice_scatter.default:
        found = args[1]
    elif target is aten.constant_pad_nd.default and not any(args[1]):  # type: ignore[arg-type]
        # Pads of 1 and -1 shift the elements, and leave the sizes.
        found = args[0]
    elif target is aten.pow.Tensor_Scalar and args[1] == 1:
        found = args[0]
    elif target is aten.cat.default and len(args[0]) == 1:  # type: ignore[arg-type]
        found = args[0][0]  # type: ignore[index]
    elif target in _OF_INTEGERS and not node.meta["val"].dtype.is_floating_point:
        found = args[0]
    return found if isinstance(found, Node) else None


def _is_same(node: Node, source: Node) -> bool:
    value, before = node.meta.get("val"), source.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(before, torch.Tensor):
        return False
    if (value.dtype, value.device, value.dim()) != (
        before.dtype,
        before.device,
        before.dim(),
    ):
        return False
    pairs = [*zip(value.shape, before.shape), *zip(value.stride(), before.stride())]
    return all(statically_known_true(a == b) for a, b in pairs)


def _is_written(node: Node) -> bool:
    return any(
        isinstance(user.target, OpOverload) and user.target._schema.is_mutable
        for user in node.users
    )


def _is_own(source: Node, reader: Node) -> bool:
    """Whether the source is a result of an operator that only the reader reads, so that
    the copy is not needed."""
    if source.op != "call_function" or set(source.users) != {reader}:
        return False
    schema = getattr(source.target, "_schema", None)
    returns = schema.returns if schema else ()
    return bool(returns) and all(one.alias_info is None for one in returns)

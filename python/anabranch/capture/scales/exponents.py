"""Reads scales of float8_e8m0fnu, which have exponents alone, from their bytes.

    Before: %t = permute(%scales, [1, 0])                   float8_e8m0fnu
            %f = _to_copy(%t, dtype=float32)
    After:  %b = view.dtype(%scales, uint8)
            %t = permute(%b, [1, 0])
            %f = where(%t == 255, nan, the float of the bits %t << 23)

So a graph with such scales as arguments or weights is a program: no kernel has to know
the dtype, and the bytes are read where they lie. A graph that makes such scales of
floats, or returns them, stays as it is, and PyTorch runs it."""

from __future__ import annotations

import torch
import torch.fx
from torch import Tensor
from torch.fx import Node

from ...describe.tensors import is_scales
from ..handmade import complete

aten = torch.ops.aten
# The bits of 2^-127, which is no normal float32, and of a NaN.
LEAST, NAN = 0x400000, 0x7FC00000
MANTISSA = 23  # bits

# Operators that move elements and read none: their first argument is the tensor.
_MOVES = frozenset(
    (
        aten.alias.default,
        aten.clone.default,
        aten.expand.default,
        aten.permute.default,
        aten.reshape.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
        aten._unsafe_view.default,
        aten.index.Tensor,
        aten.index_select.default,
        aten.embedding.default,
    )
)
_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def rewrite(module: torch.fx.GraphModule) -> None:
    """Rewrites a complete graph."""
    scales = [node for node in module.graph.nodes if is_scales(node)]
    if not scales or not all(map(_has_rule, scales)):
        return
    for node in scales:
        _rewrite(module.graph, node)
    for node in reversed(scales):
        if node.op == "call_function":
            module.graph.erase_node(node)
    complete(module)


def _has_rule(node: Node) -> bool:
    """Whether the node has bytes, and all that read it take them."""
    made = node.op in ("placeholder", "get_attr") or _is_move(node)
    if not made and not (node.target is aten.view.dtype and _is_byte(node.args[0])):
        return False
    return all(_is_move(u) or _reads(u) or _asserts(u) for u in node.users)


def _is_move(node: Node) -> bool:
    return node.op == "call_function" and node.target in _MOVES and is_scales(node)


def _is_byte(node: object) -> bool:
    return isinstance(node, Node) and node.meta["val"].dtype == torch.uint8


def _asserts(node: Node) -> bool:
    """Whether the node checks what the trace found, as torch.export's do."""
    return node.target is aten._assert_tensor_metadata.default


def _reads(node: Node) -> bool:
    if node.target is aten._to_copy.default:
        return node.kwargs.get("dtype") in _FLOATS
    return node.target is aten.view.dtype and node.args[1] in (torch.uint8, torch.int8)


def _rewrite(graph: torch.fx.Graph, node: Node) -> None:
    with graph.inserting_after(node):
        if node.op in ("placeholder", "get_attr"):
            codes = graph.call_function(aten.view.dtype, (node, torch.uint8))
        elif node.target is aten.view.dtype:
            codes = node.args[0]
        else:
            codes = graph.call_function(node.target, node.args, dict(node.kwargs))
            codes.meta = {key: node.meta[key] for key in node.meta if key != "val"}
    for user in list(node.users):
        if user is codes:
            continue
        if _is_move(user):
            user.replace_input_with(node, codes)
            continue
        if _asserts(user):
            graph.erase_node(user)
            continue
        with graph.inserting_before(user):
            read = _read(graph, user, codes)
        read.meta = {key: user.meta[key] for key in user.meta if key != "val"}
        user.replace_all_uses_with(read)
        graph.erase_node(user)


def _read(graph: torch.fx.Graph, user: Node, codes: Node) -> Node:
    if user.target is aten.view.dtype:
        return graph.call_function(aten.view.dtype, (codes, user.args[1]))
    return graph.call_function(values, (codes, user.kwargs["dtype"]))


def values(codes: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of bytes of float8_e8m0fnu: 2^(code - 127), and NaN for 255."""
    code = codes.to(torch.int32)
    bits = torch.where(code == 0, LEAST, code << MANTISSA)
    return torch.where(code == 255, NAN, bits).view(torch.float32).to(dtype)

"""Shows that a graph of symbolic sizes computes sizes of zero and one like all others.

Dynamo takes a symbolic size for two or more, and guards it. A trace may use this: it
drops a `squeeze`, gives `x[:2]` two rows, or divides by a size less one. A graph without
such a place serves zero and one too, for callers that have dropped the guards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.fx

from . import auto_functionalized
from .symbol_table import SMALLEST_SYMBOLIC
from .symbols import Unsupported, same

# Operators that treat all sizes alike. Their results have the sizes of the operands, or
# sums and products of them.
_ALIKE = frozenset(
    {
        *("alias", "clone", "contiguous", "copy", "detach", "_to_copy", "to"),
        *("lift_fresh", "lift_fresh_copy", "view", "view_copy", "_unsafe_view"),
        *("reshape", "_reshape_alias", "permute", "transpose", "t", "unsqueeze"),
        *("cat", "stack", "flip", "repeat", "tril", "triu"),
        *("empty", "empty_like", "empty_permuted", "empty_strided", "full"),
        *("full_like", "ones", "ones_like", "zeros", "zeros_like", "scalar_tensor"),
        *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros"),
        *("arange", "addmm", "addmv", "baddbmm", "bmm", "linear", "mm", "mv", "dot"),
        *("matmul", "_int_mm", "layer_norm", "native_layer_norm", "rms_norm"),
        *("_fused_rms_norm", "_softmax", "softmax", "_log_softmax", "log_softmax"),
        *("sum", "mean", "any", "all", "prod", "cumsum", "cumprod", "embedding"),
        *("index_select", "gather", "index_put", "index_copy", "index_add", "one_hot"),
        *("_scaled_dot_product_flash_attention_for_cpu",),
        *("scaled_dot_product_attention", "sym_size", "sym_numel", "sym_stride"),
    }
)
# Operators that broadcast, besides those that PyTorch tags as pointwise.
_BROADCASTING = frozenset({"where", "expand", "index", "masked_fill", "lerp"})
# Operators that look at the sizes of these dimensions, which an argument names.
_ALONG = {
    **dict.fromkeys(("amax", "amin", "argmax", "argmin", "max", "min"), "dim"),
    **dict.fromkeys(("aminmax", "logsumexp", "var", "std", "var_mean"), "dim"),
    **dict.fromkeys(("select", "slice", "squeeze", "unbind", "split"), "dim"),
    **dict.fromkeys(("split_with_sizes", "chunk", "narrow", "sort", "topk"), "dim"),
    **dict.fromkeys(("select_scatter", "slice_scatter", "roll", "std_mean"), "dim"),
}
# Operators that look at the sizes of all dimensions but the first two.
_SPATIAL = frozenset(
    {
        *("convolution", "native_group_norm", "_native_batch_norm_legit_no_training"),
        *("avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "constant_pad_nd"),
        *("max_pool3d_with_indices", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
    }
)
# Beginnings of the names of operators whose decomposition asks whether a size is one.
_ASKING = ("linspace", "logspace", "_upsample", "upsample", "grid_sampler", "cdist")


def exception(module: torch.fx.GraphModule) -> torch.fx.Node | None:
    """The first node whose result for a size of zero or one may differ from what the
    graph computes; None: the graph computes these sizes like all others."""
    for node in module.graph.nodes:
        if node.op == "call_function" and not _is_alike(node):
            return node
    return None


def _is_alike(node: torch.fx.Node) -> bool:
    if auto_functionalized.is_writing(node):
        return _writes_alike(node)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return False  # its subgraphs may look at sizes
    operands = [n.meta.get("val") for n in node.all_input_nodes]
    results = list(_tensors([node.meta.get("val")]))
    sizes = [size for t in (*_tensors(operands), *results) for size in t.shape]
    if not any(map(_is_assumed, sizes)):
        return True
    if not all(_stays_size(size) for result in results for size in result.shape):
        return False
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", "") == "getitem"
    if target.namespace not in ("aten", "prims"):
        return True  # PyTorch runs it, and it computes its own sizes
    original = getattr(node.meta.get("original_aten"), "_opname", "")
    return not original.startswith(_ASKING) and _follows_rule(node, target, results)


def _writes_alike(node: torch.fx.Node) -> bool:
    """Whether a call of an operator that writes takes the same views of its arguments
    for all sizes. PyTorch runs the operator, which computes its own sizes."""
    try:
        call = auto_functionalized.read(node)
    except Unsupported:
        return False
    return all(
        argument.view is None
        or _covers(argument.view, call.memories[argument.memory].value)
        for argument in call.written()
    )


def _covers(view: auto_functionalized.View, base: torch.Tensor) -> bool:
    """Whether a view has all the symbols of its base in its sizes and begins at a known
    place: it then shrinks and grows with the base."""
    sizes = {symbol for size in view.sizes for symbol in _assumed_symbols(size)}
    return (
        {symbol for size in base.shape for symbol in _assumed_symbols(size)} <= sizes
        and all(map(_stays_size, view.sizes))
        and not _is_assumed(view.offset)
    )


def _follows_rule(
    node: torch.fx.Node, target: torch._ops.OpOverload, results: list[torch.Tensor]
) -> bool:
    name = target._opname.removesuffix("_")  # an operator that writes is like another
    operands = list(_tensors(n.meta.get("val") for n in node.all_input_nodes))
    if name in _ALIKE:
        return True
    if name == "index":
        operands = operands[1:]
        return not operands or _are_aligned(operands, _broadcast(operands))
    if name in _BROADCASTING or torch.Tag.pointwise in target.tags:
        return all(_are_aligned(operands, result.shape) for result in results)
    if name in _SPATIAL:
        return not any(map(_is_assumed, operands[0].shape[2:]))
    if name in _ALONG and operands:
        return _looks_elsewhere(node, target, operands[0], results)
    return False


def _looks_elsewhere(
    node: torch.fx.Node,
    target: torch._ops.OpOverload,
    operand: torch.Tensor,
    results: list[torch.Tensor],
) -> bool:
    """Whether the dimensions that an operator looks at have sizes that are known, or
    that it keeps."""
    dims = _argument(node, target, _ALONG[target._opname])
    if dims is None or dims == []:
        dims = list(range(operand.dim()))
    dims = [dims] if isinstance(dims, int) else dims
    kept = zip(results[0].shape, operand.shape)
    keeps = target._opname == "slice" and all(same(*sizes) for sizes in kept)
    return keeps or not any(_is_assumed(operand.shape[dim]) for dim in dims)


def _argument(
    node: torch.fx.Node, target: torch._ops.OpOverload, name: str
) -> int | list[int] | None:
    """The value of an argument that is a dimension or several; None: there is none."""
    for argument, value in zip(target._schema.arguments, node.args):
        if argument.name.startswith(name):
            return value  # type: ignore[return-value]
    for argument in target._schema.arguments:
        if argument.name.startswith(name):
            return node.kwargs.get(argument.name, argument.default_value)  # type: ignore[return-value]
    return None


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _broadcast(operands: Sequence[torch.Tensor]) -> list[Any]:
    """The sizes to which operands are broadcast in the trace."""
    rank = max(operand.dim() for operand in operands)
    sizes: list[Any] = [1] * rank
    for operand in operands:
        for place, size in enumerate(operand.shape, rank - operand.dim()):
            sizes[place] = size if _is_one(sizes[place]) else sizes[place]
    return sizes


def _are_aligned(operands: Sequence[torch.Tensor], sizes: Sequence[Any]) -> bool:
    """Whether each size of an operand is one, or has the spelling of the size that it is
    broadcast to: then all of them are zero, or one, at once."""
    return all(
        _is_one(own) or _spelling(own) == _spelling(size)
        for operand in operands
        if operand.dim() <= len(sizes)
        for own, size in zip(reversed(operand.shape), reversed(sizes))
    )


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _spelling(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _assumed_symbols(size: Any) -> list[Any]:
    """The symbols of a size that the trace took for two or more."""
    if not isinstance(size, torch.SymInt):
        return []
    ranges = size.node.shape_env.var_to_range
    return [
        symbol
        for symbol in size.node.expr.free_symbols
        if symbol in ranges and ranges[symbol].lower == SMALLEST_SYMBOLIC
    ]


def _is_assumed(size: Any) -> bool:
    return bool(_assumed_symbols(size))


def _stays_size(size: Any) -> bool:
    """Whether a size is a sum of products of symbols, which zero and one leave at zero
    or more."""
    symbols = _assumed_symbols(size)
    if not symbols or size.node.expr.is_Symbol:
        return True
    expr = size.node.expr
    if not expr.is_polynomial(*symbols):
        return False
    values = (expr.subs(dict.fromkeys(symbols, number)) for number in (0, 1))
    return not any(value.is_number and value < 0 for value in values)

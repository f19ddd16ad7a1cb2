"""The built-in fusions: a sequence of torch_npu's operators becomes the joined
operator, and a product of batches becomes the operator that also transposes.

    Before: %y, _, %x = npu_add_rms_norm(%a, %b, %gamma); %q, %s = npu_dynamic_quant(%y)
    After:  %q, _, %x, %s, _ = npu_add_rms_norm_dynamic_quant(%a, %b, %gamma)

A joined operator gives the bits of the single ones. So a fusion shows in dumps and in
the counts of `fusion_result.json`, and changes no result."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from anabranch.extension import complete_nodes

from ..log import logger
from ..operators.definition import COMPOSITIONS
from ..operators.norms import dynamic_norms, rms_norm_quant  # noqa: F401 - define operators
from ..operators.products import weights  # noqa: F401 - so does this
from ..operators.quantisation import quantise  # noqa: F401 - and this
from .stream_scopes import streams

__all__ = ["FUSIONS", "MATCHED", "Count", "apply_fusions", "lower_operators"]


_npu = torch.ops.npu
_aten = torch.ops.aten

_NORM = _npu.npu_add_rms_norm.default
_DYNAMIC = _npu.npu_dynamic_quant.default
_QUANTIZE = _npu.npu_quantize.default
_TRANSPOSE_BATCHMATMUL = _npu.npu_transpose_batchmatmul.default

# Operators that fusions look for. The trace keeps them whole; `lower_operators` takes
# them apart afterwards.
MATCHED: tuple[OpOverload, ...] = (_NORM, _DYNAMIC, _QUANTIZE)
_JOINED: tuple[OpOverload, ...] = (
    _npu.npu_add_rms_norm_dynamic_quant.default,
    _npu.npu_add_rms_norm_cast.default,
    _npu.npu_add_rms_norm_quant.default,
    _TRANSPOSE_BATCHMATMUL,
)

_FLATTENS = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)
_CASTS = (_aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_WRONG = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
_HALVES = (torch.float16, torch.bfloat16)
_BYTES_OF_A_ROW = 32
_MATRIX_UNIT = 128
_MOST_INNER = 65536


@dataclasses.dataclass
class Count:
    """How often a fusion's pattern was found, and how often it was applied."""

    matched: int = 0
    applied: int = 0


class _Refused(Exception):
    """The pattern was found, but must stay as it is; the message says why."""


@dataclasses.dataclass(frozen=True)
class _Fusion:
    """A fusion. `last` are the operators that end its pattern.

    `find` gets a node that may end a match. It returns all nodes of the match and a
    function that replaces them; None: there is no match. It raises _Refused for a match
    that must stay.
    """

    last: tuple[Any, ...]
    find: Callable[[Node], tuple[list[Node], Callable[[], None]] | None]
    captures_only: bool = False


# Helpers of the patterns


def _argument(node: Node, name: str) -> Any:
    """The argument of this name, or its default."""
    assert isinstance(node.target, OpOverload)
    for place, spec in enumerate(node.target._schema.arguments):
        if spec.name == name:
            if place < len(node.args):
                return node.args[place]
            return node.kwargs.get(name, spec.default_value)
    raise KeyError(name)


def _item(node: Any) -> tuple[Node, int] | None:
    """The operator and the index, for a node that is one of several results."""
    if isinstance(node, Node) and node.target is operator.getitem:
        source, place = node.args
        if isinstance(source, Node) and isinstance(place, int):
            return source, place
    return None


def _results(node: Node) -> dict[int, Node]:
    return {item[1]: user for user in node.users if (item := _item(user))}


def _norm_of(node: Any) -> Node | None:
    """The norm that has this node as its first result."""
    found = _item(node)
    return found[0] if found and found[0].target is _NORM and found[1] == 0 else None


def _flattened(node: Any) -> tuple[Any, Node | None]:
    """The value that a node reshapes, and the node; or the node itself, and None."""
    if isinstance(node, Node) and node.target in _FLATTENS:
        return node.args[0], node
    return node, None


def _shape(node: Node) -> list[Any]:
    return list(node.meta["val"].shape)


def _same(size: Any, other: Any) -> bool:
    """Whether two sizes are equal for all symbols. Adds no guard."""
    return statically_known_true(size == other)


def _only_read_by(node: Node, *readers: Node) -> None:
    others = [user for user in node.users if user not in readers]
    if others:
        raise _Refused(f"{others[0].name} reads {node.name} too")


def _unread_root(norm: Node) -> None:
    """Refuses a norm whose reciprocal root is read: the joined operators do not return
    it."""
    if 1 in _results(norm):
        raise _Refused(f"the reciprocal root of {norm.name} is read")


def _latest(norm: Node, *others: Any) -> Node:
    """The last node of the norm and the joined operator's other operands; the joined
    operator comes after it. Refused if the sum is read before."""
    order = {node: place for place, node in enumerate(norm.graph.nodes)}
    read = (norm, *(n for n in others if isinstance(n, Node)))
    found = max(read, key=order.__getitem__)
    total = _results(norm).get(2)
    early = [n for n in (total.users if total else ()) if order[n] < order[found]]
    if early:
        raise _Refused(f"{early[0].name} reads the sum before {found.name} is there")
    return found


def _joined(
    norm: Node, latest: Node, target: OpOverload, *more: Any, **named: Any
) -> list[Node]:
    """Inserts the joined operator after a node, and returns its results."""
    graph = norm.graph
    args = [_argument(norm, name) for name in ("x1", "x2", "gamma")]
    named["epsilon"] = _argument(norm, "epsilon")
    with graph.inserting_after(latest):
        made = _call(graph, target, (*args, *more), named)
    items: list[Node] = []
    for place in range(len(target._schema.returns)):
        with graph.inserting_after(items[-1] if items else made):
            items.append(graph.call_function(operator.getitem, (made, place)))
    return items


def _call(
    graph: torch.fx.Graph, target: OpOverload, args: Any, kwargs: dict[str, Any]
) -> Node:
    """A call of the joined operator. Refused if it takes no operands like these, though
    the single operators do."""
    made = graph.call_function(target, args, kwargs)
    try:
        made.meta["val"] = _value(made)
    except _WRONG as why:
        graph.erase_node(made)
        raise _Refused(f"the joined operator would raise: {why}") from why
    return made


def _take(item: Node, instead_of: Node | None, shape: Any = None) -> None:
    """Makes users of the node read this result, reshaped to `shape`."""
    if instead_of is None:
        return
    if shape is not None:
        with item.graph.inserting_before(instead_of):
            item = item.graph.call_function(_aten.reshape.default, (item, shape))
    instead_of.replace_all_uses_with(item)


# The patterns


def _dynamic_quant(node: Node) -> Any:
    flat = node.args[0]
    y, view = _flattened(flat)
    norm = _norm_of(y)
    if norm is None:
        return None
    _only_read_by(y, view or node)
    if view is not None:
        _only_read_by(view, node)
        _merges_the_first_two(y, view)
    _unread_root(norm)
    for name in ("group_index", "dst_type"):
        if _argument(node, name) is not None:
            raise _Refused(f"{name} is given")
    smooth = _argument(node, "smooth_scales")

    latest = _latest(norm, smooth)

    def replace() -> None:
        total, wanted = _results(norm).get(2), _results(node)
        made = _joined(
            norm,
            latest,
            _JOINED[0],
            smooth_scale1=smooth,
            output_mask=[True, False],
        )
        shape = None if view is None else view.args[1]
        rows = shape[:-1] if isinstance(shape, list | tuple) else None
        _take(made[0], wanted.get(0), shape)
        _take(made[3], wanted.get(1), rows)
        _take(made[2], total)

    return [norm, y, *([view] if view else []), latest, node], replace


def _merges_the_first_two(y: Node, view: Node) -> None:
    before, after = _shape(y), _shape(view)
    if len(before) != 3 or len(after) != 2 or not _same(after[-1], before[-1]):
        raise _Refused(f"{view.name} merges other dimensions than the first two")


def _cast(node: Node) -> Any:
    y, view = _flattened(node.args[0])
    norm = _norm_of(y)
    if norm is None or node.meta["val"].dtype != torch.float32:
        return None
    if view is not None:
        _only_read_by(view, node)
        if len(_shape(view)) != 2 or not _same(_shape(view)[-1], _shape(y)[-1]):
            raise _Refused(f"{view.name} splits the last dimension")
    _only_read_by(y, view or node, y.graph.output_node())

    def replace() -> None:
        results = _results(norm)
        made = _joined(norm, norm, _JOINED[1])
        _take(made[0], node, None if view is None else view.args[1])
        for place, result in results.items():
            _take(made[place + 1], result)

    return [norm, y, *([view] if view else []), node], replace


def _quantize(node: Node) -> Any:
    y = node.args[0]
    norm = _norm_of(y)
    if norm is None:
        return None
    assert isinstance(y, Node)
    _only_read_by(y, node)
    _unread_root(norm)
    _check_quantize(node, norm)

    scales, points = (_argument(node, name) for name in ("scales", "zero_points"))
    latest = _latest(norm, scales, points)

    def replace() -> None:
        total = _results(norm).get(2)
        mode = _argument(node, "div_mode")
        made = _joined(norm, latest, _JOINED[2], scales, points, axis=-1, div_mode=mode)
        _take(made[0], node)
        _take(made[2], total)

    return [norm, y, latest, node], replace


def _check_quantize(node: Node, norm: Node) -> None:
    x = _argument(norm, "x1").meta["val"]
    if x.dtype not in _HALVES:
        raise _Refused(f"the norm is of {x.dtype}")
    width = x.shape[-1]
    if not isinstance(width, int) or width * x.element_size() % _BYTES_OF_A_ROW:
        raise _Refused(
            f"a row is not known to be a multiple of {_BYTES_OF_A_ROW} bytes"
        )
    if _argument(node, "axis") not in (-1, x.dim() - 1):
        raise _Refused("the axis is not the last")
    if node.meta["val"].dtype != torch.int8:
        raise _Refused(f"the result is {node.meta['val'].dtype}")
    points = _argument(node, "zero_points")
    if points is not None and points.meta["val"].element_size() == 1:
        raise _Refused("the zero points have 8 bits")
    gamma, scales = _argument(norm, "gamma"), _argument(node, "scales")
    if len(_shape(gamma)) != len(_shape(scales)) or not all(
        map(_same, _shape(gamma), _shape(scales))
    ):
        raise _Refused("gamma and scales have other shapes")


def _swaps_first_two(node: Any) -> bool:
    """Whether a node swaps the first two of three dimensions."""
    if not isinstance(node, Node):
        return False
    if node.target is _aten.permute.default:
        return [*node.args[1]] == [1, 0, 2]  # type: ignore[misc]
    dims = {dim % 3 for dim in node.args[1:3] if isinstance(dim, int)}
    return node.target is _aten.transpose.int and dims == {0, 1}


def _bmm(node: Node) -> Any:
    if not _swaps_first_two(node):
        return None
    product, between = node.args[0], []
    while isinstance(product, Node) and _is_same_shape(product):
        between.append(product)
        product = product.args[0]
    if not isinstance(product, Node) or product.target is not _aten.bmm.default:
        return None
    for inner, reader in zip([*between, product], [node, *between]):
        _only_read_by(inner, reader)
    left, right = product.args
    transposed = _swaps_first_two(left)
    assert isinstance(left, Node)
    assert isinstance(right, Node)
    _check_bmm(left, right, transposed)

    def replace() -> None:
        first = left.args[0] if transposed else left
        with node.graph.inserting_before(node):
            orders = {"perm_x1": [1, 0, 2] if transposed else [0, 1, 2]}
            made = _call(node.graph, _TRANSPOSE_BATCHMATMUL, (first, right), orders)
        node.replace_all_uses_with(made)

    return [*([left] if transposed else []), product, *between, node], replace


def _is_same_shape(node: Node) -> bool:
    if node.target not in (*_FLATTENS, _aten.expand.default):
        return False
    source = node.args[0]
    assert isinstance(source, Node)
    before, after = _shape(source), _shape(node)
    if len(before) != len(after) or not all(map(_same, before, after)):
        raise _Refused(f"{node.name} changes the shape")
    return True


def _check_bmm(left: Node, right: Node, transposed: bool) -> None:
    values = [left.meta["val"], right.meta["val"]]
    if any(v.dtype not in (*_HALVES, torch.float32) for v in values):
        raise _Refused(f"the product is of {values[0].dtype}")
    if not all(isinstance(size, int) for v in values for size in v.shape):
        raise _Refused("sizes are symbolic")
    if any(v.shape[-1] % _MATRIX_UNIT for v in values):
        raise _Refused(f"a last dimension is no multiple of {_MATRIX_UNIT}")
    inner = values[0].shape[-1] * (values[0].shape[0] if transposed else 1)
    if inner >= _MOST_INNER:
        raise _Refused(f"{inner} inner elements are {_MOST_INNER} or more")


FUSIONS = {
    "AddRmsNormDynamicQuantFusionPass": _Fusion((_DYNAMIC,), _dynamic_quant),
    "AddRmsNormCastFusionPass": _Fusion(_CASTS, _cast),
    "AddRmsNormQuantFusionPass": _Fusion((_QUANTIZE,), _quantize, captures_only=True),
    "TransposeBatchMatMulFusionPass": _Fusion(
        (_aten.permute.default, _aten.transpose.int), _bmm, captures_only=True
    ),
}


# The passes


def apply_fusions(
    module: torch.fx.GraphModule, captures: bool, is_on: Callable[[str], bool]
) -> dict[str, Count]:
    """Applies the fusions that `is_on` allows, each over the whole graph. Returns the
    counts of those whose pattern was found."""
    counts: dict[str, Count] = {}
    for name, fusion in FUSIONS.items():
        if is_on(name) and (captures or not fusion.captures_only):
            count = _apply(module, name, fusion)
            if count.matched:
                counts[name] = count
    if any(count.applied for count in counts.values()):
        module.graph.eliminate_dead_code()
        complete_nodes(module)
    return counts


def _apply(module: torch.fx.GraphModule, name: str, fusion: _Fusion) -> Count:
    count = Count()
    for node in list(module.graph.nodes):
        if node.target not in fusion.last or not node.users:
            continue
        try:
            found = fusion.find(node)
            if found is None:
                continue
            nodes, replace = found
            _check_streams(nodes)
            before = set(module.graph.nodes)
            replace()
        except _Refused as why:
            count.matched += 1
            logger.debug("%s leaves %s as it is: %s", name, node.name, why)
            continue
        count.matched += 1
        # A later match may read these nodes, so they have values at once.
        for made in [n for n in module.graph.nodes if n not in before]:
            if "val" not in made.meta:
                made.meta["val"] = _value(made)
            for key in ("custom", "stack_trace", "nn_module_stack", "seq_nr"):
                if key in node.meta:
                    made.meta[key] = node.meta[key]
        count.applied += 1
    return count


def _value(node: Node) -> Any:
    """The fake value that the operator gives, as it stays whole in the graph."""
    args, kwargs = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda n: n.meta["val"]
    )
    mode = detect_fake_mode([n.meta["val"] for n in node.all_input_nodes])
    assert callable(node.target)
    with mode or contextlib.nullcontext(), torch.no_grad():
        return node.target(*args, **kwargs)


def _check_streams(nodes: list[Node]) -> None:
    wanted = set(nodes)
    found = {stream for node, stream in streams(nodes[0].graph) if node in wanted}
    if len(found) > 1:
        raise _Refused(
            "Cross-stream operation detected in pattern match. The streams are"
            f" {sorted(map(str, found))}. Fusion is not supported for cross-stream"
            " operations."
        )


def lower_operators(module: torch.fx.GraphModule) -> bool:
    """Takes apart the operators that the trace kept whole for the fusions, and the
    joined ones. Returns whether there was one."""
    found = {n.target for n in module.graph.nodes if n.target in (*MATCHED, *_JOINED)}
    if found:
        complete_nodes(module, {target: COMPOSITIONS[target] for target in found})
    return bool(found)

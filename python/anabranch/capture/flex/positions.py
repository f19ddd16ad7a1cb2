"""Evaluates a function of one position (batch, head, query, key) at all positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

# Batches, heads, queries and keys, each along its own dimension of four.
Places = tuple[Tensor, Tensor, Tensor, Tensor]

# Operators of single elements that PyTorch does not mark as such.
_POINTWISE = (aten._to_copy.default, torch.ops.prims.convert_element_type.default)


def all_of(query: Tensor, key: Tensor) -> Places:
    sizes = (*query.shape[:3], key.shape[2])

    def along(dim: int) -> Tensor:
        shape = [1] * 4
        shape[dim] = -1
        return torch.arange(sizes[dim], device=query.device).view(shape)

    return along(0), along(1), along(2), along(3)


def is_always_true(body: GraphModule) -> bool:
    """Whether a mask function, as PyTorch's for no mask, is a constant."""
    result = body.graph.output_node().args[0]
    return (
        isinstance(result, Node)
        and result.target in (aten.full.default, aten.scalar_tensor.default)
        and result.args in (([], True), (True,))
    )


def evaluate(
    body: GraphModule,
    places: Places,
    captured: Sequence[Any],
    scores: Tensor | None = None,
) -> Tensor:
    """The function's values, with the four dimensions of the positions or ones."""
    first = [] if scores is None else [scores]
    if broadcasts(body, len(first) + 4):
        return AtPositions(body, places).run(*first, *places, *captured)
    return _mapped(body, first, places, captured)


def broadcasts(body: GraphModule, points: int) -> bool:
    """Whether the function treats its first `points` arguments as single elements, so
    that it has the same meaning for tensors of them."""
    nodes = list(body.graph.nodes)
    varying = set(nodes[:points])
    for node in nodes[points:]:
        if node.op != "output" and not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
            if not _is_of_elements(node, varying):
                return False
    return True


def _is_of_elements(node: Node, varying: set[Node]) -> bool:
    target: Any = node.target
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.dim():
        return False
    if target is aten.index.Tensor:
        # An index for each dimension gives single elements.
        return node.args[0] not in varying and None not in node.args[1]
    return target in _POINTWISE or torch.Tag.pointwise in getattr(target, "tags", ())


def _mapped(
    body: GraphModule, first: list[Tensor], places: Places, captured: Sequence[Any]
) -> Tensor:
    """The function under torch.vmap, which takes any operator."""

    def call(*points: Any) -> Any:
        return body(*points, *captured)

    function = call
    mapped = (0,) * len(first)
    for dim in (3, 2, 1, 0):
        own = tuple(0 if place == dim else None for place in range(4))
        function = torch.vmap(function, (*mapped, *own))
    return function(*first, *(place.flatten() for place in places))


class AtPositions(Interpreter):
    """Runs a function whose arguments are all positions."""

    def __init__(self, body: GraphModule, places: Places) -> None:
        super().__init__(body)
        self.places = places

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is aten.index.Tensor:
            found = self._read_in_order(*args)
            if found is not None:
                return found
        return super().call_function(target, args, kwargs)

    def _read_in_order(self, table: Tensor, indices: Sequence[Any]) -> Tensor | None:
        """A view of a table whose indices are whole dimensions of positions: no index is
        read. None: the table is indexed in another way, or may be too small."""
        dims = [dim for index in indices for dim in self._dimensions(index)]
        if len(dims) != len(indices) or len(set(dims)) != len(dims):
            return None
        for dim, place in enumerate(dims):
            count = self.places[place].shape[place]
            if not statically_known_true(table.shape[dim] >= count):
                return None
            table = table.narrow(dim, 0, count)
        order = sorted(range(len(dims)), key=lambda dim: dims[dim])
        shape: list[Any] = [1] * 4
        for place in dims:
            shape[place] = self.places[place].shape[place]
        return table.permute(order).reshape(shape)

    def _dimensions(self, index: Any) -> list[int]:
        """The dimension of positions that an index is, if it is one."""
        return [dim for dim, place in enumerate(self.places) if place is index]

"""Makes products of a weight in FRACTAL_NZ read the weight's blocks.

Before: %t = permute(%w, [1, 0]); %y = mm(%x, %t)
After:  %y = mm(%x, from_blocks(%b)), where the caller of the graph adds %b, the
        blocks of %w, to its arguments"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node

from anabranch.extension import InputSource, input_labels

from ..operators.memory.formats import blocks_of, from_blocks, has_blocks

__all__ = ["BlockedWeights", "labels"]

aten = torch.ops.aten

# For each product: which argument is the weight, and whether it is transposed.
_WEIGHTS = {
    aten.mm.default: (1, False),
    aten.addmm.default: (2, False),
    aten.linear.default: (1, True),
}
_FLOATS = (torch.bfloat16, torch.float16)


def labels(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> frozenset[str]:
    """The labels of a Dynamo graph's inputs that are matrices of bf16 and f16 in
    FRACTAL_NZ."""
    if not any(map(_is_blocked, example_inputs)):
        return frozenset()
    named = zip(input_labels(module, example_inputs), example_inputs)
    return frozenset(label for label, value in named if _is_blocked(value))


def _is_blocked(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.dtype in _FLOATS and has_blocks(value)
    )


@dataclasses.dataclass
class BlockedWeights:
    """A copy of an ATen graph with an input for the blocks of each weight."""

    module: torch.fx.GraphModule
    sources: Sequence[InputSource]
    # for each weight: its argument, and whether its transpose is read
    places: list[tuple[int, bool]]

    @staticmethod
    def find(
        module: torch.fx.GraphModule,
        sources: Sequence[InputSource],
        known: frozenset[str],
    ) -> BlockedWeights | None:
        """The copy; None if no product has a weight whose label is among the `known`."""
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(module.graph, {}))
        made = BlockedWeights(torch.fx.GraphModule(module, graph), list(sources), [])
        inputs = graph.find_nodes(op="placeholder")
        for place, (node, source) in enumerate(zip(inputs, sources)):
            is_live = source.label in known and source.constant is None
            if is_live and _is_static_matrix(node.meta.get("val")):
                made._read_blocks(place, node)
        if not made.places:
            return None
        graph.eliminate_dead_code()
        made.module.recompile()
        return made

    def _read_blocks(self, place: int, weight: Node) -> None:
        inputs: dict[bool, Node] = {}
        for product, argument, transposed in list(_products(weight)):
            if transposed not in inputs:
                inputs[transposed] = self._input(place, weight, transposed)
            rows, columns = weight.meta["val"].shape
            if transposed:
                rows, columns = columns, rows
            as_it_was = product.target is aten.linear.default
            read = _read_transposed if as_it_was else from_blocks
            with product.graph.inserting_before(product):
                value = product.graph.call_function(
                    read, (inputs[transposed], rows, columns)
                )
            value.meta = {k: v for k, v in product.meta.items() if k == "custom"}
            product.update_arg(argument, value)

    def _input(self, place: int, weight: Node, transposed: bool) -> Node:
        """Adds an input after all others."""
        graph = self.module.graph
        last = graph.find_nodes(op="placeholder")[-1]
        with graph.inserting_after(last):
            made = graph.placeholder(
                f"{weight.name}_{'transposed_' * transposed}blocks"
            )
        made.meta["val"] = blocks_of(weight.meta["val"], transposed)
        self.places.append((place, transposed))
        self.sources = [*self.sources, InputSource(made.name)]
        return made

    def wrap(self, executable: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the executable of `module`: it takes the arguments of the original
        graph."""

        def call(arguments: list[Any]) -> Any:
            blocks = [
                blocks_of(arguments[at], transposed) for at, transposed in self.places
            ]
            arguments.extend(blocks)
            return executable(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _read_transposed(blocks: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    return from_blocks(blocks, rows, columns).t()


def _is_static_matrix(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 2
        and all(isinstance(size, int) and size > 0 for size in value.shape)
    )


def _products(weight: Node) -> Iterator[tuple[Node, int, bool]]:
    """The products of a weight: the node, which argument the weight is, and whether the
    product multiplies by its transpose."""
    for user in weight.users:
        if _is_transpose(user):
            for product in user.users:
                yield from _roles(product, user, True)
        else:
            yield from _roles(user, weight, False)


def _roles(product: Node, operand: Node, transposed: bool) -> Iterator[Any]:
    place, transposes = _WEIGHTS.get(product.target, (-1, False))  # type: ignore[call-overload]
    if place >= 0 and product.args[place] is operand:
        yield product, place, transposed != transposes


def _is_transpose(node: Node) -> bool:
    if node.target is aten.permute.default:
        return list(node.args[1]) in ([1, 0], [-1, -2])  # type: ignore[arg-type]
    return node.target is aten.t.default

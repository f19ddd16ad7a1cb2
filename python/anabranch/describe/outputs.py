"""Describes the outputs of a graph, and the views that a caller makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..location import location
from .aliases import Aliases
from .arguments import Arguments
from .description import OutputView
from .inputs import Inputs
from .regions.continuation import PERMUTED, RunSizes
from .regions.run_numbers import RETURNED
from .symbols import Unsupported, integer
from .tensors import describe, foreign_strides, memory_order
from .views import overlaps


class Outputs:
    """Reads the results of one graph.

    The program returns a result in a simpler form if the result is expanded, or stored
    with its dimensions in another order. Then `nodes` gets a node that makes this form,
    and the caller makes the view. So each result has the strides of the trace: the
    backward graph was traced with those of the tensors that the forward graph saves.
    """

    def __init__(
        self,
        inputs: Inputs,
        arguments: Arguments,
        nodes: list[dict[str, Any]],
        aliases: Aliases,
        standalone: bool,
        run_sizes: RunSizes,
    ) -> None:
        self.entries: list[dict[str, Any]] = []
        self.views: list[OutputView] = []
        self._inputs = inputs
        self._arguments = arguments
        self._nodes = nodes
        self._aliases = aliases
        self._standalone = standalone
        self._run_sizes = run_sizes

    def read(self, node: torch.fx.Node) -> None:
        """Reads the graph's output node."""
        values = node.args[0]
        if isinstance(values, torch.fx.Node):
            values = (values,)
        assert isinstance(values, Sequence)
        tensors = [
            value.meta.get("val") if isinstance(value, torch.fx.Node) else value
            for value in values
        ]
        if any(isinstance(value, float | torch.SymFloat) for value in tensors):
            raise Unsupported("an output that is a float")
        self._aliases.own_outputs(tensors)
        for position, value in enumerate(values):
            if self._arguments.is_nothing(value) or self._is_view(position, value):
                self.entries.append({"none": True})
            elif isinstance(value, int) and not isinstance(value, bool):
                self.entries.append({"expr": value})
            elif isinstance(value, torch.fx.Node):
                if value.meta.get(RETURNED):
                    self.views.append((len(self.entries), "item", []))
                elif (order := value.meta.get(PERMUTED)) is not None:
                    self.views.append((len(self.entries), "permute", order))
                self.entries.append(self._output(value))
            else:
                raise Unsupported(f"an output of the type {type(value).__name__}")
        self.entries += [{"expr": number} for number in self._aliases.numbers]

    def _is_view(self, position: int, value: Any) -> bool:
        """Whether the caller makes this output, as a view of another value."""
        if not isinstance(value, torch.fx.Node) or self._standalone:
            return False
        reference = self._arguments.reference(value)
        if "expr" in reference or reference["ref"] in self._inputs:
            return False
        return self._aliases.take(position, value.meta.get("val"))

    def _output(self, node: torch.fx.Node) -> dict[str, Any]:
        reference = self._arguments.reference(node)
        value = node.meta.get("val")
        if "expr" in reference or reference["ref"] in self._inputs:
            return reference
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the output {node.name} is no tensor")
        if foreign_strides(value) is None or self._standalone:
            return reference
        if self._run_sizes.is_unknown(value):
            return reference  # the tensor that PyTorch made
        shape, strides = list(value.shape), list(value.stride())
        wide = [
            dim
            for dim, stride in enumerate(strides)
            if integer(stride) == 0 and integer(shape[dim]) != 1
        ]
        for dim in wide:
            reference = self._narrowed(node, reference, shape, dim)
        reference = self._ordered(node, reference, shape, strides)
        self._widen(value, wide)
        return reference

    def _widen(self, value: torch.Tensor, wide: Sequence[int]) -> None:
        """Has the caller expand a result: after its copy if the caller makes one."""
        position = len(self.entries)
        known = all(isinstance(value.shape[dim], int) for dim in wide)
        if wide and (not known or self._aliases.lays_out(position)):
            self._aliases.expand(position, value)
        elif wide:
            sizes = [value.shape[d] if d in wide else -1 for d in range(value.dim())]
            self.views.append((position, "expand", sizes))

    def _narrowed(
        self, node: torch.fx.Node, reference: dict[str, Any], shape: list[Any], dim: int
    ) -> dict[str, Any]:
        """Returns an expanded result unexpanded, so that the program writes each
        element once. The caller expands it."""
        shape[dim] = 1
        bounds = {"dim": dim, "start": 0, "end": 1, "step": 1}
        return self._add_view(node, "aten.slice.Tensor", reference, bounds, shape)

    def _ordered(
        self,
        node: torch.fx.Node,
        reference: dict[str, Any],
        shape: list[Any],
        strides: list[Any],
    ) -> dict[str, Any]:
        """Returns a result with the strides that PyTorch promises.

        - Static strides are asked of the program.
        - Symbolic strides that are contiguous in another order of dimensions: the
          program returns the result in that order, and the caller permutes it.
        - Other symbolic strides, those of complex results, which PyTorch would permute
          without moving elements, and those of elements that share memory: the program
          returns the result contiguous, and the caller copies it.
        """
        order = memory_order(shape, strides)
        if order == list(range(len(shape))):
            return reference
        static = all(isinstance(stride, int) for stride in strides)
        if static and not overlaps(shape, strides):
            return reference | {"strides": strides}
        if order is None or (not static and node.meta["val"].is_complex()):
            self._aliases.lay_out(len(self.entries), shape, strides)
            return reference
        inverse = [order.index(dim) for dim in range(len(order))]
        self.views.append((len(self.entries), "permute", inverse))
        permuted = [shape[dim] for dim in order]
        dims = {"dims": order}
        return self._add_view(node, "aten.permute.default", reference, dims, permuted)

    def _add_view(
        self,
        node: torch.fx.Node,
        op: str,
        reference: dict[str, Any],
        arguments: dict[str, Any],
        shape: Sequence[Any],
    ) -> dict[str, Any]:
        sizes = [integer(size) for size in shape]
        name = f"{node.name}_out{len(self.entries)}_{len(self._nodes)}"
        self._nodes.append(
            {
                "name": name,
                "op": op,
                "args": {"self": reference} | arguments,
                "results": [describe(node.meta["val"]) | {"shape": sizes}],
                "loc": location(node),
            }
        )
        return {"ref": name}

"""Describes calls of operators that write their arguments.

An operator gets its memories as eager PyTorch lays them out. An input has its strides in
the program too, and so has what operators write into it. The program lays out all other
tensors row by row. So a memory with other strides has its dimensions permuted before the
call, and permuted back after it. A tensor with gaps is copied to its strides."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from ..location import location
from .arguments import Arguments, Spelled
from .auto_functionalized import (
    Memory,
    Place,
    WritingCall,
    WrittenArgument,
)
from .inputs import Inputs
from .symbols import Unsupported, integer
from .tensors import describe, foreign_strides, memory_order
from .views import overlaps


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a memory is laid out: row by row, unless one of these says something else."""

    # The strides of an input, or of a tensor with gaps.
    strides: list[Any] | None = None
    # The order of the dimensions, slowest first. The program has the memory permuted.
    order: list[int] | None = None


class WritingCalls:
    """Adds nodes for the calls to `nodes`."""

    def __init__(
        self, inputs: Inputs, arguments: Arguments, nodes: list[dict[str, Any]]
    ) -> None:
        self._inputs = inputs
        self._arguments = arguments
        self._nodes = nodes
        # of nodes that are lists: how the description refers to each item
        self._items: dict[Node, list[Any]] = {}
        # names and results of new values that have the strides of an input
        self._strided: set[tuple[str, int]] = set()

    def add(self, node: Node, name: str, call: WritingCall) -> dict[str, Any]:
        """Describes the call as a node of the operator `name`. Returns its entry."""
        layouts = [self._layout(memory) for memory in call.memories]
        writes = [
            self._old(node, number, memory, layout)
            for number, (memory, layout) in enumerate(zip(call.memories, layouts))
        ]
        results = [describe(value) for value in call.returned]
        for memory, layout in zip(call.memories, layouts):
            results.append(_permuted(describe(memory.value), layout.order))
        spelled = {
            key: _spelled(value, call, layouts) for key, value in call.arguments.items()
        }
        entry = {
            "name": _call_name(node),
            "op": name,
            "args": self._arguments.of_values(node, call.operator, spelled),
            "results": results,
            "writes": writes,
            "ordered": True,
            "loc": location(node),
        }
        self._nodes.append(entry)
        self._refer(node, call, layouts)
        return entry

    def set_items(self, node: Node, references: list[dict[str, Any]]) -> None:
        """Makes the description refer to the items of a node as `references`."""
        self._items[node] = references

    def take_item(self, node: Node, source: Node, index: Any) -> bool:
        """Resolves an item of what a call returns. False: `source` is no such list."""
        if source not in self._items:
            return False
        item = self._items[source][index]
        if isinstance(item, list):
            self._items[node] = item
        elif item is not None:
            self._arguments.set_reference(node, item)
        elif node.users and node.meta.get("val") is not None:
            raise Unsupported(f"{node.name} is a view that an operator returns")
        return True

    def _layout(self, memory: Memory) -> Layout:
        value = memory.value
        strides = foreign_strides(value)
        if strides is None:
            return Layout()
        if memory.old is not None and self._has_strides(memory.old):
            return Layout(strides=strides)
        order = memory_order(value.shape, value.stride())
        if order is not None:
            return Layout(order=order)
        static = all(isinstance(n, int) for n in (*value.shape, *strides))
        if not static or overlaps(value.shape, value.stride()):
            raise Unsupported("a write to a tensor whose elements may share memory")
        return Layout(strides=strides)

    def _has_strides(self, node: Node) -> bool:
        """Whether the program has the strides of this tensor."""
        reference = self._arguments.reference(node)
        name = reference["ref"]
        return (
            self._inputs.has_strides(name)
            or (name, reference.get("result", 0)) in self._strided
        )

    def _old(self, node: Node, number: int, memory: Memory, layout: Layout) -> Any:
        """The reference to the memory's value before the call."""
        if memory.old is None:
            return None
        reference = self._arguments.reference(memory.old)
        if layout.strides is not None:
            return reference | {"strides": layout.strides}
        if layout.order is None:
            return reference
        name = f"{node.name}_memory{number}"
        self._permute(node, name, reference, layout.order, describe(memory.value))
        return {"ref": name}

    def _refer(self, node: Node, call: WritingCall, layouts: Sequence[Layout]) -> None:
        """Finds the reference to each item of what the node returns."""
        memories: list[dict[str, Any]] = []
        for number, (memory, layout) in enumerate(zip(call.memories, layouts)):
            result = len(call.returned) + number
            reference: dict[str, Any] = {"ref": _call_name(node), "result": result}
            if layout.strides is not None:
                self._strided.add((_call_name(node), result))
            if (order := layout.order) is not None:
                name = f"{node.name}_value{number}"
                back = [order.index(dim) for dim in range(len(order))]
                described = _permuted(describe(memory.value), order)
                self._permute(node, name, reference, back, described)
                reference = {"ref": name}
            memories.append(reference)

        def refer(place: Place) -> Any:
            if place is None or isinstance(place, list):
                return None if place is None else [refer(item) for item in place]
            if place.memory >= 0:
                return memories[place.memory]
            return {"ref": _call_name(node), "result": place.returned}

        self._items[node] = [refer(place) for place in call.places]
        if not _is_list(node):
            self._arguments.set_reference(node, self._items[node][0])

    def _permute(
        self,
        node: Node,
        name: str,
        reference: dict[str, Any],
        dims: list[int],
        described: dict[str, Any],
    ) -> None:
        self._nodes.append(
            {
                "name": name,
                "op": "aten.permute.default",
                "args": {"self": reference, "dims": dims},
                "results": [_permuted(described, dims)],
                "loc": location(node),
            }
        )


def _is_list(node: Node) -> bool:
    return isinstance(node.meta["val"], tuple | list)


def _call_name(node: Node) -> str:
    """The name of the call. If the node is a tensor, its name is that of the tensor."""
    return node.name if _is_list(node) else f"{node.name}_call"


def _permuted(described: dict[str, Any], order: list[int] | None) -> dict[str, Any]:
    if order is None:
        return described
    return described | {"shape": [described["shape"][dim] for dim in order]}


def _spelled(value: Any, call: WritingCall, layouts: Sequence[Layout]) -> Any:
    """The argument, with spellings in the place of what the operator writes."""
    if isinstance(value, list):
        return [_spelled(item, call, layouts) for item in value]
    if not isinstance(value, WrittenArgument):
        return value
    memory = call.memories[value.memory]
    spelling: dict[str, Any] = {"written": value.memory}
    sizes: Sequence[Any] = memory.value.shape
    strides: Sequence[Any] = memory.value.stride()
    offset: Any = 0
    if (view := value.view) is not None:
        sizes, strides, offset = view.sizes, view.strides, view.offset
        if memory.old is not None:
            offset = offset - memory.old.meta["val"].storage_offset()
        if 0 in sizes:
            offset = 0
        _check_within(sizes, strides, offset, memory.value)
    elif layouts[value.memory].order is None:
        return Spelled(spelling)
    return Spelled(
        spelling
        | {
            "sizes": [integer(size) for size in sizes],
            "strides": [integer(stride) for stride in strides],
            "offset": integer(offset),
        }
    )


def _check_within(
    sizes: Sequence[Any], strides: Sequence[Any], offset: Any, base: Any
) -> None:
    """Unsupported: a view of known sizes is not a part of its base."""
    numbers = (*sizes, *strides, offset, *base.shape, *base.stride())
    if not all(isinstance(number, int) for number in numbers) or 0 in sizes:
        return

    def last(shape: Sequence[int], steps: Sequence[int]) -> int:
        return sum((size - 1) * step for size, step in zip(shape, steps))

    if offset < 0 or offset + last(sizes, strides) > last(base.shape, base.stride()):
        raise Unsupported("a write to a view that is no part of its tensor")

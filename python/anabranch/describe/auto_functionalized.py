"""Reads calls of operators that write their arguments.

Functionalization makes of such a call a node of the higher-order operator
`auto_functionalized`, version 1 or 2. The node returns what the operator returns, and
then the new values of the memories that it writes. In version 1 each written argument is
a memory of its own. In version 2 the arguments may be views of `_all_bases`, which
further arguments describe: `_x_base_index`, `_x_size`. The memories of operators with the
tag `out` hold nothing before the call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch._higher_order_ops.auto_functionalize import (
    auto_functionalized,
    auto_functionalized_v2,
)
from torch._ops import OpOverload
from torch.fx import Node

from .symbols import Unsupported

# Operators that create a tensor which holds nothing.
_EMPTY = (
    "aten::empty",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
)


@dataclasses.dataclass(frozen=True)
class View:
    """Sizes, strides and storage offset of a view, as ints and SymInts."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any


@dataclasses.dataclass(frozen=True)
class WrittenArgument:
    """An argument that the operator writes: a memory, or a view of it."""

    memory: int
    view: View | None = None


@dataclasses.dataclass(frozen=True)
class Memory:
    """A memory that the operator writes. `old` has its value before the call; None: it
    holds nothing. `value` is the new value."""

    old: Node | None
    value: torch.Tensor


# Where an item of what the node returns is: the number of a memory, or one of what the
# operator returns. None: nothing can read it. A list has one for each item.
@dataclasses.dataclass(frozen=True)
class Item:
    memory: int = -1
    returned: int = -1


Place = Item | list[Any] | None


@dataclasses.dataclass
class WritingCall:
    operator: OpOverload
    arguments: dict[str, Any]  # by their names in the schema
    memories: list[Memory]
    returned: list[torch.Tensor]  # what the operator returns
    places: list[Place]  # of the items that the node returns

    def written(self) -> Iterator[WrittenArgument]:
        for value in self.arguments.values():
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, WrittenArgument):
                    yield item


def is_writing(node: Node) -> bool:
    return node.target in (auto_functionalized, auto_functionalized_v2)


def is_plain(node: Node) -> bool:
    """Whether the node calls an operator and returns tensors, with no list among them."""
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return isinstance(node.args[0], OpOverload) and all(
        item is None or isinstance(item, torch.Tensor) for item in values
    )


def read(node: Node) -> WritingCall:
    """Unsupported: the node calls no operator, or returns what has no description."""
    operator: Any = node.args[0]
    if not isinstance(operator, OpOverload):
        raise Unsupported(f"{operator} writes in place and is no operator")
    arguments = {name: _value(value) for name, value in node.kwargs.items()}
    if torch.Tag.out in operator.tags and node.target is auto_functionalized_v2:
        return _read_outs(node, operator, arguments)
    if node.target is auto_functionalized:
        memories, kinds = _read_first(node, operator, arguments)
    else:
        memories, kinds = _read_second(node, operator, arguments)
    values = list(node.meta["val"])
    returned = values[: len(values) - len(kinds)]
    return WritingCall(
        operator,
        arguments,
        memories,
        [] if not operator._schema.returns else returned,
        [*_returned_places(operator, arguments, len(returned)), *kinds],
    )


def _value(value: Any) -> Any:
    """An argument, with the number in the place of a node that computes one."""
    if isinstance(value, Node):
        number = value.meta.get("val")
        return number if isinstance(number, int | torch.SymInt) else value
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value


def _written_names(operator: OpOverload) -> list[str]:
    return [
        argument.name
        for argument in operator._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _returned_places(
    operator: OpOverload, arguments: dict[str, Any], count: int
) -> list[Place]:
    """An operator may return an argument that it writes; the memory has its value."""
    returns = operator._schema.returns
    if not returns:
        return [None] * count
    places: list[Place] = []
    written = [arguments[name] for name in _written_names(operator)]
    for number, value in enumerate(returns):
        if value.alias_info is None:
            places.append(Item(returned=number))
        elif len(written) == 1 and isinstance(written[0], WrittenArgument):
            whole = written[0].view is None
            places.append(Item(memory=written[0].memory) if whole else None)
        else:
            places.append(None)
    return places


# Version 1


def _read_first(
    node: Node, operator: OpOverload, arguments: dict[str, Any]
) -> tuple[list[Memory], list[Place]]:
    memories: list[Memory] = []
    places: list[Place] = []
    names = _written_names(operator)
    values = list(node.meta["val"])[-len(names) :]

    def write(old: Node | None, value: Any) -> tuple[WrittenArgument | None, Place]:
        if old is None:
            return None, None
        memories.append(_memory(old, value))
        number = len(memories) - 1
        return WrittenArgument(number), Item(memory=number)

    for name, value in zip(names, values):
        old = arguments[name]
        if isinstance(old, list):
            pairs = [write(item, new) for item, new in zip(old, value)]
            arguments[name] = [argument for argument, _ in pairs]
            places.append([place for _, place in pairs])
        else:
            arguments[name], place = write(old, value)
            places.append(place)
    return memories, places


def _memory(old: Node, value: torch.Tensor) -> Memory:
    """The memory of `old`; a tensor that was just created holds nothing."""
    target: Any = old.target
    name = target._schema.name if isinstance(target, OpOverload) else ""
    return Memory(None if name in _EMPTY else old, value)


# Version 2


def _read_second(
    node: Node, operator: OpOverload, arguments: dict[str, Any]
) -> tuple[list[Memory], list[Place]]:
    bases = arguments.pop("_all_bases")
    values = list(node.meta["val"])
    values = values[len(values) - len(bases) :]
    memories = [_memory(old, value) for old, value in zip(bases, values)]

    def written(prefix: str) -> WrittenArgument | None:
        number = arguments.pop(f"{prefix}_base_index")
        if number is None:
            return None
        return WrittenArgument(number, pop_view(arguments, prefix, values[number]))

    for name in _written_names(operator):
        if f"_{name}_length" not in arguments:
            arguments[name] = written(f"_{name}")
            continue
        length = arguments.pop(f"_{name}_length")
        arguments[name] = (
            None if length is None else [written(f"_{name}_{i}") for i in range(length)]
        )
    return memories, [Item(memory=number) for number in range(len(memories))]


def pop_view(arguments: dict[str, Any], prefix: str, base: torch.Tensor) -> Any:
    """Takes the description of a view of `base` out of the arguments. None: it is the
    whole base."""
    found = {
        name: arguments.pop(f"{prefix}_{name}", None)
        for name in (
            "alias",
            "size",
            "stride",
            "storage_offset",
            "slice_dim",
            "slice_start",
            "slice_end",
        )
    }
    if found["size"] is not None:
        return View(
            tuple(found["size"]), tuple(found["stride"]), found["storage_offset"]
        )
    dim = found["slice_dim"]
    if dim is None:
        return None
    sizes, strides = list(base.shape), base.stride()
    sizes[dim] = found["slice_end"] - found["slice_start"]
    offset = found["slice_start"] * strides[dim]
    if isinstance(found["slice_start"], int):
        offset = offset + base.storage_offset()
    return View(tuple(sizes), tuple(strides), offset)


def _read_outs(
    node: Node, operator: OpOverload, arguments: dict[str, Any]
) -> WritingCall:
    """A call that only writes: the node returns the memories."""
    del arguments["_all_bases"]
    value = node.meta["val"]
    values = list(value) if isinstance(value, tuple | list) else [value]
    names = _written_names(operator)
    for number, name in enumerate(names):
        for part in ("size", "stride", "dtype", "device"):
            arguments.pop(f"_{name}_{part}")
        arguments[name] = WrittenArgument(number)
    memories = [Memory(None, item) for item in values]
    items: list[Place] = [Item(memory=number) for number in range(len(values))]
    return WritingCall(operator, arguments, memories, values, items)

"""Replaces operators with a converter that return the arguments that they write.
AOTAutograd takes only operators that return new tensors or nothing.

    Before: %r = mylib.plus.out(%x, %y, out=%o); users of %r
    After:  torchair_writing.mylib_plus_out(%x, %y, out=%o); users of %o"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket

from .converters import register_fx_node_ge_converter, registered

__all__ = ["return_nothing"]

_LIBRARY = torch.library.Library("torchair_writing", "FRAGMENT")
# A library that is defined again makes other operators of the same names.
_numbers = itertools.count(1)


def return_nothing(module: torch.fx.GraphModule) -> None:
    """Replaces calls of these operators in a Dynamo graph."""
    changed = False
    for node in list(module.graph.nodes):
        operator = _operator(node)
        written = _returned(operator) if operator else []
        if not operator or not written or registered(operator) is None:
            continue
        values = [_argument(node, operator, place) for place in written]
        if all(isinstance(value, torch.fx.Node) for value in values):
            _replace(node, _twin(operator, tuple(written)), values)
            changed = True
    if changed:
        module.graph.lint()
        module.recompile()


def _operator(node: torch.fx.Node) -> OpOverload | None:
    found = node.target if node.op == "call_function" else None
    if isinstance(found, OpOverloadPacket) and len(found.overloads()) == 1:
        found = getattr(found, found.overloads()[0])
    own = isinstance(found, OpOverload) and found.namespace not in ("aten", "prims")
    return found if own else None


def _returned(operator: OpOverload) -> list[int]:
    """The positions of the arguments that the operator returns; none if it returns
    anything else."""
    schema = operator._schema
    places = {
        frozenset(a.alias_info.before_set): place
        for place, a in enumerate(schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    }
    found = [
        places.get(frozenset(r.alias_info.before_set)) if r.alias_info else None
        for r in schema.returns
    ]
    known = [place for place in found if place is not None]
    return known if len(known) == len(found) else []


def _argument(node: torch.fx.Node, operator: OpOverload, place: int) -> Any:
    if place < len(node.args):
        return node.args[place]
    return node.kwargs.get(operator._schema.arguments[place].name)


def _replace(
    node: torch.fx.Node, twin: OpOverload, values: list[torch.fx.Node]
) -> None:
    """Makes users of the results read the arguments instead."""
    with node.graph.inserting_before(node):
        made = node.graph.call_function(twin, node.args, node.kwargs)
    made.meta = {k: v for k, v in node.meta.items() if k != "example_value"}
    if len(values) == 1:
        node.replace_all_uses_with(values[0])
    else:
        for user in list(node.users):
            user.replace_all_uses_with(values[user.args[1]])  # type: ignore[index]
            node.graph.erase_node(user)
    node.graph.erase_node(node)


@functools.cache
def _twin(operator: OpOverload, written: tuple[int, ...]) -> OpOverload:
    """The operator without results. Its converter writes the results of the operator's
    converter."""
    schema = str(operator._schema)
    name = operator.name().replace("::", "_").replace(".", "_") + f"_{next(_numbers)}"
    taken = schema[schema.index("(") : schema.rindex(" -> ")]
    _LIBRARY.define(f"{name}{taken} -> ()")
    torch.library.register_fake(
        f"torchair_writing::{name}", lambda *args, **kwargs: None, lib=_LIBRARY
    )
    twin: OpOverload = getattr(torch.ops.torchair_writing, name).default
    register_fx_node_ge_converter(twin)(_writing(operator, written))
    return twin


def _writing(operator: OpOverload, written: tuple[int, ...]) -> Callable[..., None]:
    names = [argument.name for argument in operator._schema.arguments]

    def convert(*args: Any, **kwargs: Any) -> None:
        converter = registered(operator)
        assert converter is not None
        found = converter(*args, **kwargs)
        results = found if isinstance(found, list | tuple) else [found]
        given = dict(zip(names, args)) | kwargs
        for place, result in zip(written, results):
            if (handle := given[names[place]]).written is None:
                handle.write(result.value)

    return convert

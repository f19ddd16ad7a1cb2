"""Reads calls of operators with effects, which a registration declares.

AOTAutograd orders them by tokens: the node `with_effects(token, operator, ...)` returns
the next token, then what the operator returns. In a description the calls keep their
order, so tokens are no tensors of the program."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.effects import with_effects
from torch._ops import OpOverload
from torch.fx import Node

from .symbols import Unsupported

# Makes the first token, and takes the last one, where they are no inputs and outputs.
_MAKES = torch.ops.prims._make_token.default
_SINKS = torch.ops.prims._sink_tokens.default


def has_effect(node: Node) -> bool:
    return node.target is with_effects


def tokens_of(graph: torch.fx.Graph) -> set[Node]:
    """The nodes that are tokens, or sink them."""
    tokens: set[Node] = set()
    for node in graph.nodes:
        if has_effect(node):
            tokens.add(node.args[0])
            tokens |= {user for user in node.users if _is_first_item(user)}
        elif node.target in (_MAKES, _SINKS):
            tokens.add(node)
    return tokens


def _is_first_item(node: Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem" and node.args[1] == 0


def operator_of(node: Node) -> OpOverload:
    """Unsupported: the node calls no operator."""
    operator: Any = node.args[1]
    if not isinstance(operator, OpOverload):
        raise Unsupported(f"{operator} has an effect and is no operator")
    return operator


def arguments_of(node: Node, operator: OpOverload) -> dict[str, Any]:
    names = [argument.name for argument in operator._schema.arguments]
    return dict(zip(names, node.args[2:])) | node.kwargs


def returned(node: Node) -> Any:
    """The operator's results, in the form in which it returns them."""
    values = node.meta["val"][1:]
    return values[0] if len(values) == 1 else values

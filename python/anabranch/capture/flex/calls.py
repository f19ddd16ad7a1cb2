"""Replaces calls of flex_attention in an ATen graph.

    Before: %r = flex_attention(%q, %k, %v, %score_mod, (.., %mask_mod), 0.125, ..)
            %y = getitem(%r, 0)
    After:  %rows = view(arange(%s), [1, 1, -1, 1])
            %keys = view(arange(%t), [1, 1, 1, -1])
            %shown = ge(%rows, %keys)
            %y = scaled_dot_product_attention(%q, %k, %v, %shown)

The kernel of attention computes what its mask depends on, and leaves out the keys that a
block of rows does not see. So no mask is stored, and a block mask's tables are not read:
as in eager PyTorch, its function decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from ..splicing import copy_before
from .attention import Call, attend

FLEX = torch.ops.higher_order.flex_attention


def inline(module: GraphModule, table: Mapping[Any, Callable[..., Any]]) -> None:
    """Replaces the calls in a graph, those of its subgraphs too. `table` takes apart the
    operators that replace them."""
    for child in module.children():
        if isinstance(child, GraphModule):
            inline(child, table)
    calls = module.graph.find_nodes(op="call_function", target=FLEX)
    for call in calls:
        _replace(module, call, dict(table))
    if calls:
        for reader in module.graph.find_nodes(op="get_attr"):
            if not reader.users:
                module.graph.erase_node(reader)
        module.recompile()


def _replace(module: GraphModule, node: Node, table: dict[Any, Any]) -> None:
    inputs = [n for n in node.all_input_nodes if n.op != "get_attr" or "val" in n.meta]
    values = [n.meta["val"] for n in inputs]
    mode = detect_fake_mode(values)
    assert mode is not None
    used = {user.args[1] for user in node.users}

    def compute(*given: Any) -> Any:
        known: dict[Node, Any] = dict(zip(inputs, given))

        def value(argument: Node) -> Any:
            if argument in known:
                return known[argument]
            return module.get_submodule(str(argument.target))

        call = Call(*torch.fx.node.map_arg(node.args, value))
        return attend(call, used, node.meta["val"])

    before = mode.allow_non_fake_inputs
    mode.allow_non_fake_inputs = True  # constants of the functions
    try:
        with mode, torch.no_grad():
            part = make_fx(compute, table)(*values)
    finally:
        mode.allow_non_fake_inputs = before
    part.graph.eliminate_dead_code()
    copies = copy_before(node, module, part, inputs, mode)
    results: Any = part.graph.output_node().args[0]
    for user in list(node.users):
        user.replace_all_uses_with(copies[results[user.args[1]]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)

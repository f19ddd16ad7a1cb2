"""Random passes of a user: they add nodes that change no value, written in all the ways
that FX has and without metadata, and mark nodes by hand."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

aten = torch.ops.aten
Edit = Callable[[torch.fx.GraphModule, Any, Any], None]


def custom_pass(rng: random.Random) -> Edit:
    """A pass that makes up to four edits of each graph, in the order of `rng`."""
    seed, count = rng.random(), rng.randint(1, 4)

    def edit(module: torch.fx.GraphModule, example_inputs: Any, config: Any) -> None:
        own = random.Random(seed)
        for _ in range(count):
            own.choice((_same_value, _same_value, _scope, _event, _unused))(module, own)

    return edit


def _floats(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes that compute one tensor of floats, and write to none."""
    found = []
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        writes = node.target._schema.is_mutable
        if isinstance(value, torch.Tensor) and value.is_floating_point() and not writes:
            found.append(node)
    return found


def _same_value(module: torch.fx.GraphModule, rng: random.Random) -> None:
    """Puts a node without metadata between a node and its users."""
    nodes = _floats(module)
    if not nodes:
        return
    node, graph = rng.choice(nodes), module.graph
    users = list(node.users)
    with graph.inserting_after(node):
        new = rng.choice(_WRITTEN)(module, node)
    for user in users:
        user.replace_input_with(node, new)
    if rng.random() < 0.3:  # a pass that prepares what follows it
        graph.lint()
        module.recompile()


def _negated_twice(module: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.Node:
    first = module.graph.call_function(aten.neg.default, (node,))
    with module.graph.inserting_after(first):
        return module.graph.call_function(aten.neg.default, (first,))


def _by_module(module: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.Node:
    name = f"same_{len(list(module.children()))}"
    module.add_submodule(name, torch.nn.Identity())
    return module.graph.call_module(name, (node,))


def _by_attribute(module: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.Node:
    name = f"one_{len(list(module.buffers()))}"
    module.register_buffer(name, torch.ones(()))
    value = node.meta["val"]
    factor = module.graph.get_attr(name)
    with module.graph.inserting_after(factor):
        cast = module.graph.call_method("to", (factor, value.dtype))
    with module.graph.inserting_after(cast):
        return module.graph.call_function(operator.mul, (node, cast))


_WRITTEN: tuple[Callable[..., torch.fx.Node], ...] = (
    lambda m, n: m.graph.call_function(aten.mul.Tensor, (n, 1.0)),
    lambda m, n: m.graph.call_function(aten.clone.default, (n,)),
    lambda m, n: m.graph.call_function(operator.mul, (n, 1.0)),
    lambda m, n: m.graph.call_function(torch.add, (n, 0.0), {"alpha": 1}),
    lambda m, n: m.graph.call_function(torch.nn.functional.dropout, (n, 0.5, False)),
    lambda m, n: m.graph.call_method("clone", (n,)),
    lambda m, n: m.graph.call_method("view_as", (n, n)),
    _negated_twice,
    _by_module,
    _by_attribute,
)


def _marks(rng: random.Random) -> Any:
    return rng.choice((torch.ops.air, torch.ops.npugraph_ex))


def _scope(module: torch.fx.GraphModule, rng: random.Random) -> None:
    """A stream scope around one node."""
    nodes = _floats(module)
    if not nodes:
        return
    node, marks, graph = rng.choice(nodes), _marks(rng), module.graph
    label = (["_user_stream_label"], [rng.choice(("p", "q"))])
    with graph.inserting_before(node):
        graph.call_function(marks.scope_enter.default, label)
    with graph.inserting_after(node):
        graph.call_function(marks.scope_exit.default, ())


def _event(module: torch.fx.GraphModule, rng: random.Random) -> None:
    """An event after a node, and a wait before a later one."""
    nodes = _floats(module)
    if len(nodes) < 2:
        return
    first, second = sorted(rng.sample(range(len(nodes)), 2))
    marks, graph = _marks(rng), module.graph
    with graph.inserting_after(nodes[first]):
        event = graph.call_function(marks.record.default, ())
    with graph.inserting_before(nodes[second]):
        graph.call_function(marks.wait.default, ([event],))


def _unused(module: torch.fx.GraphModule, rng: random.Random) -> None:
    """A node that nothing reads."""
    nodes = _floats(module)
    if nodes:
        node = rng.choice(nodes)
        with module.graph.inserting_after(node):
            module.graph.call_function(aten.exp.default, (node,))

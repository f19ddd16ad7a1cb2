"""Nodes that a pass of the user puts into a graph."""

from __future__ import annotations

import functools
import operator

import pytest
import torch

import anabranch
from anabranch import extension

aten = torch.ops.aten


def compiled(function, edit, *, dynamic=False, functional=True):
    """Compiles the function. `edit(graph, node)` changes each `exp` of its graph."""

    def compile_one(module, example_inputs, sources, *, config):
        for node in list(module.graph.nodes):
            if node.target is aten.exp.default:
                with module.graph.inserting_after(node):
                    edit(module.graph, node)
        if not functional:
            extension.complete_nodes(module)
            assert all("val" in n.meta for n in module.graph.nodes if n.users)
        return extension.compile_graph(module, example_inputs, sources, config=config)

    def backend(module, example_inputs):
        compile_graph = functools.partial(compile_one, config=extension.configure({}))
        return extension.trace(module, example_inputs, compile_graph)

    return torch.compile(function, backend=backend, dynamic=dynamic)


def follow(made, node) -> None:
    """Readers of the node read its replacement."""
    node.replace_all_uses_with(made, lambda user: user is not made)


CALLS = {
    "operator": lambda g, n: g.call_function(aten.mul.Tensor, (n, 3)),
    "composite": lambda g, n: g.call_function(aten.matmul.default, (n, n)),
    "taken apart": lambda g, n: g.call_function(aten.softplus.default, (n,)),
    "whole": lambda g, n: g.call_function(aten.silu.default, (n,)),
    "function": lambda g, n: g.call_function(torch.relu, (n,)),
    "of Python": lambda g, n: g.call_function(operator.sub, (n, 2)),
    "method": lambda g, n: g.call_method("tanh", (n,)),
    "wider": lambda g, n: g.call_function(aten.to.dtype, (n, torch.float64)),
    "smaller": lambda g, n: g.call_function(torch.sum, (n,), {"dim": 0}),
    "with a constant": lambda g, n: g.call_function(
        lambda x: x + torch.tensor([1.0, 2.0, 3.0]), (n,)
    ),
}
MEANINGS = {
    "operator": lambda x: x * 3,
    "composite": lambda x: x @ x,
    "taken apart": torch.nn.functional.softplus,
    "whole": torch.nn.functional.silu,
    "function": torch.relu,
    "of Python": lambda x: x - 2,
    "method": torch.tanh,
    "wider": lambda x: x.to(torch.float64),
    "smaller": lambda x: x.sum(0),
    "with a constant": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_of_equal_forms_are_traced_once(dynamic) -> None:
    """The nodes of two results, too, of which other nodes read single ones."""
    ran = []

    def double(x):
        ran.append(x.shape)
        return x * 2

    def halves(x, dim, keepdim):
        ran.append(x.shape)
        return x.sum(dim, keepdim), (x > 0).to(torch.int64).sum(dim, keepdim)

    def compile_one(module, example_inputs, sources, *, config):
        parts = {aten.exp.default: double, aten.max.dim: halves}
        extension.complete_nodes(module, parts)
        return extension.compile_graph(module, example_inputs, sources, config=config)

    def backend(module, example_inputs):
        compile_graph = functools.partial(compile_one, config=extension.configure({}))
        return extension.trace(module, example_inputs, compile_graph)

    def function(x):
        for _ in range(3):
            values, places = x.exp().max(1, True)
            x = x.exp() + values * places
        return x, x[:2].exp()

    x = torch.randn(4, 3)
    found = torch.compile(function, backend=backend, dynamic=dynamic)(x)
    for _ in range(3):
        twice = x * 2
        x = twice + twice.sum(1, True) * (twice > 0).sum(1, True)
    torch.testing.assert_close(found, (x, x[:2] * 2))
    assert len(ran) == 3


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("functional", [False, True])
def test_any_call_is_compiled(kind, dynamic, functional) -> None:
    def edit(graph, node):
        follow(CALLS[kind](graph, node), node)

    x = torch.randn(3, 3)
    run = compiled(
        lambda x: (x.exp() + 1) * 2, edit, dynamic=dynamic, functional=functional
    )
    found = run(x)
    wanted = (MEANINGS[kind](x.exp()) + 1) * 2
    torch.testing.assert_close(found, wanted)
    assert anabranch.counters.fallback_calls == 0


def test_items_of_a_list() -> None:
    def edit(graph, node):
        both = graph.call_function(torch.split, (node, 2), {"dim": 1})
        with graph.inserting_after(both):
            first = graph.call_function(operator.getitem, (both, 1))
        follow(first, node)
        both.args = (node, 2)

    x = torch.randn(3, 4)
    torch.testing.assert_close(
        compiled(lambda x: x.exp() + 1, edit)(x), x.exp()[:, 2:] + 1
    )


def test_items_of_a_list_in_a_list() -> None:
    def nested(x):
        return x - 1, [x * 2, x * 3]

    def edit(graph, node):
        made = graph.call_function(nested, (node,))
        with graph.inserting_after(made):
            inner = graph.call_function(operator.getitem, (made, 1))
        with graph.inserting_after(inner):
            last = graph.call_function(operator.getitem, (inner, 1))
        follow(last, node)
        made.args = (node,)

    x = torch.randn(3, 4)
    torch.testing.assert_close(
        compiled(lambda x: x.exp() + 1, edit)(x), x.exp() * 3 + 1
    )


def test_a_module() -> None:
    layer = torch.nn.Linear(3, 2)

    def edit(graph, node):
        graph.owning_module.add_module("layer", layer)
        follow(graph.call_module("layer", (node,)), node)

    x = torch.randn(3, 3)
    with torch.no_grad():
        found = compiled(lambda x: x.exp() + 1, edit)(x)
        torch.testing.assert_close(found, layer(x.exp()) + 1)


@pytest.mark.parametrize("target", [aten.mm.default, torch.mm])
def test_what_can_not_run_is_named(target) -> None:
    def edit(graph, node):
        follow(graph.call_function(target, (node, node)), node)

    text = r"a call of .*mm.* that a pass has put into the graph"
    with pytest.raises(anabranch.CompileError, match=text):
        compiled(lambda x: x.exp() + 1, edit)(torch.randn(3, 4))

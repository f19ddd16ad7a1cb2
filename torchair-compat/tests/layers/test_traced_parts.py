"""A trace that copies the nodes of an operator has the graph of one that runs its parts."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from functorch.compile import aot_function, make_boxed_compiler
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import torch_npu
from operator_calls import CALLS, call
from torchair._impl.operators import traced_parts
from torchair._impl.operators.traced_parts import Tracing

# Their parts depend on values, so no graph has them, or they have an effect instead.
NO_GRAPH = (RuntimeError, NotImplementedError, ValueError)


@pytest.fixture
def copies(monkeypatch):
    """How many nodes the traces have copied."""
    counts: Counter[str] = Counter()
    copy = Tracing._copy

    def count(self, part, *rest):
        counts["nodes"] += len(part.nodes)
        return copy(self, part, *rest)

    monkeypatch.setattr(Tracing, "_copy", count)
    return counts


def graph_of(function, tensors, *, dynamic: bool = False) -> torch.fx.Graph:
    found = []

    def keep(module, _inputs):
        found.append(module.graph)
        return module.forward

    with torch.no_grad():
        aot_function(function, make_boxed_compiler(keep), dynamic=dynamic)(*tensors)
    return found[0]


def described(graph: torch.fx.Graph) -> list[object]:
    """What each node of tensors is: operator, arguments, form, and which earlier node has
    the same memory. Sizes may come from other nodes that compute them, and constants from
    another attribute of the same value."""
    constants = graph.owning_module
    names: dict[torch.fx.Node, str] = {}
    memory: list[int] = []
    found: list[object] = []
    for node in graph.nodes:
        values = [v for v in tree_leaves(node.meta.get("val")) if _is_tensor(v)]
        if node.op == "get_attr":
            names[node] = str(getattr(constants, str(node.target)).tolist())
            continue
        if node.op != "output" and not values:
            names[node] = str(node.meta.get("val"))
            continue
        memory += [value.untyped_storage()._cdata for value in values]
        forms = [
            (
                v.dtype,
                *map(str, (v.shape, v.stride(), v.storage_offset())),
                memory.index(v.untyped_storage()._cdata),
            )
            for v in values
        ]
        arguments = torch.fx.map_arg((node.args, node.kwargs), names.get)
        found.append((node.op, str(node.target), str(arguments), forms))
        names[node] = f"%{len(found)}"
    return found


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def layers_of(name: str):
    """A function that calls the operator twice, with tensors of its own each time,
    and these tensors."""
    variants = CALLS[name]
    right = variants[0] if isinstance(variants, list) else variants
    leaves, spec = tree_flatten(right)
    places = [place for place, leaf in enumerate(leaves) if _is_tensor(leaf)]

    def run(*tensors):
        results = []
        for layer in range(2):
            given = list(leaves)
            own = tensors[layer * len(places) :]
            for place, tensor in zip(places, own):
                given[place] = tensor
            results += tree_leaves(call(name, tree_unflatten(given, spec)))
        return [result for result in results if _is_tensor(result)]

    return run, [leaves[place].clone() for _ in range(2) for place in places]


SYMBOLIC = ("npu_rms_norm", "npu_swiglu", "npu_dynamic_quant", "npu_rotary_mul")


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [*((name, False) for name in CALLS), *((name, True) for name in SYMBOLIC)],
)
def test_graphs_are_equal(name, dynamic, monkeypatch) -> None:
    run, tensors = layers_of(name)
    with monkeypatch.context() as without:
        without.setattr(traced_parts, "current", lambda: None)
        try:
            wanted = described(graph_of(run, tensors, dynamic=dynamic))
        except NO_GRAPH as error:
            pytest.skip(f"no graph: {error}")
    assert described(graph_of(run, tensors, dynamic=dynamic)) == wanted


def test_layers_are_copied(copies) -> None:
    run, tensors = layers_of("npu_fused_infer_attention_score")
    graph_of(run, tensors)
    assert copies["nodes"] > 10


def test_views_begin_where_their_argument_does(copies) -> None:
    """The parts of one tensor that is cut up have equal forms, and begin elsewhere."""

    def run(x):
        first, second = x.split(4, dim=-1)
        return torch_npu.npu_swiglu(first), torch_npu.npu_swiglu(second)

    graph = graph_of(run, [torch.randn(3, 8)])
    assert copies["nodes"]
    values = [node.meta.get("val") for node in graph.nodes]
    parts = [v for v in values if _is_tensor(v) and tuple(v.shape) == (3, 2)]
    assert {part.storage_offset() for part in parts} == {0, 2, 4, 6}


def test_a_write_between_layers_is_read() -> None:
    """What the graph reads is what functionalization has after the write."""

    def run(x, gamma):
        before = torch_npu.npu_rms_norm(x, gamma)[0]
        x[:, 0] = 5
        return before, torch_npu.npu_rms_norm(x, gamma)[0]

    x, gamma = torch.randn(3, 8), torch.randn(8)
    compute = aot_function(run, make_boxed_compiler(lambda module, _: module.forward))
    with torch.no_grad():
        found, wanted = compute(x.clone(), gamma), run(x.clone(), gamma)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)

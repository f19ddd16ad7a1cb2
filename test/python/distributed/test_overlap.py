"""Random graphs whose collectives overlap with kernels, in a group of one process."""

from __future__ import annotations

import random

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import anabranch
from anabranch.collectives import operators, overlap
from anabranch.config import Config


@pytest.fixture(autouse=True, scope="module")
def group(tmp_path_factory):
    store = dist.FileStore(str(tmp_path_factory.mktemp("group") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def random_function(seed: int):
    """Products, sums, collectives and views of any two earlier values."""
    draw = random.Random(seed)
    steps = [
        (draw.randrange(7), draw.randrange(9), draw.randrange(9)) for _ in range(16)
    ]

    def function(x, w):
        values = [x, w]
        for kind, first, second in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if kind == 0:
                values.append(a @ b / 8)
            elif kind == 1:
                values.append(functional.all_reduce(a, "sum", dist.group.WORLD))
            elif kind == 2:
                whole = functional.all_gather_tensor(a + b, 0, dist.group.WORLD)
                values.append(whole.tanh())
            elif kind == 3:
                more = functional.all_reduce_coalesced([a, b], "sum", dist.group.WORLD)
                values.append(more[0] - more[1])
            elif kind == 4:
                y = a * 2
                dist.all_reduce(y)
                values.append(y)
            elif kind == 5:
                values.append(torch.sigmoid(a) + b)
            else:
                values.append(a.t())
        return values[-1], values[len(values) // 2]

    return function


def called(graph: torch.fx.GraphModule) -> list[str]:
    """The collectives in order; a pair of begin and finish counts once."""
    names = [
        (node.target.namespace, node.target._schema.name.partition("::")[2])
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    ]
    return [
        name.removeprefix("begin_")
        for space, name in names
        if space in (operators.NAMESPACE, operators.OWN)
        and name not in ("wait_tensor", "finish")
    ]


@pytest.mark.parametrize("seed", range(16))
def test_random_graphs(seed, monkeypatch) -> None:
    arrange, orders = overlap.arrange, []

    def watched(module: torch.fx.GraphModule, config: Config) -> None:
        before = called(module)
        arrange(module, config)
        module.graph.lint()
        orders.append((before, called(module)))

    monkeypatch.setattr(overlap, "arrange", watched)
    function = random_function(seed)
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    run = torch.compile(function, backend="anabranch", fullgraph=True)
    with torch.no_grad():
        for found, wanted in zip(run(x, w), function(x, w)):
            torch.testing.assert_close(found, wanted)
    assert orders and all(before == after for before, after in orders)
    assert anabranch.counters.eager_graphs == 0
    assert not operators._begun


def test_what_overlaps() -> None:
    """A product after the collective splits it into begin and finish; a sum does not."""

    def product(x, w):
        y = functional.all_reduce(x + 1, "sum", dist.group.WORLD) + 1
        return y + x @ w

    def sum_alone(x, w):
        y = functional.all_reduce(x + 1, "sum", dist.group.WORLD) + 1
        return y + (x + w)

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for function, calls in ((product, 2), (sum_alone, 1)):
        torch._dynamo.reset()
        anabranch.counters.reset()
        run = torch.compile(function, backend="anabranch", fullgraph=True)
        with torch.no_grad():
            torch.testing.assert_close(run(x, w), function(x, w))
        assert anabranch.counters.fallback_calls == calls


def test_scopes_keep_their_order() -> None:
    def function(x, w):
        with anabranch.stream("transfer"):
            y = functional.all_reduce(x + 1, "sum", dist.group.WORLD)
        return y + x @ w

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    run = torch.compile(function, backend="anabranch", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(run(x, w), function(x, w))
    assert anabranch.counters.fallback_calls == 1

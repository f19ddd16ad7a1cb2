"""AOTAutograd learns of a graph's results what it would find by running the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch._functorch import aot_autograd

from anabranch.capture.traces import known_results

RUNS = "run_functionalized_fw_and_collect_metadata"


def split_sizes(x, y):
    return x.size(0) * 2, x @ y, None, (x + 1).sum(0)


# Graphs whose results have memory of their own.
FRESH: dict[str, Callable] = {
    "products": lambda x, y: torch.softmax(x @ y, -1),
    "strides": lambda x, y: (x @ y).t(),
    "expanded": lambda x, y: (x.sum() + y).expand(2, *y.shape),
    "narrowed": lambda x, y: (x + 1)[1:],
    "numbers": split_sizes,
    "several": lambda x, y: (x.argmax(-1), x.to(torch.bfloat16), y > 0),
    "twice": lambda x, y: torch.split(torch.cat([x, y.t()]).exp().clone(), 3)[0],
    "whole": lambda x, y: F.layer_norm(x, (x.shape[-1],)) + F.gelu(x),
    "regions": lambda x, y: torch.cond(
        x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)
    ),
    # Dynamo itself returns arguments and a tensor's second place among the results.
    "argument": lambda x, y: (x, x + 1),
    "equal": lambda x, y: ((x + 1),) * 2,
    "complex": lambda x, y: torch.view_as_real(torch.fft.fft(x)),
}


def with_gradients(x, y):
    torch.set_grad_enabled(True)
    return x @ y


# Graphs of which Dynamo's notes leave something open.
OPEN: dict[str, Callable] = {
    "view of an argument": lambda x, y: (x[1:], y + 1),
    "two views": lambda x, y: (x + y.t()).chunk(2),
    "view and its base": lambda x, y: (z := x * 2, z.t()),
    "lazy": lambda x, y: torch.complex(x, x).conj(),
    "size of data": lambda x, y: x.nonzero(),
    "mode": with_gradients,
}


class Runs:
    """The descriptions that AOTAutograd made of graphs, and whether it ran them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[object, ...]] = []
        self.told: list[bool] = []
        run = getattr(aot_autograd, RUNS)

        def recorded(function: Callable, **how: object) -> Callable:
            collect = run(function, **how)
            self.told.append("known_results" in function.__code__.co_filename)

            def collected(*arguments: object) -> object:
                about = collect(*arguments)
                self.found.append(self.description(about))
                return about

            return collected

        monkeypatch.setattr(aot_autograd, RUNS, recorded)

    @staticmethod
    def description(about: object) -> tuple[object, ...]:
        inputs = [dataclasses.asdict(one) for one in about.input_info]
        outputs = [
            (one.output_type, one.raw_type, one.base_idx, one.dynamic_dims)
            for one in about.output_info
        ]
        rest = (
            about.num_intermediate_bases,
            about.keep_input_mutations,
            about.grad_enabled_mutation,
            about.is_rng_op_functionalized,
        )
        return inputs, outputs, rest


def results(function: Callable, dynamic: bool) -> object:
    torch.compiler.reset()
    x, y = torch.randn(6, 5), torch.randn(5, 6)
    compiled = torch.compile(function, backend="anabranch", dynamic=dynamic)
    with torch.no_grad():
        got = compiled(x, y)
        torch.testing.assert_close(got, function(x, y))
    return got


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FRESH)
def test_what_is_told_equals_what_a_run_finds(name, dynamic, monkeypatch):
    runs = Runs(monkeypatch)
    results(FRESH[name], dynamic)
    assert runs.told and all(runs.told)
    monkeypatch.setattr(known_results, "fresh_results", lambda module: None)
    results(FRESH[name], dynamic)
    half = len(runs.found) // 2
    assert not any(runs.told[half:])
    assert runs.found[:half] == runs.found[half:]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OPEN)
def test_what_the_notes_leave_open_is_found_by_a_run(name, dynamic, monkeypatch):
    runs = Runs(monkeypatch)
    results(OPEN[name], dynamic)
    assert not any(runs.told)


def test_tensors_that_dynamo_does_not_describe_leave_all_open():
    constant = torch.ones(3)

    class Holding(torch.nn.Module):
        def forward(self, x):
            return (x + constant, constant[1:])

    graph = torch.fx.symbolic_trace(Holding())
    assert known_results.fresh_results(graph) is None


def test_another_trace_meanwhile_is_of_another_graph(monkeypatch):
    """A front end may trace graphs of its own while it compiles one."""
    runs = Runs(monkeypatch)

    def inner(x):
        return (torch.cat([x, x]).clone(),)

    def backend(module, inputs):
        with known_results.told(module):
            kept = getattr(aot_autograd, RUNS)
            here = aot_autograd.aot_module_simplified(
                module, inputs, fw_compiler=lambda graph, _: trace_another(graph)
            )
            assert getattr(aot_autograd, RUNS) is kept
        return here

    def trace_another(graph):
        other = torch.fx.symbolic_trace(inner)
        aot_autograd.aot_module_simplified(
            other, [torch.ones(2)], fw_compiler=lambda found, _: found.forward
        )
        return graph.forward

    x = torch.randn(3)
    got = torch.compile(lambda x: x.sin() + 1, backend=backend)(x)
    torch.testing.assert_close(got, x.sin() + 1)
    assert runs.told == [True, False]

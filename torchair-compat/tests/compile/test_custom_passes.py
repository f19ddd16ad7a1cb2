"""Passes of a user put nodes into a graph."""

from __future__ import annotations

import pytest
import torch

import anabranch
import npugraph_ex
import torchair
from pictures import compiled

aten = torch.ops.aten
MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")


def model(x):
    mm = torch.mm(x, x)
    return torch.abs(mm) + 1, x - mm


def stream_pass(namespace):
    """A pass that puts the product and the absolute values on a stream, and the difference
    after them, with the marks of torch.ops.<namespace>."""
    ops = getattr(torch.ops, namespace)

    def edit(module, example_inputs, config) -> None:
        graph = module.graph
        for node in graph.nodes:
            if node.target is aten.mm.default:
                with graph.inserting_before(node):
                    label = (["_user_stream_label"], ["stream_1"])
                    graph.call_function(ops.scope_enter.default, label)
            elif node.target is aten.abs.default:
                with graph.inserting_after(node):
                    event = graph.call_function(ops.record.default, ())
                with graph.inserting_after(event):
                    graph.call_function(ops.scope_exit.default, ())
            elif node.target is aten.sub.Tensor:
                with graph.inserting_before(node):
                    graph.call_function(ops.wait.default, ([event],))

    return edit


@pytest.fixture
def orders(compiled_nodes):
    """A function that returns the operators of all graphs that were compiled."""
    return lambda: [node for graph in compiled_nodes for node in graph]


WANTED = [
    ("aten::mm", "stream_1"),
    ("aten::abs", "stream_1"),
    ("anabranch::record", "stream_1"),
    ("aten::add.Tensor", None),
    ("anabranch::wait_event", None),
    ("aten::sub.Tensor", None),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("namespace", ["air", "npugraph_ex"])
@pytest.mark.parametrize("which", ["pre", "post"])
@pytest.mark.parametrize("mode", MODES)
def test_streams_and_events(config, orders, mode, which, namespace) -> None:
    config.mode = mode
    setattr(config, f"post_grad_custom_{which}_pass", stream_pass(namespace))
    x = torch.randn(3, 3)
    torch.testing.assert_close(compiled(model, config)(x), model(x))
    assert orders() == WANTED
    assert anabranch.counters.fallback_calls == 0


def test_options_of_the_capture_path(orders) -> None:
    options = {"post_grad_custom_pre_pass": stream_pass("npugraph_ex")}
    x = torch.randn(3, 3)
    run = torch.compile(model, backend="npugraph_ex", options=options)
    torch.testing.assert_close(run(x), model(x))
    assert orders() == WANTED


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("which", ["pre", "post"])
def test_operators_without_metadata(config, dynamic, which) -> None:
    def edit(module, *_) -> None:
        for node in list(module.graph.nodes):
            if node.target is aten.mm.default:
                with module.graph.inserting_after(node):
                    wide = module.graph.call_function(torch.relu, (node,))
                with module.graph.inserting_after(wide):
                    made = module.graph.call_function(
                        torch.ops.npu.npu_swiglu.default, (wide,)
                    )
                node.replace_all_uses_with(
                    made, lambda user, wide=wide: user is not wide
                )

    setattr(config, f"post_grad_custom_{which}_pass", edit)

    def function(x, y):
        return (x @ y) * 2

    x, y = torch.randn(4, 6), torch.randn(6, 8)
    found = compiled(function, config, dynamic=dynamic)(x, y)
    left, right = (x @ y).relu().chunk(2, -1)
    torch.testing.assert_close(found, torch.nn.functional.silu(left) * right * 2)


def test_marks_in_a_model(orders) -> None:
    """A model may call the marks of the capture path itself."""

    def function(x):
        torch.ops.npugraph_ex.scope_enter(["_user_stream_label"], ["a"])
        y = x.exp()
        event = torch.ops.npugraph_ex.record()
        torch.ops.npugraph_ex.scope_exit()
        torch.ops.npugraph_ex.wait([event])
        return y, x.sin()

    x = torch.randn(4)
    backend = npugraph_ex.get_npu_backend()
    found = torch.compile(function, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(found, (x.exp(), x.sin()))
    assert [name for name, _ in orders()] == [
        "aten::exp",
        "anabranch::record",
        "anabranch::wait_event",
        "aten::sin",
    ]
    assert torchair.logger is npugraph_ex.logger

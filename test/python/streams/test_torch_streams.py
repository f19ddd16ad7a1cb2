"""A compiled function may use torch.Stream and torch.Event."""

from __future__ import annotations

import pytest
import torch

from anabranch import backend

STREAM = "anabranch.stream"


@pytest.fixture
def graphs(monkeypatch):
    """(operator, stream) of the nodes of each graph that the front end describes."""
    found: list[list[tuple[str, str | None]]] = []
    reader = backend.GraphReader

    def read(module, *arguments):
        found.append(
            [
                (str(n.target), (n.meta.get("custom") or {}).get(STREAM))
                for n in module.graph.nodes
                if n.op == "call_function"
            ]
        )
        return reader(module, *arguments)

    monkeypatch.setattr(backend, "GraphReader", read)
    return found


def run(function, *arguments):
    return torch.compile(function, backend="anabranch", fullgraph=True)(*arguments)


def test_a_stream_is_a_stream_of_the_graph(graphs) -> None:
    side = torch.Stream(device="cpu")

    def function(x):
        with side:
            y = x @ x
        return y + 1, x.exp()

    x = torch.randn(4, 4)
    y, z = run(function, x)
    torch.testing.assert_close(y, x @ x + 1)
    torch.testing.assert_close(z, x.exp())
    streams = dict(graphs[0])
    assert streams["aten.mm.default"].startswith("torch.Stream")
    assert streams["aten.add.Tensor"] is None
    assert streams["aten.exp.default"] is None


def test_events_order_streams(graphs) -> None:
    one, event = torch.Stream(device="cpu"), torch.Event(device="cpu")

    def function(x):
        two = torch.Stream(device="cpu")
        with one:
            y = x @ x
            event.record()
        event.wait(two)
        with two:
            z = x.exp()
        one.wait_stream(two)
        y.record_stream(two)
        return y, z

    x = torch.randn(4, 4)
    y, z = run(function, x)
    torch.testing.assert_close(y, x @ x)
    torch.testing.assert_close(z, x.exp())
    (nodes,) = graphs
    targets = [target for target, _ in nodes]
    assert targets == [
        "aten.mm.default",
        "anabranch.record.default",
        "anabranch.wait_event.default",
        "aten.exp.default",
        "anabranch.record.default",
        "anabranch.wait_event.default",
    ]
    first, second = nodes[0][1], nodes[3][1]
    assert first != second
    assert [s for _, s in nodes] == [first, first, second, second, second, first]


def test_an_event_of_before_has_happened(graphs) -> None:
    side, event = torch.Stream(device="cpu"), torch.Event(device="cpu")

    def function(x):
        side.wait_event(event)
        with side:
            return x + 1

    torch.testing.assert_close(run(function, torch.ones(2)), torch.full((2,), 2.0))
    assert [target for target, _ in graphs[0]] == ["aten.add.Tensor"]

"""Floats of a model are constants until they change, and Dynamo traces each graph once."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.output_graph import OutputGraph

import torch_npu


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(8)), 1e-6

    def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch_npu.npu_rms_norm(x, self.weight, self.eps)[0] * factor


@pytest.fixture
def traces(monkeypatch) -> list[OutputGraph]:
    """Each trace of Dynamo appends its graph."""
    found: list[OutputGraph] = []
    begin = OutputGraph.__init__

    def counted(self, *arguments, **named) -> None:
        found.append(self)
        begin(self, *arguments, **named)

    monkeypatch.setattr(OutputGraph, "__init__", counted)
    torch._dynamo.reset()
    return found


@torch.no_grad()
@pytest.mark.parametrize("backend", ["npu", "npugraph_ex"])
def test_one_trace_until_a_float_changes(traces, backend) -> None:
    model = Scaled()
    run = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)

    def check(rows: int, factor: float) -> None:
        x = torch.randn(rows, 8)
        torch.testing.assert_close(run(x, factor), model(x, factor))

    check(4, 2.0)
    check(6, 2.0)
    assert len(traces) == 1
    for factor in (3.0, 4.0, 5.0):
        check(4, factor)
    # The first change makes the float an input, which costs a trace or two.
    assert len(traces) <= 3
    model.eps = 0.5
    check(4, 5.0)


@torch.no_grad()
def test_other_backends_keep_their_rule(traces) -> None:
    run = torch.compile(lambda x, factor: x * factor, backend="eager", dynamic=True)
    for factor in (2.0, 3.0, 4.0):
        torch.testing.assert_close(run(torch.ones(3), factor), factor * torch.ones(3))
    assert len(traces) == 1

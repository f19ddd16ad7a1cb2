"""anabranch.compile takes sizes and numbers that data decide into its graphs, without the
user's switches, and other backends see no change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from whole_graphs import assert_whole

import anabranch
from anabranch import backend
from anabranch.report import counters


def chosen(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    rows = x[y > 0]
    count = int((y > 0).sum())
    return rows.sum() + count, rows * 2, y.nonzero(), x[:count] + 1, y.long().unique()


def masked(x: Tensor, y: Tensor) -> Tensor:
    return x[y > 0] + 1


def branching(x: Tensor, y: Tensor) -> Tensor:
    return x + 1 if x.sum().item() > 0 else y - 1


def picking(x: Tensor, y: Tensor) -> Tensor:
    return [x, x * 2, y][int((y > 0).sum()) % 3] + 1


def arguments(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(8, generator=generator) for _ in range(2))  # type: ignore


def compare(function: Any, compiled: Any, seeds: range = range(3)) -> None:
    with torch.no_grad():
        for seed in seeds:
            expected = function(*arguments(seed))
            torch.testing.assert_close(compiled(*arguments(seed)), expected)


def test_one_graph() -> None:
    torch._dynamo.reset()
    counters.reset()
    compare(chosen, anabranch.compile(chosen, fullgraph=True))
    assert counters.graphs == 1
    assert_whole()
    assert not torch._dynamo.config.capture_scalar_outputs
    assert not torch._dynamo.config.capture_dynamic_output_shape_ops


def test_others_break_their_graphs() -> None:
    off = anabranch.compile(masked, run_sizes=False)
    for run in (off, torch.compile(masked, backend=backend.anabranch)):
        torch._dynamo.reset()
        counters.reset()
        compare(masked, run, range(1))
        assert counters.graphs > 1


def test_code_that_dynamo_cannot_trace_breaks_the_graph() -> None:
    for function in (branching, picking):
        torch._dynamo.reset()
        compare(function, anabranch.compile(function))
        with torch.no_grad(), pytest.raises(Exception, match="data-dependent"):
            anabranch.compile(function, fullgraph=True)(*arguments(0))


def test_gradients() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x[x > 0] * y.sum()).sum() + (y * int((x > 0).sum())).sum()

    torch._dynamo.reset()
    compiled = anabranch.compile(function)
    for seed in range(2):
        given = [value.requires_grad_() for value in arguments(seed)]
        expected = torch.autograd.grad(function(*given), given)
        found = torch.autograd.grad(compiled(*given), given)
        torch.testing.assert_close(found, expected)


def test_a_notice_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2)[x > 0] + 1, backend=backend.anabranch)
    with torch.no_grad():
        for _ in range(12):
            compiled(torch.ones(4))
    said = capsys.readouterr().err
    assert "test_captured_sizes.py" in said
    assert "anabranch.compile(model) takes what data decide into the graph" in said

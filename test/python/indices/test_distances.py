"""Distances between rows of matrices run in kernels, and equal float64's."""

from __future__ import annotations

import math

import pytest
import torch

import anabranch

MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
# Shapes: few rows, many, batches that are expanded, one row, and rows without elements.
SHAPES = (
    ((5, 3), (4, 3)),
    ((30, 7), (12, 7)),
    ((2, 1, 6, 3), (3, 5, 3)),
    ((1, 3), (1, 3)),
    ((4, 0), (3, 0)),
)


def pair(shapes, dtype=torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator, dtype=dtype) for s in shapes]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_norms(p, dynamic):
    def function(x, y):
        return torch.cdist(x, y, p)

    for shapes in SHAPES:
        torch._dynamo.reset()
        run = torch.compile(
            function, backend="anabranch", fullgraph=True, dynamic=dynamic
        )
        x, y = pair(shapes)
        wanted = function(x.double(), y.double()).float()
        torch.testing.assert_close(run(x, y), wanted, rtol=2e-5, atol=1e-5)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode, dtype):
    def function(x, y):
        return torch.cdist(x, y, compute_mode=mode)

    run = torch.compile(function, backend="anabranch", fullgraph=True)
    for rows in (20, 40):
        x, y = pair(((rows, 9), (rows, 9)), dtype)
        wanted = function(x.double(), y.double()).to(dtype)
        torch.testing.assert_close(run(x, y), wanted)
    assert anabranch.counters.fallback_calls == 0


def test_equal_rows_by_products():
    """The difference of squares is no negative number, whose root is NaN."""
    x, _ = pair(((64, 5), (1, 5)))
    run = torch.compile(torch.cdist, backend="anabranch", fullgraph=True)
    found = run(x, x).diagonal()
    assert found.max() < 5e-3
    assert found.min() >= 0


@pytest.mark.parametrize("rows", [4, 40])
def test_gradients(rows):
    found = []
    for run in (torch.cdist, torch.compile(torch.cdist, backend="anabranch")):
        x, y = (t.requires_grad_() for t in pair(((rows, 3), (rows + 1, 3))))
        run(x, y).square().sum().backward()
        found.append((x.grad, y.grad))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)

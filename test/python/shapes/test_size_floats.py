"""Floats that a graph computes from symbolic sizes: as arguments of operators, and as
sizes again after rounding."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

import anabranch
from anabranch import Config, backend

CASES = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "scale computed again": lambda x: F.interpolate(
        x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True
    ),
    "to a size": lambda x: F.interpolate(
        x, size=(x.shape[2] * 2, x.shape[3] + 1), mode="bilinear"
    ),
    "int": lambda x: x.new_zeros(int(x.shape[2] * 1.5)) + x[0, 0, 0, 0],
    "floor": lambda x: x.new_ones(math.floor(x.shape[2] * 0.7)) * x.sum(),
    "ceil": lambda x: torch.arange(math.ceil(x.shape[3] / 4)) + x.shape[2],
    "negative": lambda x: x * (-x.shape[2] / x.shape[3]),
    "of integers": lambda x: (x > 0).long() + x.shape[2] / x.shape[3],
    "fill": lambda x: torch.full((x.shape[2],), x.shape[2] / 7) + x[0, 0, :, 0],
    "difference": lambda x: torch.sub(x, x, alpha=x.shape[2] / 3),
    "threshold": lambda x: F.hardtanh(x, -1 / x.shape[2], 1.0 / x.shape[3]),
    "power": lambda x: x.abs() ** (1 / x.shape[2]),
    "quantile": lambda x: torch.quantile(x, 0.3, dim=-1),
}
IMAGES = [(2, 3, 6, 10), (2, 3, 8, 14), (3, 2, 7, 5)]


@pytest.fixture
def eager(monkeypatch):
    """The number of graphs that PyTorch ran."""
    found: list[str] = []
    for name in ("record_eager", "record_parts"):
        monkeypatch.setattr(backend, name, lambda *given: found.append(given[1]))
    return found


@pytest.mark.parametrize("name", CASES)
def test_floats_of_sizes(name, eager) -> None:
    torch.manual_seed(0)
    function = CASES[name]
    compiled = torch.compile(
        function, backend=anabranch.anabranch, dynamic=True, fullgraph=True
    )
    for shape in IMAGES:
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), function(x))
    assert not eager


def test_a_call_gets_the_float(eager) -> None:
    """PyTorch runs an operator whose arguments are a float and a list of floats."""

    def function(x):
        return torch.special.polygamma(2, torch.nan_to_num(x, nan=x.shape[0] / 3))

    compiled = torch.compile(
        function, backend=anabranch.anabranch, dynamic=True, fullgraph=True
    )
    for rows in (4, 7):
        x = torch.rand(rows, 3) + 1
        x[0] = float("nan")
        torch.testing.assert_close(compiled(x), function(x))
    assert not eager


def test_floats_of_sizes_that_are_bound_later(eager) -> None:
    """One description gives programs for exact sizes."""
    function = CASES["scale computed again"]
    run = anabranch.compile(function, config=Config(shapes="tiered"))
    for _ in range(3):
        for shape in IMAGES:
            x = torch.randn(shape)
            torch.testing.assert_close(run(x), function(x))
    x = torch.randn(6, 4)
    anabranch.set_gears(x, {0: [4, 6, 9]})
    geared = torch.compile(
        lambda x: x * (x.shape[0] / 7), backend=anabranch.anabranch, fullgraph=True
    )
    torch.testing.assert_close(geared(x), x * (6 / 7))
    for rows in (4, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(geared(x), x * (rows / 7))
    assert not eager


def test_a_float_is_no_output(eager) -> None:
    compiled = torch.compile(
        lambda x: (x + 1, x.shape[0] / 3), backend=anabranch.anabranch, dynamic=True
    )
    for rows in (4, 5):
        assert compiled(torch.ones(rows))[1] == rows / 3


def test_a_power_of_sizes_runs(eager) -> None:
    """No program can compute it, so PyTorch runs the graph."""
    compiled = torch.compile(
        lambda x, y, z: x * y**z, backend=anabranch.anabranch, dynamic=True
    )
    for y, z in ((2, 3), (3, 4), (5, 2)):
        x = torch.ones(3)
        assert torch.equal(compiled(x, y, z), x * y**z)
    assert eager

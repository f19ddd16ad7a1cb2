"""Sums, means and maxima of bags of rows equal eager PyTorch's, also in packages."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import anabranch

ROWS, WIDTH = 11, 6
MODES = ("sum", "mean", "max")


def table(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    return values.to(dtype)


def call(mode: str, padding: int | None, weighted: bool, last: bool):
    def function(weight, indices, offsets, weights):
        return F.embedding_bag(
            indices,
            weight,
            offsets,
            mode=mode,
            padding_idx=padding,
            per_sample_weights=weights if weighted else None,
            include_last_offset=last,
        )

    return function


def arguments(sizes: list[int], last: bool, dtype=torch.int64) -> list[torch.Tensor]:
    """Bags of these sizes."""
    generator = torch.Generator().manual_seed(sum(sizes))
    ends = list(itertools.accumulate(sizes, initial=0))
    indices = torch.randint(0, ROWS, (ends[-1],), generator=generator)
    offsets = torch.tensor(ends if last else ends[:-1])
    weights = torch.rand(ends[-1], generator=generator)
    return [indices.to(dtype), offsets.to(dtype), weights]


# Empty bags at the beginning, the end and between others, one bag, and none that has rows.
BAGS = ([3, 2, 4], [0, 3, 0, 0, 2, 0], [5], [0, 0], [1, 1, 1, 1])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [None, 4, -2])
@pytest.mark.parametrize("mode", [*MODES, "weighted"])
def test_bags_of_any_sizes(mode, padding, last):
    function = call(mode.replace("weighted", "sum"), padding, mode == "weighted", last)
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    for sizes in BAGS:
        given = [table(), *arguments(sizes, last)]
        torch.testing.assert_close(compiled(*given), function(*given))
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", MODES)
def test_dtypes_and_narrow_indices(mode, dtype):
    function = call(mode, None, False, False)
    given = [table(dtype), *arguments([3, 0, 7, 2], False, torch.int32)]
    wanted = function(given[0].double(), *given[1:]).to(dtype)
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    torch.testing.assert_close(compiled(*given), wanted)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode, dynamic):
    """PyTorch's backward functions read what the forward graph saves for them."""
    function = call(mode, 4, mode == "sum", False)
    found = []
    for run in (
        function,
        torch.compile(function, backend="anabranch", dynamic=dynamic),
    ):
        weight = table().requires_grad_()
        indices, offsets, weights = arguments([3, 0, 5, 2], False)
        run(
            weight, indices, offsets, weights.requires_grad_()
        ).square().sum().backward()
        found.append((weight.grad, weights.grad if mode == "sum" else None))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_many_rows(mode):
    """From this many rows on PyTorch's kernel adds them."""
    function = call(mode, None, False, False)
    weight = torch.randn(50, 64, generator=torch.Generator().manual_seed(2))
    indices = torch.randint(0, 50, (2000,), generator=torch.Generator().manual_seed(3))
    given = [weight, indices, torch.arange(0, 2000, 20), None]
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    torch.testing.assert_close(compiled(*given), function(*given))
    assert anabranch.counters.fallback_calls == (mode == "sum")


def test_an_index_outside_of_the_table():
    function = call("sum", None, False, False)
    compiled = torch.compile(function, backend="anabranch", fullgraph=True)
    indices, offsets, weights = arguments([2, 3], False)
    compiled(table(), indices, offsets, weights)
    for wrong in (ROWS, -1):
        indices[3] = wrong
        for run in (function, compiled):
            with pytest.raises(RuntimeError):
                run(table(), indices, offsets, weights)


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.EmbeddingBag(5000, 32, mode="sum")
        self.means = nn.EmbeddingBag(50, 8, mode="mean", padding_idx=0)

    def forward(self, indices, offsets, history):
        return self.sums(indices, offsets), self.means(history)


def test_a_package(tmp_path):
    """Also one of many rows: a package has no PyTorch."""
    torch.manual_seed(0)
    model = Bags().eval()
    rows = torch.export.Dim("rows", min=2, max=100_000)
    bags = torch.export.Dim("bags", min=2, max=1000)

    def inputs(rows: int, bags: int) -> tuple[torch.Tensor, ...]:
        starts = torch.arange(bags) * (rows // bags)
        return torch.randint(0, 5000, (rows,)), starts, torch.randint(0, 50, (bags, 4))

    shapes = ({0: rows}, {0: bags}, {0: bags})
    anabranch.export(model, tmp_path / "m.anb", inputs(3000, 9), dynamic_shapes=shapes)
    package = anabranch.load(tmp_path / "m.anb")
    for given in (inputs(3000, 9), inputs(40, 7)):
        found = [torch.from_numpy(r) for r in package(*(t.numpy() for t in given))]
        torch.testing.assert_close(found, list(model(*given)))

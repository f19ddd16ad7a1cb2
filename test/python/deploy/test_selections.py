"""Packages select, count and repeat without PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from whole_graphs import together

import anabranch
import anabranch_runtime
from anabranch_runtime import native

ROOT = Path(__file__).resolve().parents[3]


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def experts(x):
    rows = (x[:, 0] > 0).nonzero().squeeze(1)
    return torch.zeros_like(x).index_add(0, rows, x[rows] * 3)


FUNCTIONS = {
    "chosen": lambda x: (x[x[:, 0] > 0] * 2).sum(0) + x,
    "elements": lambda x: x[x > 0].exp().sum(),
    "masked_select": lambda x: torch.masked_select(x, x[:, :1] > 1).sum() + x,
    "nonzero": lambda x: (x > 0).nonzero().sum(0),
    "experts": experts,
    "histc": lambda x: torch.histc(x, 4),
    "histogram": lambda x: torch.histogram(x, 4, weight=x, density=True).bin_edges,
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "rows": lambda x: torch.unique(x > 0, dim=0).sum(),
    "solved": lambda x: torch.linalg.solve_triangular(
        x[:3], x[1:], upper=False, unitriangular=True
    ),
    "runs": lambda x: torch.unique_consecutive(x > 0).sum(),
    "again": lambda x: x[x[:, 0] > 0][:, 1:].sum(0) + x[x[:, 1] < 0].sum(),
}
INTEGERS = {
    "repeat_interleave": lambda n: torch.repeat_interleave(n * 2, n).sum() + n,
    "bincount": lambda n: torch.bincount(n).max() + torch.bincount(n, n / 2).sum(),
    "unique": lambda n: sum(
        part.double().pow(2).sum()
        for part in torch.unique(n, return_inverse=True, return_counts=True)
    ),
}
MATRICES = [value for value in (torch.arange(12.0), -torch.ones(12), torch.ones(12))]
VECTORS = [torch.tensor(n) for n in ([2, 0, 1, 2], [0, 0, 0, 0], [1, 1, 1, 7])]


def compare(functions, path, values) -> None:
    """From NumPy, without PyTorch."""
    function = together(functions)
    anabranch.export(Model(function).eval(), path, (values[0],))
    loaded = anabranch.load(path)
    for value in values:
        found, wanted = loaded(value.numpy()), function(value)
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want)


def test_selections(tmp_path) -> None:
    values = [(value.view(4, 3) - 5) for value in MATRICES]
    compare(FUNCTIONS, tmp_path / "package", values)


def test_counts(tmp_path) -> None:
    compare(INTEGERS, tmp_path / "package", VECTORS)


def order(x):
    """Positions of equal elements are eager's."""
    sorted_rows, places = torch.sort(x)
    columns = torch.sort(x, dim=0, descending=True, stable=False)
    most = torch.topk(x, 3)
    least = torch.topk(x, 2, dim=0, largest=False)
    return (sorted_rows, places, *columns, *most, *least, torch.argsort(x))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float16])
def test_orders(dtype, tmp_path) -> None:
    shapes = (
        {0: torch.export.Dim("rows", min=2), 1: torch.export.Dim("columns", min=3)},
    )
    sizes = ((4, 5), (3, 700), (2, 3), (40, 6))
    values = [torch.randint(-9, 9, size).to(dtype) for size in sizes]
    model = Model(order).eval()
    anabranch.export(
        model, tmp_path / "package", (values[0],), dynamic_shapes=(shapes,)
    )
    loaded = anabranch.load(tmp_path / "package")
    for x in values:
        for got, want in zip(loaded(x.numpy()), order(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want, rtol=0, atol=0)


def test_a_negative_number_is_refused(tmp_path) -> None:
    model = Model(INTEGERS["bincount"]).eval()
    anabranch.export(model, tmp_path / "package", (VECTORS[0],))
    loaded = anabranch.load(tmp_path / "package")
    with pytest.raises((ValueError, RuntimeError), match="test_selections.py"):
        loaded(torch.tensor([1, -1, 0, 2]).numpy())


# Results whose size the run decides
FOUND = {
    "rows": lambda x: x[x[:, 0] > 0] * 2,
    "selection": lambda x: x[x > 0],
    "nonzero": lambda x: (x > 0).nonzero(),
    "halves": lambda x: x[x > 0].half(),
    "known": lambda x: x + 1,
    "columns": lambda x: x[x[:, 0] > 0].T,
}


def test_results_of_unknown_size(tmp_path, monkeypatch) -> None:
    values = [(value.view(4, 3) - 5) for value in MATRICES]
    compare(FOUND, tmp_path / "package", values)
    # A process without PyTorch, and one that passes tensors.
    monkeypatch.setattr(native, "__file__", str(ROOT / "build" / "native.py"))
    native.library.cache_clear()
    loaded = anabranch_runtime.load(tmp_path / "package")
    shapes = [info["shape"] for info in loaded.outputs]
    assert shapes[1:3] == [[-1], [-1, 2]]
    tensors = anabranch.load(tmp_path / "package")
    for value in values:
        wanted = together(FOUND)(value)
        for run in (loaded(value.numpy()), tensors(value)):
            for got, want in zip(run, wanted, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), want)

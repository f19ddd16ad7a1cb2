"""Packages select, count and repeat without PyTorch."""

from __future__ import annotations

import pytest
import torch

import anabranch


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
    "rows": lambda x: (x[x[:, 0] > 0] * 2).sum(0) + x,
    "elements": lambda x: x[x > 0].exp().sum(),
    "masked_select": lambda x: torch.masked_select(x, x[:, :1] > 1).sum() + x,
    "nonzero": lambda x: (x > 0).nonzero().sum(0),
    "experts": experts,
    "again": lambda x: x[x[:, 0] > 0][:, 1:].sum(0) + x[x[:, 1] < 0].sum(),
}
INTEGERS = {
    "repeat_interleave": lambda n: torch.repeat_interleave(n * 2, n).sum() + n,
    "bincount": lambda n: (torch.bincount(n).max(), torch.bincount(n, n / 2).sum()),
    "unique": lambda n: tuple(
        part.double().pow(2).sum()
        for part in torch.unique(n, return_inverse=True, return_counts=True)
    ),
}
MATRICES = [value for value in (torch.arange(12.0), -torch.ones(12), torch.ones(12))]
VECTORS = [torch.tensor(n) for n in ([2, 0, 1, 2], [0, 0, 0, 0], [1, 1, 1, 7])]


def compare(function, path, values) -> None:
    """From NumPy, without PyTorch."""
    anabranch.export(Model(function).eval(), path, (values[0],))
    loaded = anabranch.load(path)
    for value in values:
        found, wanted = loaded(value.numpy()), function(value)
        if isinstance(wanted, torch.Tensor):
            found, wanted = (found,), (wanted,)
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_selections(name, dtype, tmp_path) -> None:
    values = [(value.view(4, 3) - 5).to(dtype) for value in MATRICES]
    if dtype == torch.bfloat16:  # NumPy has no bf16
        values = [value.float() for value in values]

        def function(x):
            return FUNCTIONS[name](x.bfloat16()).float()
    else:
        function = FUNCTIONS[name]
    compare(function, tmp_path / "package", values)


@pytest.mark.parametrize("name", INTEGERS)
def test_counts(name, tmp_path) -> None:
    compare(INTEGERS[name], tmp_path / "package", VECTORS)


def test_a_negative_number_is_refused(tmp_path) -> None:
    anabranch.export(Model(INTEGERS["bincount"]), tmp_path / "package", (VECTORS[0],))
    loaded = anabranch.load(tmp_path / "package")
    with pytest.raises((ValueError, RuntimeError), match="negative|Runtime assertion"):
        loaded(torch.tensor([1, -1, 0, 2]).numpy())

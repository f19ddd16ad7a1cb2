"""Reductions of many elements to few results, which workers share in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checking import exported_for
from torch import Tensor

import anabranch

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(),
    "mean of images": lambda x: x.mean((2, 3)),
    "mean of rows": lambda x: x.mean(2),
    "sum of channels": lambda x: (x * 2).sum(1),
    "largest": lambda x: x.amax(),
    "least of images": lambda x: x.amin((0, 2, 3)),
    "squares": lambda x: (x - 1).square().sum((2, 3)),
    "variance": lambda x: x.var((2, 3)),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "any": lambda x: (x > 3).any(),
    "all": lambda x: (x > -9).all((2, 3)),
    "several": lambda x: torch.stack([x.sum(), x.amax(), (x * x).mean()]),
}
LAYOUTS = {
    "channels first": torch.contiguous_format,
    "channels last": torch.channels_last,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_error_is_eagers(layout: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 160, 150).to(dtype).to(memory_format=LAYOUTS[layout])

    def every(x: Tensor) -> list[Tensor]:
        return [reduce(x) for reduce in REDUCTIONS.values()]

    torch._dynamo.reset()
    with torch.no_grad():
        results = anabranch.compile(every, fullgraph=True)(x)
        exact, eager = every(x.double()), every(x)
    for name, result, wanted, own in zip(REDUCTIONS, results, exact, eager):
        assert result.dtype == own.dtype, name
        scale = wanted.double().abs().max()
        allowed = 2 * (own.double() - wanted.double()).abs().max()
        allowed += 4 * torch.finfo(dtype).eps * scale
        assert (result.double() - wanted.double()).abs().max() <= allowed, name


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((70, 96), 0),
        ((400, 96), 0),
        ((5000, 48), 0),
        ((100_000, 17), 0),
        ((6, 900, 40), 1),
        ((4, 20, 20, 33), (1, 2)),
        ((40, 3000), 1),
        ((50, 40, 9), (0, 1)),
        # From memory, row by row: parts of rows, whole ones, and loops that run as one.
        ((1400, 2100), 0),
        ((9001, 333), 0),
        ((3, 2500, 260), 1),
        ((8, 25, 26, 523), (0, 1, 2)),
        ((70_000, 96), 0),
    ],
)
def test_sums_over_outer_dimensions_lose_no_digits(
    shape: tuple[int, ...], dim: int | tuple[int, ...], dynamic: bool, offset: float
) -> None:
    """Elements that are added one after the other lose more with each step."""
    torch.manual_seed(0)
    x = torch.randn(shape) + offset

    def error(sums: Tensor) -> float:
        return (sums - x.double().sum(dim)).square().mean().sqrt().item()

    torch._dynamo.reset()
    compiled = anabranch.compile(lambda x: x.sum(dim), dynamic=dynamic)
    assert error(compiled(x)) <= 2 * error(x.sum(dim))


COLUMNS: dict[str, Callable[[Tensor], object]] = {
    "sum": lambda x: x.sum(0),
    "greatest": lambda x: x.amax(0),
    "least": lambda x: x.amin(0),
    "mean of squares": lambda x: ((x - 1) * x).mean(0),
    "several": lambda x: (x.sum(0), x.amin(0), (x * x).sum(0)),
    "epilogue": lambda x: (x.mean(0) + 1).relu() * x[0],
    "norm": lambda x: torch.linalg.vector_norm(x, dim=0),
    "variance": lambda x: x.var(0),
    "any": lambda x: (x > 3).any(0),
    "argmax": lambda x: x.argmax(0),
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: x[:300].cumsum(0).amax(0),
    "product": lambda x: (1 + x * 1e-4).prod(0),
}


def large(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Larger than the second cache of every target."""
    x = torch.randn(rows, columns).to(dtype)
    assert x.numel() * x.element_size() > 2**21
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("rows", "columns"), [(2000, 1029), (8192, 150), (333, 7000)])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_large_tensors(
    name: str, rows: int, columns: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    x, reduce = large(rows, columns, dtype), COLUMNS[name]
    torch._dynamo.reset()
    found = anabranch.compile(reduce, fullgraph=True, dynamic=False)(x)
    results, own, exact = found, reduce(x), reduce(x.double())
    if not isinstance(found, tuple):
        results, own, exact = (found,), (own,), (exact,)
    for result, eager, wanted in zip(results, own, exact):
        assert result.dtype == eager.dtype
        if not result.is_floating_point():
            assert torch.equal(result, eager)
            continue
        allowed = 2 * (eager.double() - wanted).abs().max()
        # What is exact for the other dtypes has eager's own error in float64.
        units = 256 if dtype == torch.float64 else 4
        allowed += units * torch.finfo(dtype).eps * wanted.abs().max()
        assert (result.double() - wanted).abs().max() <= allowed


@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("columns", [33, 260, 1029, 5003])
def test_columns_on_targets(columns: int, target: str, tmp_path: Path) -> None:
    class Columns(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.sum(0), (x * 2 + 1).amax(0)

    x = large(1 + 3_000_000 // columns, columns, torch.float32)
    x[5, 7], x[6, 8] = float("nan"), float("inf")
    package = exported_for(target, Columns().eval(), (x,), tmp_path / "p")
    sums, most = package(x)
    torch.testing.assert_close(
        sums.double(), x.double().sum(0), rtol=1e-5, atol=1e-3, equal_nan=True
    )
    torch.testing.assert_close(most, (x * 2 + 1).amax(0), equal_nan=True)


def test_a_result_that_overwrites_an_argument() -> None:
    torch.manual_seed(0)
    x, total = large(3000, 300, torch.float32), torch.randn(300)
    wanted = total.double() + x.double().sum(0)
    anabranch.compile(lambda x, t: t.add_(x.sum(0)), fullgraph=True)(x, total)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)


def test_not_a_number_reaches_its_result() -> None:
    x = torch.zeros(1, 4, 160, 150)
    x[0, 1, 80, 3] = float("nan")
    x[0, 2, 81, 4] = float("inf")

    def every(x: Tensor) -> list[Tensor]:
        return [x.amax((2, 3)), x.amin((2, 3)), x.sum((2, 3)), x.mean((2, 3))]

    for result, wanted in zip(anabranch.compile(every, fullgraph=True)(x), every(x)):
        torch.testing.assert_close(result, wanted, equal_nan=True)


def test_integers() -> None:
    x = torch.randint(-100, 100, (1, 4, 160, 150))

    def every(x: Tensor) -> list[Tensor]:
        return [x.sum(), x.amax((2, 3)), x.to(torch.int32).sum((2, 3)), x.min()]

    for result, wanted in zip(anabranch.compile(every, fullgraph=True)(x), every(x)):
        assert torch.equal(result, wanted)


def test_threads_do_not_change_the_order_of_a_sum() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 8, 200, 100)
    sums = []
    for threads in (1, 2):
        torch._dynamo.reset()
        run = anabranch.compile(lambda x: (x.sum(), x.var((2, 3))), threads=threads)
        sums.append(run(x))
    for one, two in zip(*sums):
        assert torch.equal(one, two)

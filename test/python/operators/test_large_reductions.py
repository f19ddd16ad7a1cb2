"""Reductions of many elements to few results, which workers share in parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
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

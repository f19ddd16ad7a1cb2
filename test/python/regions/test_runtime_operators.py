"""Operators that the runtime runs itself, because they decide a size, against eager
PyTorch: they call no PyTorch (`describe/own_operators.py`)."""

from __future__ import annotations

import pytest
import torch
from whole_graphs import SETTINGS, check_whole, together

import anabranch

aten = torch.ops.aten

SELECTIONS = {
    "rows": lambda x: x[x[:, 0] > 0],
    "columns": lambda x: x[:, x[0] > 0],
    "elements": lambda x: x[x > 0],
    "transposed": lambda x: x.t()[x.t() > 0],
    "nonzero": lambda x: x.nonzero(),
    "vector": lambda x: x[:, 0].nonzero(),
    "masked_select": lambda x: torch.masked_select(x, x[:, :1] > 0),
    "where": lambda x: x[torch.where(x > 0)],
    "size": lambda x: torch.arange(torch.masked_select(x, x > 0).shape[0]) * 2,
    "mask and number": lambda x: x[x[:, 0] > 0, 1],
    "mask and places": lambda x: x[x[:, 0] > 0, torch.tensor([2])],
    "mask of two dimensions": lambda x: x.unsqueeze(0).expand(2, -1, -1)[:, x > 0],
}
ASSIGNMENTS = {
    "rows": lambda x: aten.index_put(x, [x[:, 0] > 0], x[0]),
    "all": lambda x: aten.index_put(x, [x.abs() >= 0], x.t().reshape(-1)),
    "none": lambda x: aten.index_put(x, [x.abs() < 0], x.reshape(-1)[:1]),
    "columns": lambda x: aten.index_put(x, [None, x[0].abs() >= 0], x.flip(0)),
    "adds": lambda x: aten.index_put(x, [x > 2], x[x > 2] * 2, True),
    "adds rows": lambda x: aten.index_put(x, [x[:, 0] > 0], x[1], True),
    "adds columns": lambda x: aten.index_put(x, [None, x[0] > 0], x[:1, :1], True),
    "number": lambda x: aten.index_put(x, [x[:, 0] > 0, torch.tensor(1)], x[0, :1]),
    "number adds": lambda x: aten.index_put(
        x, [x[:, 0] > 0, torch.tensor([1])], x[0, :1], True
    ),
    "other type": lambda x: aten.index_put(x, [x > 2], torch.tensor(7)),
}
COUNTS = {
    "repeat": lambda n: torch.repeat_interleave(n),
    "repeat rows": lambda n: torch.repeat_interleave(n.view(-1, 1) * 2, n, dim=0),
    "bincount": lambda n: torch.bincount(n, minlength=3),
    "weights": lambda n: torch.bincount(n, n / 4),
    "wide weights": lambda n: torch.bincount(n, n.double() / 4),
    "unique": lambda n: torch.unique(n - 3, return_inverse=True, return_counts=True),
    "halves": lambda n: torch.unique(n.half() / 2, return_counts=True),
}
EDGES = [-4.0, -1.0, 3.5, 7.0]
HISTOGRAMS = {
    "bounds of data": lambda x: torch.histc(x, 7),
    "bins": lambda x: torch.histogram(x, 7),
    "wide": lambda x: torch.histogram(x.double(), 7, range=(-3.3, 4.1)),
    "density": lambda x: torch.histogram(
        x, 5, range=(-9.0, 9.0), weight=x * x + 1, density=True
    ),
    "edges": lambda x: torch.histogram(x, torch.tensor(EDGES), weight=x),
    "two dimensions": lambda x: torch.histogramdd(x[:, :2], bins=[3, 1]),
    "their range": lambda x: torch.histogramdd(
        x[:, 1:3], bins=[2, 4], range=[-9.0, 5.0, 2.0, 2.0]
    ),
    "their density": lambda x: torch.histogramdd(
        x[:, :3], bins=2, weight=x[:, 3] * x[:, 3] + 1, density=True
    ),
    "their edges": lambda x: torch.histogramdd(
        x.double()[:, 2:4], bins=[torch.tensor(EDGES).double()] * 2
    ),
}
ROWS = {
    "consecutive": lambda x: torch.unique_consecutive(x // 3),
    "all of it": lambda x: torch.unique_consecutive(
        x // 3, return_inverse=True, return_counts=True
    ),
    "rows": lambda x: torch.unique_consecutive(x > 0, dim=0, return_counts=True),
    "sorted rows": lambda x: torch.unique(x > 0, dim=0, return_inverse=True),
    "sorted columns": lambda x: torch.unique(x, dim=-1, return_counts=True),
}
MASKS = {
    "scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "broadcast": lambda x: x[0].masked_scatter(x > 0, x.flip(1)),
    "static": lambda x: torch.nonzero_static(x > 2, size=6, fill_value=-3),
    "shorter": lambda x: torch.nonzero_static(x, size=2),
}
SORTS = {
    "rows": lambda x: torch.sort(x, stable=True),
    "columns": lambda x: torch.sort(x, dim=0, descending=True, stable=True),
    "signs": lambda x: torch.sort(x != 3, dim=-2, stable=True),
    "any order": lambda x: torch.sort(x, stable=False),
    "number": lambda x: torch.sort(x[0, 0], dim=-1, stable=True),
    "none": lambda x: torch.sort(x[:, :0], stable=True),
}
MOST = 2**63 - 1
# Of each dtype these run; of f32 all do.
SOME = ("elements", "nonzero")
DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def matrices(dtype: torch.dtype) -> list[torch.Tensor]:
    numbers = torch.arange(-10, 10).view(4, 5)
    return [value.to(dtype) for value in (numbers, numbers * 0, numbers.abs() + 1)]


def check_own(functions, *calls) -> None:
    check_whole(together(functions), *calls)
    report = anabranch.last_report() or {}
    assert not report.get("fallbacks"), report["fallbacks"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_selections(dtype) -> None:
    calls = [(value,) for value in matrices(dtype)]
    calls += [(calls[0][0].t().contiguous().t(),)]
    names = SELECTIONS if dtype is torch.float32 else SOME
    check_own({name: SELECTIONS[name] for name in names}, *calls)


def test_complex_numbers() -> None:
    real = torch.arange(12.0).view(3, 4) % 3 - 1
    x = torch.complex(real, real.roll(1) * -0.0)
    check_own({"nonzero": lambda x: x.nonzero()}, (x,), (x * 1j,), (x * 0,))


def test_assignments() -> None:
    calls = [(value,) for value in matrices(torch.float32)]
    check_own(ASSIGNMENTS, *calls)


def test_counts() -> None:
    lists = ([2, 0, 1, 7], [0, 0, 0, 0], [1, 1, 1, 9])
    check_own(COUNTS, *[(torch.tensor(numbers),) for numbers in lists])
    small = {name: COUNTS[name] for name in ("bincount", "unique")}
    check_own(small, *[(torch.tensor(n, dtype=torch.int8),) for n in lists])


def test_histograms() -> None:
    calls = [(value,) for value in matrices(torch.float32)]
    calls += [(torch.linspace(-1, 1, 20).view(4, 5),)]
    check_own(HISTOGRAMS, *calls)


def test_empty_histogram() -> None:
    functions = {name: HISTOGRAMS[name] for name in ("bounds of data", "bins")}
    check_own(functions, (torch.empty(0),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_unique_rows(dtype) -> None:
    calls = [(value,) for value in matrices(dtype)]
    names = ROWS if dtype is torch.float32 else ("sorted columns",)
    calls += [(calls[0][0].t().contiguous().t(),)]
    check_own({name: ROWS[name] for name in names}, *calls)


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
@pytest.mark.parametrize("dynamic", [True, False])
def test_sorts(dtype, dynamic) -> None:
    """Rows of symbolic length, of any length, and those that have none."""
    sizes = [(4, 5), (3, 700)] if dynamic else [(4, 700)]
    calls = [torch.randint(-9, 9, size).to(dtype) for size in sizes]
    calls += [calls[0].t().contiguous().t()]
    if dtype.is_floating_point:
        calls += [calls[0] / calls[0]]  # NaN and equal numbers
    sort = together(SORTS)
    compiled = anabranch.compile(sort, dynamic=dynamic)
    for x in calls:
        for pair in zip(compiled(x), sort(x), strict=True):
            for found, expected in zip(*pair, strict=True):
                same(found, expected)
                assert found.stride() == expected.stride() or not found.numel()
    report = anabranch.last_report() or {}
    assert not report.get("fallbacks"), report["fallbacks"]


def triangular(a, b):
    solve = torch.linalg.solve_triangular
    lower = a.tril()
    return (
        solve(lower, b, upper=False),
        solve(a, b, upper=True),
        solve(a, b, upper=False, unitriangular=True),
        solve(a, b.transpose(-1, -2), upper=False, left=False),
        solve(lower.mT, b.mT, upper=True, left=False, unitriangular=True),
        solve(lower, b[0, :, :5], upper=False),
        solve(a[0], b, upper=True),
        solve(a[0], b[..., :0], upper=True),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dynamic", [True, False])
def test_triangular_systems(dtype, dynamic) -> None:
    """Upper and lower, from both sides, batches that one operand lacks, and no columns:
    each as near to the result in double precision as eager is, within a factor. In
    double precision, that result is eager's own."""
    roundings = 8 if dtype is torch.float64 else 1
    generator = torch.Generator().manual_seed(0)
    compiled = anabranch.compile(triangular, dynamic=dynamic)
    for batch, size, columns in ((2, 5, 7), (3, 64, 70), (2, 130, 33)):
        a = torch.randn(batch, size, size, generator=generator, dtype=dtype) / size
        a += 2 * torch.eye(size, dtype=dtype)
        b = torch.randn(batch, size, columns, generator=generator, dtype=dtype)
        found, wanted = compiled(a, b), triangular(a, b)
        exact = triangular(a.double(), b.double())
        for ours, eager, true in zip(found, wanted, exact, strict=True):
            assert ours.shape == eager.shape
            if ours.numel():
                assert ours.stride() == eager.stride()
                room = roundings * torch.finfo(dtype).eps * true.abs().max()
                error = (eager - true).abs().max()
                assert (ours - true).abs().max() <= 2 * error + room
    report = anabranch.last_report() or {}
    assert not report.get("fallbacks"), report["fallbacks"]


def test_singular_systems_are_eagers() -> None:
    a = torch.ones(3, 3)
    a[1, 1] = 0
    b = torch.arange(6.0).view(3, 2)
    solve = lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)
    same(anabranch.compile(solve)(a, b), solve(a, b))


def test_static_masks() -> None:
    check_own(MASKS, *[(value,) for value in matrices(torch.float32)])


def test_unique_floats() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([0.0, -0.0, 9.0, inf, -inf, 9.0, -1.5, 1e-45])

    def run(x):
        x = torch.where(x == 9, nan, x)
        values, inverse = torch.unique(x, return_inverse=True)
        return values.nan_to_num(7), inverse

    check_own({"unique": run}, (x,), (x.flip(0),))


@pytest.mark.parametrize(
    ("function", "numbers", "message"),
    [
        (torch.bincount, [1, -1], "non-negative"),
        (torch.bincount, [1, MOST], "too large"),
        (torch.bincount, [1, MOST - 1], "no memory"),
        (lambda n: torch.bincount(n, minlength=-1), [1, 2], ">= 0"),
        (torch.repeat_interleave, [MOST, MOST, 5], "2\\^63"),
        (torch.repeat_interleave, [MOST - 1, 1], "no memory"),
        (torch.repeat_interleave, [1, -1], "negative"),
        (lambda n: torch.repeat_interleave(n, output_size=5), [1, 1], "add up to 2"),
        (lambda n: aten.index_put(n, [n > 0], n[:2]), [1, 1, 1], "broadcast"),
        (lambda n: n.masked_scatter(n > 0, n[:2]), [1, 1, 1], "chooses 3"),
        (lambda n: torch.histc(n / 0, 3), [1, 2], "not finite"),
        (lambda n: torch.histogram(n / 0, 3), [1, 2], "not finite"),
    ],
)
def test_errors_name_the_line(function, numbers, message) -> None:
    torch._dynamo.reset()

    def model(n):
        return function(n)

    run = torch.compile(model, backend=anabranch.anabranch, fullgraph=True)
    with torch._dynamo.config.patch(SETTINGS), torch.no_grad():
        errors = (ValueError, RuntimeError, MemoryError)
        with pytest.raises(errors, match=message) as error:
            run(torch.tensor(numbers))
        if error.type is not MemoryError:
            assert "test_runtime_operators.py" in str(error.value)


def test_a_package_counts_what_it_selects(tmp_path) -> None:
    class Model(torch.nn.Module):
        def forward(self, n):
            chosen = n[n > 0]
            return torch.unique(chosen), torch.bincount(chosen)

    numbers = [torch.tensor(n) for n in ([3, 0, 3, 1], [0, 0, 0, 0], [2, 2, 2, 2])]
    path = tmp_path / "package"
    anabranch.export(Model().eval(), path, (numbers[0],))
    loaded = anabranch.load(path)
    for value in numbers:
        for got, want in zip(loaded(value.numpy()), Model()(value), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want)

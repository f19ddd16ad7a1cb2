"""Edges of arithmetic equal eager: NaN, infinities, signed zeros, overflow, shifts
beyond the width, empty reductions, and arguments that are errors."""

from __future__ import annotations

import pytest
import torch

import anabranch

SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -2.5, 3e38, 1e-39]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def compiled(function, *arguments):
    result = torch.compile(function, backend=anabranch.anabranch)(*arguments)
    assert anabranch.last_report()["fallbacks"] == []
    return result


def check(function, *arguments):
    """Compares results with eager's, the signs of zeros included."""
    for ours, eager in zip(compiled(function, *arguments), function(*arguments)):
        torch.testing.assert_close(ours, eager, equal_nan=True, rtol=2e-6, atol=0)
        if eager.is_floating_point():
            zeros = eager == 0
            assert torch.equal(ours.signbit()[zeros], eager.signbit()[zeros])


def pairs(values, dtype):
    """All pairs of values, as two tensors."""
    given = torch.tensor(values).to(dtype)
    return given.repeat_interleave(len(given)), given.repeat(len(given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_special_floats(dtype):
    def function(x):
        return [
            *(x.abs(), -x, x.sign(), x.floor(), x.ceil(), x.trunc(), x.round()),
            *(x.sqrt(), x.reciprocal(), x.frac(), x.isnan(), x.isinf()),
            *(x.exp(), x.log(), x.tanh(), x.erf(), x.sigmoid(), x.atan()),
            *(x.clamp(-1, 1), x.nan_to_num(), x > 0),
        ]

    check(function, torch.tensor(SPECIAL, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pairs_of_special_floats(dtype):
    def function(a, b):
        return [
            *(torch.maximum(a, b), torch.minimum(a, b), torch.copysign(a, b)),
            *(a / b, a * b, a + b, a == b, a < b, a >= b, torch.atan2(a, b)),
            *(torch.fmod(a, b), torch.remainder(a, b), torch.floor_divide(a, b)),
            *(torch.div(a, b, rounding_mode="trunc"), torch.pow(a, b)),
            torch.where(a < b, a, b),
        ]

    # If the quotient exceeds the largest number, fmod has no exact digits.
    check(function, *pairs(SPECIAL[:-1], dtype))


def test_the_other_one_where_one_is_nan():
    a, b = pairs(SPECIAL, torch.float32)
    for function in (torch.fmax, torch.fmin):
        # The sign of a zero is not specified.
        ours = compiled(lambda a, b, f=function: f(a, b), a, b)
        torch.testing.assert_close(ours, function(a, b), equal_nan=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype):
    limits = torch.iinfo(dtype)
    a, b = pairs([limits.min, limits.max, 0, 1, 7, 100], dtype)

    def function(a, b):
        return [a + b, a - b, a * b, -a, a.abs(), a.square(), a.sum(dtype=dtype)]

    check(function, a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_rounds_as_asked(dtype):
    low = 0 if dtype is torch.uint8 else -7
    a, b = pairs([low, 7, 3, 2, 5, 1], dtype)

    def function(a, b):
        return [
            torch.div(a, b, rounding_mode="floor"),
            torch.div(a, b, rounding_mode="trunc"),
            *(torch.remainder(a, b), torch.fmod(a, b), a // b, a / b),
            *(torch.remainder(a, 3), torch.div(a, -2, rounding_mode="floor")),
        ]

    keep = b != 0
    check(function, a[keep], b[keep])


@pytest.mark.parametrize("dtype", INTEGERS[:-1])
def test_the_smallest_integer_by_minus_one_wraps(dtype):
    """The processor's division traps here, which ends a process in PyTorch's kernel."""
    smallest = torch.full((37,), torch.iinfo(dtype).min, dtype=dtype)

    def function(a, b):
        return [
            torch.div(a, b, rounding_mode="trunc"),
            torch.div(a, b, rounding_mode="floor"),
            *(torch.fmod(a, b), torch.remainder(a, b)),
        ]

    trunc, floor, *rests = compiled(function, smallest, torch.full_like(smallest, -1))
    assert torch.equal(trunc, smallest)
    assert torch.equal(floor, smallest)
    assert not any(rest.any() for rest in rests)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers(dtype):
    limits = torch.iinfo(dtype)
    a, b = pairs([limits.min, limits.max, 0, 1, 2, 3, 5, limits.max // 2], dtype)

    def function(a, b):
        return [a**b, a**3, 2**b, torch.pow(a, 63)]

    check(function, a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_beyond(dtype):
    bits = torch.iinfo(dtype).bits
    a, _ = pairs([torch.iinfo(dtype).min, -1 & 127, 5], dtype)
    b = torch.tensor([0, 1, bits - 1, bits, bits + 1, 100, 2, 3, 4]).to(dtype)

    def function(a, b):
        return [a << b, a >> b, a << bits, a >> (bits + 3)]

    check(function, a, b)


def test_empty_reductions():
    def function(x):
        return [
            *(x.sum(), x.sum(0), x.prod(), x.mean(), x.mean(0), x.any(), x.all()),
            *(x.cumsum(0), x.norm(), x.logsumexp(0), x.amax(1), x.var(0)),
        ]

    check(function, torch.empty(0, 3))


@pytest.mark.parametrize("name", ["amax", "argmax"])
def test_an_empty_extreme_is_an_error(name):
    def function(x):
        return getattr(x, name)()

    with pytest.raises((RuntimeError, IndexError)):
        compiled(function, torch.empty(0))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_zero_is_an_error(dtype):
    a, zero = torch.ones(5, dtype=dtype), torch.zeros(5, dtype=dtype)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        with pytest.raises((RuntimeError, ZeroDivisionError), match="[Zz]ero"):
            compiled(lambda a, b, f=function: f(a, b), a, zero)


@pytest.mark.parametrize("bad", [5, -6, 2**40])
def test_an_index_out_of_range_is_an_error(bad):
    x, index = torch.randn(5, 3), torch.tensor([0, bad])
    functions = {
        "index": lambda x, i: x[i],
        "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0)),
        "index_select": lambda x, i: x.index_select(0, i),
        "gather": lambda x, i: x.gather(0, i[:, None]),
        "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
        "index_add": lambda x, i: x.index_add(0, i, x[:2]),
        "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
        "one_hot": lambda x, i: torch.nn.functional.one_hot(i, 5) + x[:2, :1],
    }
    for name, function in functions.items():
        with pytest.raises((IndexError, RuntimeError)) as eager:
            function(x, index)
        # A handler for eager PyTorch's error catches this one too.
        with pytest.raises(eager.type, match="(?i)ind(ex|ices)") as e:
            compiled(function, x, index)
        assert "test_ops_edges.py" in str(e.value) or name in str(e.value)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 2, 4)])
def test_one_hot(shape):
    functional = torch.nn.functional
    index = torch.randint(0, 6, shape)
    check(lambda i: functional.one_hot(i, 6), index)
    check(lambda i: functional.one_hot(i % 3, 1000).float(), index)
    check(lambda i: functional.one_hot(i[..., None], 6).sum(-2), index)


def test_one_hot_is_in_a_package_without_pytorch(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, index):
            return torch.nn.functional.one_hot(index, 9) * 2

    index = torch.randint(0, 9, (4, 5))
    anabranch.export(Model().eval(), tmp_path / "one_hot.anb", (index,))
    package = anabranch.load(tmp_path / "one_hot.anb")
    assert torch.equal(package(index), Model()(index))
    with pytest.raises(RuntimeError, match="out of range in one_hot"):
        package(index + 9)


LONG_SUMS = {
    "columns": (lambda x: x.sum(0), (1 << 16, 16), 3e-6),
    "variance": (lambda x: x.var(), (1 << 23,), 1e-6),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums_keep_their_digits(name, dynamic):
    """A sum of many positive numbers loses digits if one accumulator takes them all."""
    function, shape, tolerance = LONG_SUMS[name]
    x = torch.rand(*shape, generator=torch.Generator().manual_seed(5))
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=dynamic)
    expected = function(x.double())
    error = (compiled(x).double() - expected).abs().max() / expected.abs().max()
    assert error < tolerance


MOMENTS = {
    "variance of rows": lambda x: x.var(-1),
    "deviation of columns": lambda x: x.std(0, correction=0),
    "variance of all": lambda x: x.var(),
    "variance and mean": lambda x: torch.var_mean(x, 1, keepdim=True)[0],
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
}


def check_moments(function, x, dynamic):
    """Twice the error of eager PyTorch, at most."""
    torch._dynamo.reset()
    ours = torch.compile(function, backend=anabranch.anabranch, dynamic=dynamic)(x)
    exact = function(x.double())
    errors = [(y.double() - exact).abs().max().item() for y in (ours, function(x))]
    assert errors[0] <= 2 * errors[1] + 1e-6 * exact.abs().max().item()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mean", [0, -6e4, 1e6])
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_far_from_zero(name, mean, dynamic):
    """The mean is rounded by more than the variance, which must not show it."""
    check_moments(MOMENTS[name], torch.randn(96, 1000) + mean, dynamic)


NORMS = {
    "layer": lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
    "group": lambda x: torch.nn.functional.group_norm(x[None], 2),
    "instance": lambda x: torch.nn.functional.instance_norm(x[None]),
    "batch": lambda x: torch.nn.functional.batch_norm(
        x[None], None, None, None, None, True
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mean", [0, -6e4, 1e6])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_long_rows(name, mean, dynamic):
    """The error of a mean grows with the number of its terms."""
    check_moments(NORMS[name], torch.randn(4, 70_000) + mean, dynamic)


@pytest.mark.parametrize("length", [2560, 3000, 5000])
@pytest.mark.parametrize("mean", [-6e4, 1e6])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_rows_of_uneven_length(name, mean, length):
    """The division rounds the mean, which it does not if the length is a power of two."""
    x = torch.randn(24, length, generator=torch.Generator().manual_seed(0)) + mean
    check_moments(NORMS[name], x, dynamic=False)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_moments_of_constant_and_of_few_elements(rows):
    """A sum of squares is never below zero, whose root would be NaN. Eager PyTorch
    rounds the mean of equal numbers, so the reference is float64."""

    def moments(x):
        return [x.var(0), x.std(0), x.std(1), x.var(0, correction=0)]

    x = torch.full((rows, 7), 1e6 + 0.3)
    ours = torch.compile(moments, backend=anabranch.anabranch)(x)
    for got, exact in zip(ours, moments(x.double()), strict=True):
        torch.testing.assert_close(got, exact.float(), rtol=0, atol=0, equal_nan=True)


def test_complex_constants_of_special_parts():
    """PyTorch runs complex operators from a graph's printed code."""
    parts = [float("nan"), float("inf"), -float("inf"), 0.0, 1.5]
    constants = [complex(a, b) for a in parts for b in parts]

    def function(x):
        return [x + constant for constant in constants]

    x = torch.randn(3, dtype=torch.complex64)
    ours = torch.compile(function, backend=anabranch.anabranch)(x)
    for got, expected in zip(ours, function(x), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)

"""erfinv, modified Bessel functions and the functions of the gamma function run in
kernels, and equal PyTorch's."""

from __future__ import annotations

import functools
import math

import pytest
import torch

import anabranch
from anabranch.capture.decompositions import bessel, special_functions

DOUBLE = torch.float64
ENDS = torch.tensor(
    [0.0, -0.0, 0.5, 1, 2, 3, -0.5, -1, -2, -100.5, math.inf, -math.inf, math.nan],
    dtype=DOUBLE,
)
FUNCTIONS = {
    "lgamma": (torch.lgamma, special_functions._lgamma),
    "digamma": (torch.digamma, special_functions._digamma),
    "trigamma": (lambda x: torch.polygamma(1, x), special_functions._trigamma),
    "erfinv": (torch.erfinv, special_functions._erfinv),
    "i0": (torch.i0, functools.partial(bessel._modified, 0)),
    "i0e": (torch.special.i0e, functools.partial(bessel._scaled, 0)),
    "i1": (torch.special.i1, functools.partial(bessel._modified, 1)),
    "i1e": (torch.special.i1e, functools.partial(bessel._scaled, 1)),
}
BESSEL = ("i0", "i0e", "i1", "i1e")


def points(name, dtype=DOUBLE):
    """Where the function is smooth, its poles and its ends."""
    if name == "erfinv":
        smooth = torch.linspace(-1 + 1e-7, 1 - 1e-7, 4001, dtype=DOUBLE)
        return torch.cat([smooth, ENDS]).to(dtype)
    if name in BESSEL:
        # Beyond, PyTorch's functions end too early.
        smooth = torch.linspace(-700, 700, 4001, dtype=DOUBLE)
        return torch.cat([smooth, ENDS]).to(dtype)
    small = torch.logspace(-300, -1, 300, dtype=DOUBLE)
    large = torch.logspace(1, 300, 300, dtype=DOUBLE)
    # Not so close to a pole that the rounding of pi times x decides.
    middle = torch.linspace(-19.99, 59.99, 4000, dtype=DOUBLE)
    x = torch.cat([middle, small, -small, large, ENDS]).to(dtype)
    # At the poles below zero, PyTorch's trigamma is a large number.
    return x[(x > -1) | (x != x.round())] if name == "trigamma" else x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_formula_is_as_precise_as_pytorch_in_float64(name):
    of_pytorch, formula = FUNCTIONS[name]
    x = points(name)
    torch.testing.assert_close(
        formula(x), of_pytorch(x), rtol=1e-9, atol=2e-14, equal_nan=True
    )


@pytest.mark.parametrize(
    ("dtype", "dynamic"),
    [(torch.float32, True), (torch.bfloat16, False), (DOUBLE, False)],
)
def test_kernels_compute_all_of_them(dtype, dynamic):
    without = {DOUBLE: "erfinv", torch.bfloat16: "trigamma"}.get(dtype)
    names = [name for name in FUNCTIONS if name != without]

    def function(*values):
        return [FUNCTIONS[name][0](x) for name, x in zip(names, values)]

    values = [points(name, dtype) for name in names]
    compiled = anabranch.compile(function, dynamic=dynamic)
    found = compiled(*values)
    wanted = [y.to(dtype) for y in function(*(x.double() for x in values))]
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize(
    ("function", "slope"),
    [(torch.lgamma, torch.digamma), (torch.i0, torch.special.i1)],
)
def test_gradients_run_in_kernels_too(function, slope):
    x = torch.linspace(0.1, 20, 50, requires_grad=True)
    anabranch.compile(lambda x: function(x).sum())(x).backward()
    torch.testing.assert_close(x.grad, slope(x.detach()))
    assert anabranch.counters.fallback_calls == 0


def test_large_bessel_functions_are_not_infinite_too_early():
    """Exact values by mpmath: PyTorch's i0 is infinite from 710 on."""

    def function(x):
        modified = torch.special.modified_bessel_i0, torch.special.modified_bessel_i1
        return [f(x) for f in (torch.i0, *modified)]

    x = torch.tensor([712.0, -712.0, 1e4], dtype=DOUBLE)
    even, odd = 2.4684110577627523e307, 2.4666770135246153e307
    found = anabranch.compile(function)(x)
    wanted = torch.tensor([even, even, math.inf], dtype=DOUBLE)
    torch.testing.assert_close(found[:2], [wanted, wanted])
    wanted = torch.tensor([odd, -odd, math.inf], dtype=DOUBLE)
    torch.testing.assert_close(found[2], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE, torch.bfloat16])
def test_functions_at_special_values_equal_pytorchs(dtype):
    """Infinities, zeros with their sign, NaN, and the largest and least numbers. PyTorch's
    trigamma is imprecise at the poles; two bytes have no modified_bessel."""
    special = torch.special
    names = [name for name in FUNCTIONS if name not in ("trigamma", "erfinv")]
    functions = [FUNCTIONS[name][0] for name in names]
    if dtype != torch.bfloat16:
        functions += [special.modified_bessel_i0, special.modified_bessel_i1]
    ends = torch.finfo(dtype)
    sizes = [0.0, math.inf, ends.max, ends.max / 2, ends.tiny, ends.tiny / 2, 1e30]
    x = torch.tensor([*sizes, *(-size for size in sizes), math.nan], dtype=dtype)

    def function(x):
        return [f(x) for f in functions]

    found, wanted = anabranch.compile(function)(x), function(x)
    torch.testing.assert_close(found, wanted, equal_nan=True, atol=0, rtol=8 * ends.eps)
    for y, z in zip(found, wanted):
        assert torch.equal(y[z == 0].signbit(), z[z == 0].signbit())


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, DOUBLE]
)
def test_powers_at_special_values_equal_pytorchs(dtype):
    """PyTorch takes roots for exponents of 1/2, except of float16."""
    ends = torch.finfo(dtype)
    sizes = [0.0, 1.0, 2.0, math.inf, ends.max, ends.tiny]
    x = torch.tensor([*sizes, *(-size for size in sizes), math.nan], dtype=dtype)

    def powers(x):
        return [x**n for n in (0.5, -0.5, 2, 3, -1, -2, 0, 1, 2.5, -1.5)]

    found, wanted = anabranch.compile(powers)(x), powers(x)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    for y, z in zip(found, wanted):
        assert torch.equal(y[z == 0].signbit(), z[z == 0].signbit())


def test_integers_give_floats():
    x = torch.arange(1, 9)
    for function in (torch.lgamma, torch.i0, torch.special.i1e):
        torch.testing.assert_close(anabranch.compile(function)(x), function(x))


def test_what_has_no_formula_runs_through_pytorch():
    def function(x):
        one = torch.polygamma(1, x.bfloat16())
        return torch.polygamma(2, x), torch.erfinv(x / 10), one

    x = torch.linspace(0.1, 5, 20, dtype=DOUBLE)
    torch.testing.assert_close(anabranch.compile(function)(x), function(x))
    assert anabranch.counters.fallback_calls == 3

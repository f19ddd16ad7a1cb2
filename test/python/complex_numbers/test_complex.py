"""Complex numbers in kernels, against complex128."""

from __future__ import annotations

import os
import random

import pytest
import torch
from checking import compiled
from complex_check import calls_of_pytorch, check, rand

ELEMENTS = {
    "add": lambda x, y: (x + y, x + 1j, 2.0 + x, torch.add(x, y, alpha=3)),
    "sub": lambda x, y: (x - y, 1j - x, x - 2, torch.sub(x, y, alpha=0.5)),
    "mul": lambda x, y: (x * y, x * 2, x * (1 - 2j), x * y.real),
    "div": lambda x, y: (x / y, 1 / y, x / 3, x / (1 + 2j), y.real / x, x / y.abs()),
    "signs": lambda x, y: (-x, x.conj() * y, x.conj().imag, (x * y).conj().real),
    "size": lambda x, y: (x.abs(), x.angle(), torch.sgn(x), (x - x).sgn()),
    "parts": lambda x, y: (x.real * y.imag, x.imag + 1, torch.view_as_real(x * y)),
    "make": lambda x, y: (
        torch.complex(x.real, y.imag),
        torch.polar(x.abs(), y.angle()),
        torch.view_as_complex(torch.stack([x.real, y.real], -1)),
        torch.zeros_like(x) + y,
        x.real.to(x.dtype) * y,
    ),
    "functions": lambda x, y: (torch.exp(x), torch.log(x), x**2, x**3, x**-1),
    "logarithms": lambda x, y: (x.log2(), x.log10(), torch.sigmoid(x)),
    "roots": lambda x, y: (
        x.sqrt(),
        y.rsqrt(),
        (x - x).sqrt(),
    ),
    "angles": lambda x, y: (x.sin(), x.cos(), x.tan(), torch.sin(9 * y)),
    "hyperbolic": lambda x, y: (x.sinh(), x.cosh(), x.tanh(), torch.tanh(9 * y)),
    "compare": lambda x, y: (
        x == y,
        x != y,
        torch.eq(x, x),
        torch.where(x.real > 0, x, y),
    ),
}
MOVES = {
    "views": lambda x, y: (x.mT * 2, x.reshape(-1) + 1, x[None].expand(2, -1, -1) * x),
    "slices": lambda x, y: (x[1:, ::2] * 2, x[:, 0] + y[:, -1], x[..., 1:].conj() * 1),
    "joins": lambda x, y: (
        torch.cat([x, y * 2]),
        torch.stack([x * y, y]),
        torch.cat([x, y.real]),
    ),
    "splits": lambda x, y: [part * 2 for part in (*x.split(1), *y.unbind(1))],
    "chosen": lambda x, y: (
        (x * y).index_select(0, torch.tensor([2, 0])),
        x[torch.tensor([0, 1, 1])] * y,
        x.flip(0) * y.roll(1, 1),
    ),
    "written": lambda x, y: torch.slice_scatter(x * 2, y[:1], 0, 1, 2),
    "padded": lambda x, y: torch.nn.functional.pad(x * y, (1, 2), value=0.5),
    "sums": lambda x, y: ((x * y).sum(), x.sum(0), y.mean(1, keepdim=True), x.mean()),
    "running": lambda x, y: (x * y).cumsum(1),
    "products": lambda x, y: (
        x @ y.mT,
        x.mH @ y,
        torch.einsum("ij,kj->ik", x, y),
        x[:, 0] @ y,
        torch.addmm(x[:, :3], x, y.mT),
        torch.bmm(x[None], y.mT[None]),
    ),
}
ROWS = ELEMENTS | MOVES


@pytest.mark.parametrize("name", ROWS)
def test_operators(name) -> None:
    """No operator is left to PyTorch, which only passes complex tensors in and out."""
    dtype = torch.complex128 if len(name) % 2 else torch.complex64
    check(ROWS[name], rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype))
    assert set(calls_of_pytorch()) <= {"aten.view_as_real", "aten.view_as_complex"}


def test_functions_at_their_ends() -> None:
    """The sides of the cut of a root, tangents near one and near a pole, small numbers."""
    re = [0.0, -0.0, 4.0, -4.0, -4.0, 1e-30, 20.0, -30.0, 1e-8, 0.3, 0.0]
    im = [0.0, -0.0, 0.0, 0.0, -0.0, 1e-30, 1.0, 1.5, 1e-8, 1.5707964, 1.5]
    x = torch.complex(torch.tensor(re), torch.tensor(im))

    def function(x):
        return x.sqrt(), x.tanh(), (x * 1j).tan()

    wanted = [y.to(x.dtype) for y in function(x.to(torch.complex128))]
    found = compiled(function)(x)
    for mine, exact in zip(found, wanted, strict=True):
        mine, exact = torch.view_as_real(mine), torch.view_as_real(exact)
        torch.testing.assert_close(mine, exact, rtol=4e-6, atol=0)
        assert torch.equal(mine.signbit(), exact.signbit())
    large = torch.tensor([1e38 + 2e38j, -3e38 + 3e38j, -3e38 - 1j])
    root = compiled(torch.sqrt)(large)
    wanted = large.to(torch.complex128).sqrt().to(root.dtype)
    torch.testing.assert_close(torch.view_as_real(root), torch.view_as_real(wanted))


LAYOUTS = {
    "transposed": lambda: rand(4, 3).mT,
    "expanded": lambda: rand(3, 1).expand(3, 4),
    "conjugate": lambda: rand(3, 4).conj(),
    "adjoint": lambda: rand(4, 3).mH,
    "offset": lambda: rand(60).as_strided((3, 4), (16, 2), 7),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_inputs(name) -> None:
    def function(x, y):
        return x * y + 1j, x.abs(), x.real * 2, x.mT @ y, x.conj() + y

    check(function, LAYOUTS[name](), rand(3, 4), dynamic=name != "offset")


def test_inputs_whose_negation_is_pending() -> None:
    x = rand(3, 4).conj().imag
    assert x.is_neg()
    check(lambda x, y: (x * y, x + 1, y * x.abs()), x, rand(3, 4))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1)])
def test_sizes_of_zero_and_one(shape) -> None:
    def function(x, y):
        return x * y, (x / y).abs(), x.sum(0), torch.cat([x, y]), x.mT @ y

    check(function, rand(*shape), rand(*shape))


def test_sizes_that_change() -> None:
    def function(x, y):
        return x * y, (x @ y.mT).abs(), torch.view_as_real(x).sum(1), x[1:] + y[:-1]

    program = compiled(function, dynamic=True)
    for rows, columns in ((3, 4), (5, 4), (2, 9)):
        x, y = rand(rows, columns), rand(rows, columns)
        for found, wanted in zip(program(x, y), function(x, y)):
            torch.testing.assert_close(found, wanted)


def test_what_has_no_rule_goes_to_pytorch() -> None:
    check(lambda x, y: torch.atan(x * y) * torch.asinh(x), rand(3, 4), rand(3, 4))
    assert {"aten.atan", "aten.asinh"} <= set(calls_of_pytorch())


def test_a_complex_input_that_a_graph_writes() -> None:
    def function(x, y):
        x.mul_(y).add_(1j)
        return x.abs()

    x, y = rand(3, 4), rand(3, 4)
    mine, theirs = x.clone(), x.clone()
    torch.testing.assert_close(compiled(function)(mine, y), function(theirs, y))
    torch.testing.assert_close(mine, theirs)


def test_gradients() -> None:
    def function(x, w):
        return ((x @ w).abs() + (x * 1j).real.sum()).sum()

    arguments = [rand(3, 4).requires_grad_(), rand(4, 5).requires_grad_()]
    found = torch.autograd.grad(compiled(function)(*arguments), arguments)
    wanted = torch.autograd.grad(function(*arguments), arguments)
    torch.testing.assert_close(found, wanted)


def random_function(seed: int):
    """A function of two complex tensors [3, 4], made of up to 12 random operators."""
    choose = random.Random(seed)
    steps = [
        (choose.choice(STEPS), choose.random(), choose.random())
        for _ in range(choose.randint(2, 12))
    ]

    def function(x, y):
        values = [x, y]
        for step, first, second in steps:
            left = values[int(first * len(values))]
            right = values[int(second * len(values))]
            made = step(left, right)
            # Values stay near one, so that roundings do not grow.
            values.append(made / (1 + made.abs()))
        return values[2:]

    return function


# How many random graphs: more where the soak test asks for more.
SEEDS = int(os.environ.get("ANABRANCH_RANDOM_COMPLEX", "2"))
STEPS = [
    lambda x, y: x + y,
    lambda x, y: x - y * 1j,
    lambda x, y: x * y,
    lambda x, y: x.conj() * y,
    lambda x, y: x.mT.reshape(3, 4) + y,
    lambda x, y: torch.complex(x.real, y.abs()),
    lambda x, y: torch.cat([x[1:], y[:1]]),
    lambda x, y: (x @ y.mT) @ y,
    lambda x, y: torch.where(x.real > y.imag, x, y.conj()),
    lambda x, y: x + y.sum(0),
    lambda x, y: torch.exp(x) * y.imag,
    lambda x, y: torch.tanh(x) + y.flip(1),
    lambda x, y: x.roll(1, 0) - y.mean(),
    lambda x, y: torch.view_as_complex(torch.view_as_real(x * y) * 2) - y,
]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs(seed) -> None:
    choose = random.Random(seed)
    make = list(LAYOUTS.values()) + [lambda: rand(3, 4)]
    arguments = [choose.choice(make)() for _ in range(2)]
    function = random_function(seed)
    found = compiled(function, dynamic=bool(seed % 2))(*arguments)
    wide_arguments = [value.to(torch.complex128) for value in arguments]
    for mine, right in zip(found, function(*wide_arguments)):
        torch.testing.assert_close(
            mine.to(torch.complex128), right, atol=2e-5, rtol=2e-4
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sgn(),
        lambda z: z.to(torch.complex64) * 2,
        lambda z: (z.to(torch.complex64).exp() * 1j).to(torch.complex32),
        lambda z: z.to(torch.complex64).conj().imag + z.real,
    ],
)
def test_narrow_complex_numbers_keep_both_parts(function):
    z = rand(5, dtype=torch.complex64).to(torch.complex32)
    torch.testing.assert_close(compiled(function)(z), function(z))

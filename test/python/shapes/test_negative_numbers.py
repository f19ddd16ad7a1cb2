"""Integer arguments with symbolic values below zero."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import anabranch

CASES = {
    "range down": lambda x, n: torch.arange(20, -20, n),
    "element": lambda x, n: x[n],
    "write": lambda x, n: x.clone().index_fill_(0, torch.tensor(2), 5)[n:],
    "slice": lambda x, n: x[n:] * 2,
    "pad": lambda x, n: F.pad(x, (n, 3)),
    "roll": lambda x, n: x.roll(n),
    "full": lambda x, n: torch.full((3,), n) + x.shape[0],
    "size": lambda x, n: x.new_zeros(x.shape[0] // -n) + n,
    "quotient": lambda x, n: x * (x.shape[0] // n) + 7 // n,
    "rest": lambda x, n: x * (x.shape[0] % n) + (-7) % n,
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_below_zero(name) -> None:
    torch._dynamo.reset()
    function = CASES[name]
    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=True)
    for number in (-2, -3, -1, -7):
        x = torch.arange(9.0)
        torch.testing.assert_close(compiled(x, number), function(x, number))


def test_an_update_at_a_number_that_becomes_negative() -> None:
    torch._dynamo.reset()

    def update(x, n):
        x[n] = -1
        return x

    compiled = torch.compile(update, backend=anabranch.anabranch, dynamic=True)
    for number in (2, 4, -7, -1):
        x = torch.zeros(7)
        assert torch.equal(compiled(x.clone(), number), update(x, number))


def test_the_least_number_divided_by_minus_one_is_no_trap() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, a, b: x + (a // b) % 2, backend=anabranch.anabranch, dynamic=True
    )
    x = torch.zeros(3)
    assert torch.equal(compiled(x, -9, -4), x)
    compiled(x, -(2**63), -1)  # the result does not matter

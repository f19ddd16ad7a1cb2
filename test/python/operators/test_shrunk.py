"""Shrunk findings of random graphs: each of these once crashed, was refused, or differed
from eager."""

from __future__ import annotations

import time

import pytest
import torch
from checking import check


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_of_no_elements_are_collapsed(dynamic):
    def function(x):
        part = x.tensor_split(3, 1)[1]
        return torch.select_scatter(part, part[0] + 1, 0, -1)

    check(function, torch.zeros(1, 1, dtype=torch.int64), dynamic=dynamic)


def test_a_buffer_of_no_bytes_may_lie_anywhere():
    def function(x):
        y = -x
        return torch.where(torch.any(y, dim=-1), torch.cumsum(y, dim=-1), y)

    check(function, torch.zeros(0))


def test_a_select_scatter_keeps_the_dtype_of_what_it_is_put_into():
    check(
        lambda x, y: torch.select_scatter(x, y, 0, -1),
        torch.tensor([True, False]),
        torch.tensor(3),
    )


def test_a_long_chain_of_reductions_compiles_soon():
    """Each softmax reads the one before it twice. This must not double the compile time."""

    def chain(x):
        for _ in range(40):
            x = torch.softmax(x * 3, -1)
        return x

    start = time.process_time()
    check(chain, torch.randn(16, 32))
    assert time.process_time() - start < 60


@pytest.mark.parametrize("name", ["min", "max"])
def test_an_extreme_of_no_elements_is_eagers_error(name):
    compiled = torch.compile(lambda x: getattr(x, name)(), backend="anabranch")
    with pytest.raises((RuntimeError, IndexError)):
        compiled(torch.empty(0))


def test_an_operand_that_is_ignored_comes_before():
    """A choice of the only element reads nothing. Its kernel must still come after the
    call that makes the ignored operand."""

    def function(x, w):
        h = torch.relu(x @ w)
        one = (torch.special.bessel_j0(h) @ w).sum(-1, keepdim=True)
        chosen = torch.topk(one, k=1, dim=-1).indices
        mask = torch.zeros_like(one).scatter_(1, chosen, 1.0)
        return mask + 1, h.exp() + 1

    check(function, torch.randn(14, 4), torch.randn(4, 4))

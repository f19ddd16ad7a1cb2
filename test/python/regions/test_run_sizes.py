"""Sizes and numbers that the run decides are parts of the program, for all data."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from whole_graphs import assert_whole

import anabranch

M = 5


@pytest.fixture(autouse=True)
def whole_graphs():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


def check(function, *calls, dynamic=False):
    """Compares calls of one program with eager PyTorch."""
    compiled = torch.compile(
        function, backend=anabranch.anabranch, fullgraph=True, dynamic=dynamic
    )
    for number, arguments in enumerate(calls):
        expected = function(*(value.clone() for value in arguments))
        torch.testing.assert_close(compiled(*arguments), expected)
        if number == 0:
            assert_whole()
    return compiled


def masks(size: int) -> list[torch.Tensor]:
    """Masks that select none, one, some and all."""
    one = torch.zeros(size, dtype=torch.bool)
    one[size // 2] = True
    some = torch.arange(size) % 3 == 0
    return [torch.zeros(size, dtype=torch.bool), one, some, torch.ones(size).bool()]


# Results whose sizes the run decides


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_of_a_mask(dtype, dynamic):
    x = torch.randn(M, 3).to(dtype)

    def select(x, mask):
        chosen = (x * 2)[mask]
        return chosen.relu() + 1, chosen.float().sum(0)

    check(select, *((x, mask) for mask in masks(M)), dynamic=dynamic)


OPERATORS = {
    "nonzero": lambda x: x.nonzero() + 1,
    "nonzero_of_known_result": lambda x: x.nonzero().float().sum(0),
    "returned": lambda x: x.nonzero(),
    "masked_select": lambda x: torch.masked_select(x, x > 1).exp(),
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique_then": lambda x: torch.unique(x).double().sqrt(),
    "bincount": lambda x: torch.bincount(x.flatten()) * 2,
    "repeat_interleave": lambda x: torch.repeat_interleave(x[0].float(), x[1]).cumsum(
        0
    ),
    "two_masks": lambda x: (x[x > 1] * 2).sum() + (x[x < 2] * 3).sum(),
    "selected_again": lambda x: x[x > 0][x[x > 0] > 1].float().softmax(0),
    "product": lambda x: x[x[:, 0] > 0].float() @ x.float().T,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    one = torch.zeros(3, 4, dtype=torch.int64)
    one[1, 2] = 2
    many = torch.arange(12).reshape(3, 4) % 4
    check(OPERATORS[name], (many,), (one,), (torch.zeros_like(one),), (many + 1,))


def test_a_result_of_the_run_is_returned_twice_and_read():
    def select(x, mask):
        chosen = x[mask]
        return chosen, chosen * 2, (chosen + 1).sum()

    check(select, *((torch.randn(M, 2), mask) for mask in masks(M)))


def test_a_parameter_in_the_continuation():
    layer = nn.Linear(8, 4)

    def experts(x, mask):
        out = torch.zeros(x.shape[0], 4)
        rows = mask.nonzero().squeeze(1)
        return out.index_add(0, rows, layer(x[rows]))

    with torch.no_grad():
        check(experts, *((torch.randn(M, 8), mask) for mask in masks(M)))


def test_an_argument_is_updated_after_the_run_decided():
    def update(x, mask):
        return x.add_(x[mask].sum())

    for mask in masks(M):
        x = torch.randn(M)
        expected, found = x.clone(), x.clone()
        update(expected, mask)
        compiled = torch.compile(update, backend=anabranch.anabranch, fullgraph=True)
        compiled(found, mask)
        torch.testing.assert_close(found, expected)


# Numbers


def test_an_item_is_a_number_of_kernels():
    def add(x, n):
        return x * n.max().item() + 1

    calls = [(torch.randn(4), torch.tensor([k, -5])) for k in (3, 0, 1, -2)]
    check(add, *calls)
    assert anabranch.last_report()["fallbacks"] == []


def test_an_item_is_a_size():
    def count(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return torch.arange(k).float() * 2 + x.sum()

    x = torch.randn(6)
    sizes = [torch.tensor(k) for k in (3, 0, 1, 6)]
    compiled = check(count, *((x, k) for k in sizes))
    with pytest.raises((RuntimeError, ValueError), match=r"test_run_sizes.py") as info:
        compiled(x, torch.tensor(7))
    assert "<= 6" in str(info.value)
    torch.testing.assert_close(compiled(x, sizes[0]), count(x, sizes[0]))


SLICES = {
    "end": lambda x, n: x[:n] * 2,
    "begin": lambda x, n: x[n:].sum(0),
    "both": lambda x, n: x[n : n + 2].relu(),
    "steps": lambda x, n: x[1:n:2] + 1,
    "columns": lambda x, n: x[:, :n] + 1,
    "halves": lambda x, n: x[:n].sum() - x[n:].sum(),
    "product": lambda x, n: x[:n] @ x.T,
    "of a selection": lambda x, n: x[x[:, 0] > 0][:n] - 1,
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_item_bounds_slices(dynamic):
    def cut(x, n):
        k = n.item()
        return tuple(function(x, k) for function in SLICES.values())

    x = torch.randn(6, 4)
    numbers = (3, 0, 1, 6, 9, -2, -9)
    check(cut, *((x, torch.tensor(k)) for k in numbers), dynamic=dynamic)
    assert anabranch.last_report()["fallbacks"] == []


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_item_bounds_what_is_written(dynamic):
    def write(x, n):
        k, made = n.item(), x.clone()
        made[:k] = 7.0
        made[k:] += x[0]
        return made

    x = torch.randn(6, 4)
    check(write, *((x, torch.tensor(k)) for k in (3, 0, 9, -2)), dynamic=dynamic)
    assert anabranch.last_report()["fallbacks"] == []


def test_a_list_of_numbers():
    def split(x, counts):
        a, b = counts.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        return torch.ones(a).sum() + torch.ones(b).sum() * x

    check(split, *((torch.randn(3), torch.tensor(n)) for n in ([2, 3], [0, 1])))


# Packages


class Scaled(nn.Module):
    def forward(self, x, n):
        return (x * n.item()).relu()


class Selecting(nn.Module):
    def forward(self, x):
        return x[x > 0] * 2


def test_a_package_runs_a_program_with_a_number(tmp_path):
    given = torch.randn(3, 4), torch.tensor(3)
    anabranch.export(Scaled().eval(), tmp_path / "scaled", given)
    loaded = anabranch.load(tmp_path / "scaled")
    for k in (3, 0, 1, -4):
        x, n = torch.randn(3, 4), torch.tensor(k)
        wanted = Scaled()(x, n)
        torch.testing.assert_close(loaded(x, n), wanted)
        torch.testing.assert_close(
            torch.as_tensor(loaded(x.numpy(), n.numpy())), wanted
        )


def test_a_package_selects(tmp_path):
    path = tmp_path / "selecting"
    anabranch.export(Selecting().eval(), path, (torch.randn(4),))
    loaded = anabranch.load(path)
    for x in (torch.randn(4), torch.zeros(4), torch.ones(4)):
        torch.testing.assert_close(loaded(x), Selecting()(x))


# Random programs


def random_program(rng: random.Random):
    """A function of a matrix and a mask, which selects, computes and reduces."""
    steps = rng.choices(range(6), k=rng.randint(2, 5))

    def run(x, mask):
        values = [x[mask]]
        for step in steps:
            y = values[-1]
            if step == 0:
                y = y * 2 + 1
            elif step == 1:
                y = y[y[:, 0] > 0]
            elif step == 2:
                y = y.softmax(1)
            elif step == 3:
                y = torch.cat([y, y * 3])
            elif step == 4:
                y = y + y.sum(0)
            else:
                y = y.float().cumsum(0).to(y.dtype)
            values.append(y)
        return values[-1], values[0].float().sum(), values[len(values) // 2] - 1

    return run


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    rng = random.Random(seed)
    dtype = rng.choice([torch.float32, torch.bfloat16])
    torch.manual_seed(seed)
    calls = [(torch.randn(M, 3).to(dtype), mask) for mask in masks(M)]
    torch._dynamo.reset()
    check(random_program(rng), *calls, dynamic=bool(seed % 2))

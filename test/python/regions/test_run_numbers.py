"""Numbers that the run decides: a program returns them, computes with them, and chooses
and counts by them."""

from __future__ import annotations

import pytest
import torch
from checking import meaningful_strides
from torch._higher_order_ops import while_loop
from whole_graphs import assert_whole, check_whole, together

import anabranch

NONE, ONE, MANY = -torch.ones(4, 3), torch.eye(4, 3), torch.arange(12.0).view(4, 3)
CALLS = [(value - 0.5,) for value in (MANY, NONE, ONE, torch.ones(4, 3))]


def nested(x):
    y = torch.arange((x > 0).sum().item())
    chosen = y[y > 1]
    return chosen.float().sum() * x, chosen.shape[0], chosen.shape[0] * 2 + 1


def checked(x):
    total = x.sum().item()
    torch._check(total < 1e6)
    torch._check(total >= -100)
    return x * total, torch.full((2,), total)


def ratio(x):
    count = (x > 0).sum().item()
    return x * (count / 8 + 0.5), x + x.sum().item() * count


RETURNED = {
    "an item": lambda x: (x * 2, x.long().sum().item()),
    "of a view": lambda x: x[1:, 2].sum().item() + 1,
    "an argument": lambda x: (x[0, 0].item(), x[0, 1].item()),
    "a float": lambda x: (x.sum().item(), x + 1),
    "a float computed": lambda x: x.sum().item() * 2 + 1,
    "a truth value": lambda x: ((x.sum() > 0).item(), x + 1),
    "a size": lambda x: ((x > 0).nonzero(), (x > 0).nonzero().shape[0]),
    "a list": lambda x: x.long().sum(0).tolist(),
    "of a number": nested,
}
READ = {
    "checked": checked,
    "a ratio": ratio,
    "power": lambda x: x.abs() ** x.mean().abs().item(),
    "both": lambda x: x * x.double().mean().item() + x.mean().item(),
    "compared": lambda x: x * ((x > 0).sum().item() > 3),
}


def test_returned() -> None:
    check_whole(together(RETURNED), *((x.bfloat16(),) for (x,) in CALLS))


def test_read() -> None:
    check_whole(together(READ), *CALLS, dynamic=True)


def test_a_check_of_a_float_has_the_line() -> None:
    run = check_whole(checked, *CALLS)
    with pytest.raises(ValueError, match="test_run_numbers.py"):
        run(torch.full((4, 3), 1e6))
    with pytest.raises(ValueError, match="test_run_numbers.py"):
        run(torch.full((4, 3), torch.nan))
    torch.testing.assert_close(run(MANY), checked(MANY))


# Predicates and bounds

PREDICATES = {
    "of an integer": lambda x: (x > 0).sum().item() > 3,
    "of a float": lambda x: x.sum().item() > 0.5,
    "of two": lambda x: (x.sum().item() > 1) & ((x > 0).sum().item() != 3),
    "a truth value": lambda x: (x.mean() > 0).item(),
    "not": lambda x: torch.sym_not(x.sum().item() <= 0.5),
}


def test_branch() -> None:
    def choose(x):
        y = x * 2
        return [
            torch.cond(predicate(x), lambda y: y + 1, lambda y: y - 1, (y,))
            for predicate in PREDICATES.values()
        ]

    check_whole(choose, *CALLS)


def test_a_branch_returns_numbers() -> None:
    def choose(x):
        y, n = torch.cond(x.sum() > 0, lambda x: (x * 2, 3), lambda x: (-x, 4), (x,))
        return y * n, n + 1

    check_whole(choose, *CALLS)


def test_loops_count() -> None:
    def repeat(x):
        most = (x > 0).sum().item()

        def test(n, y):
            return n < most

        def double(n, y):
            return n + 1, y * 2 + n

        by_number = while_loop(test, double, (0, x))
        return *by_number, *while_loop(test, double, (torch.tensor(0), x))

    check_whole(repeat, *CALLS)


# Sizes that branches decide

BRANCHES = {
    "both select": (lambda x: x[x[:, 0] > 0], lambda x: x[x[:, 1] < 0] * 2),
    "one is empty": (lambda x: x[:0] * 1, lambda x: x[x[:, 0] < 0]),
}


def test_branches_decide_sizes() -> None:
    def choose(x):
        chosen = []
        for branches in BRANCHES.values():
            y = torch.cond(x.sum() > 0, *branches, (x,))
            chosen += [y, (y[y > 0] + 1).sum()]
        return chosen

    check_whole(choose, *CALLS)


def test_a_branch_of_a_size_of_the_run() -> None:
    def choose(x):
        y = x[x[:, 0] > 0]
        z = torch.cond(y.shape[0] > 1, lambda y: y.sum(0), lambda y: -y.sum(0), (y,))
        return torch.cond(z.sum() > 3, lambda y: y * 2, lambda y: y - 1, (y,))

    check_whole(choose, *CALLS)


# Strides of results


def test_permuted_results() -> None:
    functions = {
        "of a selection": lambda x: x[x[:, 0] > 0].t(),
        "of a result": lambda x: (x[x[:, 0] > 0] * 2).t().exp(),
        "three": lambda x: torch.stack([x[x > 0], x[x > 0]], 1).unsqueeze(0).mT * 2,
    }
    run = check_whole(together(functions), *CALLS)
    for (x,) in CALLS:
        for got, wanted in zip(run(x), together(functions)(x), strict=True):
            assert meaningful_strides(got) == meaningful_strides(wanted)


def test_a_package_returns_a_number(tmp_path) -> None:
    class Counting(torch.nn.Module):
        def forward(self, x):
            count = (x > 0).sum().item()
            return x * count, x.sum().item() * 2

    anabranch.export(Counting().eval(), tmp_path / "counting", CALLS[0])
    loaded = anabranch.load(tmp_path / "counting")
    for (x,) in CALLS:
        wanted = Counting()(x)
        found = loaded(x)
        torch.testing.assert_close(found[0], wanted[0])
        assert found[1] == pytest.approx(wanted[1])


def test_a_region_of_equal_layers_selects() -> None:
    check_whole(lambda x: summed(x) + summed(x * -2), *CALLS)
    assert_whole()


@torch.compiler.nested_compile_region
def summed(x):
    return x[x > 0].sum() + x

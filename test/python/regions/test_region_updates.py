"""Regions that write into their arguments are regions of the program."""

from __future__ import annotations

import torch
from torch._higher_order_ops import while_loop
from whole_graphs import check_whole

CALLS = [(value,) for value in (torch.arange(12.0).view(4, 3), -torch.ones(4, 3))]


def add_one(y):
    y.add_(1)
    return y * 2


def double(y):
    y.mul_(2)
    return y * 3


def keep(y):
    return y * 5


BRANCHES = {
    "both write": (add_one, double),
    "one writes": (add_one, keep),
    "the other writes": (keep, add_one),
}


def test_branches_write() -> None:
    def choose(x):
        results = []
        for branches in BRANCHES.values():
            z = x * 3
            results += [torch.cond(x.sum() > 0, *branches, (z,)), z + 1]
        return results

    check_whole(choose, *CALLS, dynamic=True)


def test_a_branch_writes_an_argument() -> None:
    check_whole(lambda x: torch.cond(x.sum() > 0, add_one, double, (x,)), *CALLS)


def test_branches_write_views() -> None:
    def choose(x):
        z = x * 3
        first = torch.cond(x.sum() > 0, add_one, double, (z[1:3],))
        return first, torch.cond(x.sum() < 0, add_one, double, (z[0:1],)), z

    check_whole(choose, *CALLS)


def test_two_arguments_are_written() -> None:
    def swap(a, b):
        a.add_(b)
        b.copy_(a * 2)
        return a - b

    def leave(a, b):
        return a + b

    def choose(x):
        a, b = x + 1, x * 2
        return torch.cond(x.sum() > 0, swap, leave, (a, b)), a, b

    check_whole(choose, *CALLS)


def test_a_loop_writes_what_it_does_not_carry() -> None:
    def count(x):
        seen, other = torch.zeros(3), torch.ones(4, 3)

        def test(n, y):
            return (n < 3) & (seen.sum() < 100)

        def step(n, y):
            seen.add_(y[0])
            return n + 1, y * 2 + other

        return while_loop(test, step, (torch.tensor(0), x)), seen

    check_whole(count, *CALLS)


@torch.compiler.nested_compile_region
def write(y):
    y[1:].add_(1)
    return y * 2


def test_a_region_of_equal_layers_writes() -> None:
    def layers(x):
        z = x.clone()
        return write(z) + write(z), z

    check_whole(layers, *CALLS)

"""Bad data in branches and loops: an error with the user's line, and the next call is
right. No buffer of a call that fails is lost."""

from __future__ import annotations

import resource

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from whole_graphs import SETTINGS, assert_whole

import anabranch

LARGE = 1 << 20


def at(table, place):
    """The row of a table at a place that a tensor holds."""
    return table.index_select(0, place.reshape(1)).squeeze(0)


def reads_beyond_a_table(places, table):
    """The third trip reads what is not there."""

    def test(i, total):
        return i < places.shape[0]

    def body(i, total):
        return i + 1, total + at(table, at(places, i))

    return while_loop(test, body, (torch.tensor(0), table[0] * 0))[1]


def scans_beyond_a_table(places, table):
    def step(carried, place):
        read = at(table, place)
        return carried + read, read * 2

    return scan(step, table[0] * 0, places)[1]


def branch_reads_beyond_a_table(places, table):
    def read(places, table):
        return table[places].sum(0)

    def count(places, table):
        return table[0] * places.sum()

    return torch.cond(places.sum() > -100, read, count, (places, table))


def counts_too_few(places, table):
    """A negative count in a branch."""

    def repeat(places, table):
        return torch.repeat_interleave(table, places, dim=0).sum(0)

    return torch.cond(
        places.sum() > -100, repeat, lambda p, t: t[0] * 1, (places, table)
    )


def makes_too_large_a_size(places, table):
    """What `torch._check` says, in a loop."""

    def body(i, total):
        size = at(places, i).item()
        torch._check(size >= 0)
        torch._check(size <= 3)
        return i + 1, total + table[0] * torch.ones(size).sum()

    def test(i, total):
        return i < places.shape[0]

    return while_loop(test, body, (torch.tensor(0), table[0] * 0))[1]


BAD = {
    "loop": (reads_beyond_a_table, [0, 2, 3, 1]),
    "scan": (scans_beyond_a_table, [0, 2, 3, 1]),
    "branch": (branch_reads_beyond_a_table, [0, 2, -4, 1]),
    "count": (counts_too_few, [0, 2, -1]),
    "size": (makes_too_large_a_size, [1, 2, 4, 1]),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_names_the_line_and_the_next_call_is_right(name) -> None:
    function, numbers = BAD[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend=anabranch.anabranch, fullgraph=True)
    table, wrong = torch.arange(6.0).view(3, 2), torch.tensor(numbers)
    right = wrong.clamp(0, 2)
    with torch._dynamo.config.patch(SETTINGS), torch.no_grad():
        plain = torch.compile(function, backend="eager", fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(run(right, table), plain(right, table))
            with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
                run(wrong, table)
            assert "test_bad_regions.py" in str(error.value), str(error.value)
        assert_whole()


def few(places):
    torch._check(places.sum().item() < 10)


def at_the_end(places, table):
    result = table * 2
    few(places)
    return result


def of_a_float(places, table):
    torch._check((places.sum() / 4).item() <= 2.25)
    return table * 2


def of_two_numbers(places, table):
    torch._check(places.sum().item() - 10 < (table > 99).sum().item())
    return table * 2


CHECKS = (at_the_end, of_a_float, of_two_numbers)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", CHECKS)
def test_a_check_is_made_though_nobody_reads_what_it_checks(function, dynamic) -> None:
    run = anabranch.compile(function, fullgraph=True, dynamic=dynamic)
    table, right = torch.arange(6.0).view(3, 2), torch.tensor([1, 2, 3])
    with torch.no_grad():
        for wrong in (right + 3, right * 9):
            torch.testing.assert_close(run(right, table), table * 2)
            with pytest.raises((RuntimeError, ValueError)):
                run(wrong, table)
        torch.testing.assert_close(run(right, table), table * 2)


@pytest.mark.parametrize("function", [at_the_end, of_two_numbers])
def test_a_package_makes_the_check(function, tmp_path) -> None:
    class Model(torch.nn.Module):
        def forward(self, places, table):
            return function(places, table)

    table, right = torch.arange(6.0).view(3, 2), torch.tensor([1, 2, 3])
    anabranch.export(Model().eval(), tmp_path / "package", (right, table))
    loaded = anabranch.load(tmp_path / "package")
    with pytest.raises((ValueError, RuntimeError), match="test_bad_regions.py"):
        loaded(right + 3, table)
    torch.testing.assert_close(loaded(right, table), table * 2)


def test_calls_that_fail_lose_no_buffer() -> None:
    """Each holds 4 MiB when it fails."""
    torch._dynamo.reset()

    def function(places, table):
        def body(i, total):
            return i + 1, (total + at(table, at(places, i))).sin()

        return while_loop(lambda i, _: i < 3, body, (torch.tensor(0), table[0] * 2))[1]

    run = torch.compile(function, backend=anabranch.anabranch, fullgraph=True)
    table, wrong = torch.ones(3, LARGE), torch.tensor([0, 2, 3])

    def fails(count: int) -> None:
        for _ in range(count):
            with pytest.raises((RuntimeError, IndexError)):
                run(wrong, table)

    with torch.no_grad():
        run(wrong.clamp(0, 2), table)
        fails(5)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fails(30)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10


def carries_another_shape(x):
    def body(i, value):
        return i + 1, torch.cat([value, value])

    return while_loop(lambda i, _: i < 3, body, (torch.tensor(0), x))[1]


def branches_of_two_dtypes(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x > 1, (x,))


@pytest.mark.parametrize("function", [carries_another_shape, branches_of_two_dtypes])
def test_what_pytorch_refuses_names_the_line(function) -> None:
    torch._dynamo.reset()
    run = torch.compile(function, backend=anabranch.anabranch, fullgraph=True)
    with torch.no_grad(), pytest.raises(Exception, match="test_bad_regions.py"):
        run(torch.ones(4))
    torch.testing.assert_close(
        torch.compile(torch.sin, backend=anabranch.anabranch)(torch.ones(4)),
        torch.ones(4).sin(),
    )

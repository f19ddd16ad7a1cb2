"""Scatters that are large enough for several tiles, each with a range of rows: every row
gets its updates in the order of the operator, so sums have the bits of eager PyTorch
on one thread. Rows whose columns fill vectors are added to in registers."""

from __future__ import annotations

import pytest
import torch
from checking import compiled

import anabranch

ROWS, EDGES = 700, 5000


def rows(*shape: int) -> torch.Tensor:
    return torch.randint(0, ROWS, shape, generator=torch.Generator().manual_seed(1))


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def gathered(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Sums of neighbours in a graph."""
    taken = x.index_select(0, edges[0])
    return x.scatter_add(0, edges[1].view(-1, 1).expand_as(taken), taken)


def written(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The last of several updates of a row stays."""
    return torch.ops.aten.index_put(x, (i,), y)


CASES = {
    "gathered": (gathered, (values(ROWS, 64), rows(2, EDGES))),
    "columns that fill no vector": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 45), rows(EDGES), values(EDGES, 45)),
    ),
    "long rows": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 300), rows(EDGES), values(EDGES, 300)),
    ),
    "rows of planes": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 3, 40), rows(EDGES), values(EDGES, 3, 40)),
    ),
    "rows of planes that fill vectors": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 3, 48), rows(EDGES), values(EDGES, 3, 48)),
    ),
    "rows of several blocks of vectors": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 208), rows(EDGES), values(EDGES, 208)),
    ),
    "fewer columns in the updates": (
        # Eager PyTorch 2.13 adds to wrong columns if the index is expanded.
        lambda x, i, y: x.scatter_add(0, i, y),
        (values(ROWS, 128), rows(EDGES, 64), values(EDGES, 64)),
    ),
    "more rows than lists": (
        lambda x, i, y: x.index_add(0, i * 60, y),
        (values(60 * ROWS, 16), rows(9 * EDGES), values(9 * EDGES, 16)),
    ),
    "few updates": (
        lambda x, i, y: x.index_add(0, i * 8, y),
        (values(8 * ROWS, 64), rows(40), values(40, 64)),
    ),
    "rows in each of two matrices": (
        lambda x, i, y: x.index_add(1, i, y),
        (values(2, ROWS, 40), rows(EDGES), values(2, EDGES, 40)),
    ),
    "two dimensions of positions": (
        lambda x, i, y: x.index_put((i,), y, accumulate=True),
        (values(ROWS, 64), rows(50, 100), values(50, 100, 64)),
    ),
    "positions of two dimensions": (
        lambda x, i, y: x.index_put((i, i % 4), y, accumulate=True),
        (values(ROWS, 4, 32), rows(EDGES), values(EDGES, 32)),
    ),
    "the largest": (
        lambda x, i, y: x.scatter_reduce(
            0, i.view(-1, 1).expand_as(y), y, "amax", include_self=False
        ),
        (values(ROWS, 64), rows(EDGES), values(EDGES, 64)),
    ),
    "the last": (written, (values(ROWS, 64), rows(EDGES), values(EDGES, 64))),
    "integers": (
        lambda x, i, y: x.index_add(0, i, y),
        (
            values(ROWS, 64).mul(100).int(),
            rows(EDGES),
            values(EDGES, 64).mul(100).int(),
        ),
    ),
    "float64": (
        lambda x, i, y: x.index_add(0, i, y),
        (values(ROWS, 64).double(), rows(EDGES), values(EDGES, 64).double()),
    ),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Eager PyTorch's order of updates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_ranges_keep_the_order(name, dynamic, threads):
    function, arguments = CASES[name]
    expected = function(*arguments)
    torch.set_num_threads(threads)
    run = compiled(function, dynamic=dynamic, fullgraph=True)
    for _ in range(3):
        found = run(*arguments)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("edges", [EDGES, 20])
def test_in_place(edges):
    """Rows without an update keep their values."""

    def function(x, i, y):
        x.index_add_(0, i, y)
        return x * 2

    run = compiled(function, fullgraph=True)
    i, y = rows(edges) % (ROWS - 100) + 50, values(edges, 128)
    for start in (values(ROWS, 128), values(ROWS, 128) + 1):
        found, expected = start.clone(), start.clone()
        torch.testing.assert_close(
            run(found, i, y), function(expected, i, y), rtol=0, atol=0
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_other_sizes():
    """One program: ranges, a single one, no update, and no row."""
    run = compiled(lambda x, i, y: x.index_add(0, i, y), dynamic=True, fullgraph=True)
    for count, edges in [
        (ROWS, EDGES),
        (ROWS, 2),
        (2, EDGES),
        (65, EDGES),
        (5, 0),
        (9000, 900),
    ]:
        x, i, y = values(count, 64), rows(edges) % count, values(edges, 64)
        found = run(x, i, y)
        torch.testing.assert_close(found, x.index_add(0, i, y), rtol=0, atol=0)


@pytest.mark.parametrize("wrong", [ROWS, -1])
@pytest.mark.parametrize("at", [0, EDGES - 1])
def test_positions_outside(wrong, at):
    run = compiled(lambda x, i, y: x.index_add(0, i, y))
    x, i, y = values(ROWS, 64), rows(EDGES), values(EDGES, 64)
    expected = x.index_add(0, i, y)
    torch.testing.assert_close(run(x, i, y), expected, rtol=0, atol=0)
    bad = i.clone()
    bad[at] = wrong
    with pytest.raises(IndexError):
        run(x, bad, y)
    torch.testing.assert_close(run(x, i, y), expected, rtol=0, atol=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_super_kernel(threads):
    """Tiles of one launch find their updates beside tiles of others."""

    def function(x, edges):
        with anabranch.super_kernel("graph"):
            taken = (x * 2).index_select(0, edges[0])
            sums = torch.zeros_like(x).index_add(0, edges[1], taken)
            return sums.relu().softmax(1).index_add(0, edges[0], taken)

    x, edges = values(ROWS, 64), rows(2, EDGES)
    expected = function(x.double(), edges)
    torch.set_num_threads(threads)
    run = compiled(function, fullgraph=True)
    for _ in range(20):
        torch.testing.assert_close(
            run(x, edges).double(), expected, rtol=1e-5, atol=1e-5
        )

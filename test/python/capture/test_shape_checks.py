"""The compiler checks shapes that PyTorch's traces leave unchecked."""

from __future__ import annotations

import pytest
import torch
from checking import compiled

import anabranch

PAIR, THREE = torch.tensor([1, 2]), torch.tensor([0, 1, 2])


def put(x, i, v):
    return x.index_put((i,), v)


WRONG = [
    (put, (PAIR, torch.randn(2, 5)), "values of shape"),
    (put, (PAIR, torch.randn(3, 4)), "values of shape"),
    (put, (PAIR, torch.randn(1, 2, 4)), "values of shape"),
    (put, (torch.zeros(3, dtype=torch.bool), torch.randn(())), "the mask of shape"),
    (lambda x, i, v: x.index_put((i, i, i), v), (PAIR, torch.randn(2)), "too many"),
    (
        lambda x, i, j, v: x.index_put((i, j), v),
        (PAIR, THREE, torch.randn(3)),
        "broadcast together",
    ),
    (lambda x, i, v: x.index_add(0, i, v), (PAIR, torch.randn(2, 5)), "of shape"),
    (lambda x, i: x.index_select(0, i), (PAIR.view(1, 2),), "must be a vector"),
    (lambda x, v: x.slice_scatter(v, 0, 1, 3), (torch.randn(3, 4),), "src of shape"),
    (lambda x, v: x.select_scatter(v, 0, 1), (torch.randn(5),), "src of shape"),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "arguments", "words"), WRONG)
def test_what_eager_refuses_is_refused(function, arguments, words, dynamic):
    x = torch.randn(8, 4)
    with pytest.raises((RuntimeError, IndexError)):
        function(x.clone(), *arguments)
    run = compiled(function, dynamic=dynamic)
    with pytest.raises(
        anabranch.CompileError, match=f"(?s){words}.*test_shape_checks.py"
    ):
        run(x, *arguments)


FINE = [
    (put, (PAIR, torch.randn(2, 4))),
    (put, (PAIR, torch.randn(1, 4))),
    (put, (PAIR, torch.randn(()))),
    (put, (PAIR.view(2, 1), torch.randn(2, 1, 4))),
    (put, (torch.ones(8, dtype=torch.bool), torch.randn(8, 4))),
    (
        lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v),
        (PAIR, torch.randn(8, 2)),
    ),
    (
        lambda x, i, j, v: x.index_put((i.view(2, 1), j), v),
        (PAIR, THREE, torch.randn(2, 3)),
    ),
    (
        lambda x, i, j, v: torch.ops.aten.index_put(x.view(2, 4, 4), [i, None, j], v),
        (PAIR - 1, PAIR, torch.randn(2, 4)),
    ),
    (lambda x, i, v: x.index_add(0, i, v), (PAIR, torch.randn(2, 4))),
    (lambda x, i, v: x.index_copy(0, i, v), (PAIR, torch.randn(2, 4))),
    (lambda x, i, v: x[0, 0].index_copy(0, i, v), (PAIR[:1] - 1, torch.randn(1))),
    (lambda x, v: x.slice_scatter(v, 0, -3, 20, 2), (torch.randn(2, 4),)),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "arguments"), FINE)
def test_what_fits_is_computed(function, arguments, dynamic):
    x = torch.randn(8, 4)
    found = compiled(function, dynamic=dynamic)(x, *arguments)
    assert torch.equal(found, function(x, *arguments))


def test_sizes_of_later_calls_are_checked_too():
    run = compiled(put, dynamic=True)
    x = torch.zeros(8, 4)
    for rows in (2, 3, 5):
        index, values = torch.arange(rows), torch.randn(rows, 4)
        assert torch.equal(run(x, index, values), put(x, index, values))
    with pytest.raises(anabranch.CompileError, match="values of shape"):
        run(x, torch.arange(6), torch.randn(4, 4))


@pytest.mark.parametrize("name", ["index_add", "index_copy"])
def test_lines_of_later_calls_are_checked_too(name):
    def lines(x, index, source):
        return getattr(x, name)(0, index, source)

    run = compiled(lines, dynamic=True)
    x = torch.zeros(8, 4)
    for rows in (2, 3, 5):
        index, source = torch.arange(rows), torch.randn(rows, 4)
        assert torch.equal(run(x, index, source), lines(x, index, source))
    for source in (torch.randn(4, 4), torch.randn(6, 5)):
        with pytest.raises((RuntimeError, IndexError)):
            run(x, torch.arange(6), source)

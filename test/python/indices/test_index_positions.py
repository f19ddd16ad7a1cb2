"""Operators that take positions accept and refuse the positions that eager PyTorch does."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal, compiled

import anabranch

functional = torch.nn.functional

# Functions of a [5, 3] tensor and of two positions among five.
FUNCTIONS = {
    "index": lambda x, i: x[i],
    "index, after a slice": lambda x, i: x[:, i % 3][i],
    "index_put": lambda x, i: x.index_put((i,), x[:2]),
    "index_put, accumulated": lambda x, i: x.index_put((i,), x[:2], accumulate=True),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select, columns": lambda x, i: x.t().contiguous().index_select(-1, i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.5),
    "scatter, of a tensor": lambda x, i: x.scatter(0, i[:, None], x),
    "scatter, multiplied": lambda x, i: x.scatter(0, i[:, None], x, reduce="multiply"),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], x, "amax"),
    "scatter_reduce, mean": lambda x, i: x.scatter_reduce(
        0, i[:, None], x, "mean", include_self=False
    ),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_add, scaled": lambda x, i: (
        x.t().contiguous().index_add(-1, i, x.t()[:, :2], alpha=2)
    ),
    "index_add, in place": lambda x, i: x.clone().index_add_(0, i, x[:2]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "index_copy, in place": lambda x, i: x.clone().index_copy_(0, i, x[:2]),
    "index_copy, columns": lambda x, i: (
        x.t().contiguous().index_copy(1, i, x.t()[:, :2])
    ),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.5),
    "index_fill, of a tensor": lambda x, i: x.index_fill(0, i, x[0, 0]),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:2], "amax"),
    "take": lambda x, i: x[:, 0].take(i),
    "put": lambda x, i: x[:, 0].contiguous().put(i, x[:2, 0]),
    "embedding": lambda x, i: functional.embedding(i, x),
    "embedding_bag": lambda x, i: functional.embedding_bag(i[None], x, mode="sum"),
    "one_hot": lambda x, i: functional.one_hot(i, 5) + x[0, 0],
    "nll_loss": lambda x, i: functional.nll_loss(x.t()[:2], i),
    "cross_entropy": lambda x, i: functional.cross_entropy(x.t()[:2], i),
}
POSITIONS = {"good": 2, "beyond": 5, "far": 2**40, "negative": -1, "below": -6}
# Eager PyTorch takes no other dtypes, but for uint8: a mask where it indexes, and a class
# in losses, which PyTorch cannot trace.
DTYPES = [torch.int64, torch.int32]


def positions(kind, dtype):
    """Two positions, the second of this kind; None: the dtype does not have it."""
    number = POSITIONS[kind]
    if number > torch.iinfo(dtype).max:
        return None
    return torch.tensor([1, number], dtype=dtype)


def outcome(function, *arguments):
    """The result, or the error."""
    try:
        return function(*arguments)
    except (IndexError, RuntimeError) as error:
        return error


def takes(function, dtype):
    """Whether eager PyTorch takes good positions of the dtype."""
    found = outcome(function, torch.randn(5, 3), positions("good", dtype))
    return isinstance(found, torch.Tensor)


def agree(run, function, dtype, errors):
    """Compares the outcomes of all kinds of positions, each after a good call."""
    x = torch.randn(5, 3)
    for kind in POSITIONS:
        for index in (positions(kind, dtype), positions("good", dtype)):
            if index is None:
                continue
            wanted, found = outcome(function, x, index), outcome(run, x, index)
            if isinstance(wanted, Exception):
                assert isinstance(found, errors or type(wanted)), (kind, found)
            else:
                assert not isinstance(found, Exception), (kind, found)
                assert_equal(found, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_positions_alone_and_after_arithmetic(name, dtype, dynamic):
    function = FUNCTIONS[name]
    if not takes(function, dtype):
        pytest.skip(f"eager PyTorch takes no positions of {dtype}")

    def fused(x, index):
        return function(x * 2 + 1, index + index - index).relu() * 0.5

    for tried in (function, fused):
        torch._dynamo.reset()
        agree(compiled(tried, dynamic=dynamic), tried, dtype, errors=None)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_positions_in_a_package(name, tmp_path):
    function = FUNCTIONS[name]

    class Model(torch.nn.Module):
        def forward(self, x, index):
            return function(x + 1, index) * 2

    example = (torch.randn(5, 3), positions("good", torch.int64))
    path = tmp_path / "model.anb"
    anabranch.export(Model().eval(), path, example, allow_libtorch=True)
    package = anabranch.load(path)
    agree(package, Model(), torch.int64, errors=(IndexError, RuntimeError))

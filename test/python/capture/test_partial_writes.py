"""Writes into parts of parts of a tensor: values, and that nothing else is copied."""

from __future__ import annotations

import random

import pytest
import torch
from checking import assert_equal, clone, compiled

import anabranch

SHAPE = (3, 6, 8, 5)
VIEWS = (
    "{x}[{i}]",
    "{x}.select(-1, {i})",
    "{x}[1:{end}]",
    "{x}[..., {i}:]",
    "{x}[::2]",
    "{x}.unbind(0)[{i}]",
    "{x}.narrow(0, {i}, 1)",
    "{x}.unsqueeze(1)",
    "{x}.transpose(0, -1)",
    "{x}.view(-1, {x}.shape[-1])",
    "{x}.flatten(0, 1)",
)
WRITES = (
    "{x}.copy_(row)",
    "{x}.fill_(3)",
    "{x}.add_(1)",
    "{x}.index_copy_(0, zero, {x}[:1] * 2)",
    "{x}.index_add_(0, zero, {x}[:1])",
    "{x}[zero] = 7",
    "{x}.mul_(2)",
    "{x}[0] = {x}[-1] + 1",
)


def text_of(seed: int) -> str:
    """A function that writes into views of views of its argument, and reads them."""
    rng = random.Random(seed)
    lines = ["def function(x, row, zero):"]
    for number in range(rng.randint(1, 3)):
        view, rank = "x", len(SHAPE)
        for depth in range(rng.randint(1, 3)):
            text = rng.choice(VIEWS)
            drops = text in VIEWS[:2] or text == VIEWS[5]
            if drops and rank == 1:
                continue
            rank += (text == VIEWS[7]) - drops
            if text in VIEWS[-2:]:
                if rank == 1:
                    continue
                rank = 2 if text == VIEWS[-2] else rank - 1
            name = f"v{number}_{depth}"
            text = text.format(x=view, i=rng.randint(0, 1), end=rng.randint(2, 3))
            lines.append(f"    {name} = {text}")
            view = name
        lines.append(f"    {rng.choice(WRITES).format(x=view)}")
        if rng.random() < 0.5:
            lines.append(f"    row = row + {view}.sum()")
    return "\n".join([*lines, "    return row * 1, x.sum(-1)"])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_random_writes_equal_eager(seed, dynamic):
    text = text_of(seed + 1000 * dynamic)
    scope: dict = {}
    exec(text, scope)  # noqa: S102
    function = scope["function"]
    x = torch.arange(720.0).reshape(SHAPE)
    arguments = x, torch.ones(1), torch.zeros(1, dtype=torch.int64)
    expected, given = clone(arguments), clone(arguments)
    try:
        want = function(*expected)
    except (RuntimeError, IndexError):
        pytest.skip("eager PyTorch refuses it")
    if dynamic:
        torch._dynamo.maybe_mark_dynamic(given[0], 1)
    got = compiled(function)(*given)
    assert_equal(got, want)
    assert_equal(given, expected)


def of_a_layer(kv, places, row):
    kv[0].index_copy_(0, places, row)


def of_both_halves(kv, places, row):
    keys, values = kv.unbind(0)
    keys[places] = row
    values[places] = row * 2


def of_a_slice(kv, places, row):
    kv[1, 5:9].copy_(row)


def of_a_column(kv, places, row):
    kv[0][:, 3] = row[0, 0]


def of_flat_rows(kv, places, row):
    kv[0].view(-1, 8)[places] = row[:, :8]


def of_flat_rows_of_both(kv, places, row):
    keys, values = kv.unbind(0)
    keys.flatten(0, 1).index_copy_(0, places, row[:, 0])
    values.flatten(0, 1).index_add_(0, places, row[:, 1])


def of_all_under_another_shape(kv, places, row):
    kv.view(-1, 4, 4).index_put_((places,), row.view(4, 4, 4))


def of_one_tensor_twice(kv, places, row):
    kv[0, 2] = row[0]
    kv[1].index_add_(0, places, row)
    kv[0, 7:9] = row[:2]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        of_a_layer,
        of_both_halves,
        of_a_slice,
        of_a_column,
        of_flat_rows,
        of_flat_rows_of_both,
        of_all_under_another_shape,
        of_one_tensor_twice,
    ],
    ids=lambda write: write.__name__,
)
def test_writes_are_in_place(write, dynamic):
    """The program keeps no second copy of the tensor."""

    def function(kv, places, row):
        write(kv, places, row)
        return kv[0, :4].sum()

    kv = torch.randn(2, 4096, 16)
    arguments = kv, torch.tensor([5, 7, 900, 1]), torch.randn(4, 16)
    expected, given = clone(arguments), clone(arguments)
    if dynamic:
        torch._dynamo.maybe_mark_dynamic(given[0], 1)
    run = compiled(function, fullgraph=True)
    assert_equal(run(*given), function(*expected))
    assert_equal(given, expected)
    report = anabranch.last_report()
    assert report is not None and report["fallbacks"] == []
    if not dynamic:
        assert report["arena_bytes"] < kv.nbytes / 8


def adds(x, y):
    x.add_(y)
    return (x * 2).sum(0)


def writes_a_column(x, y):
    x[:, 2] = y[:, 0]
    return x.sum(-1)


@pytest.mark.parametrize("function", [adds, writes_a_column])
def test_writes_to_arguments_whose_strides_vary(function):
    """Transposed arguments with symbolic sizes: a program gets a contiguous copy, and
    the call copies it back."""
    run = compiled(function, fullgraph=True, dynamic=True)
    for rows in (5, 7, 9):
        arguments = torch.randn(rows, rows + 3).t(), torch.randn(rows + 3, rows)
        expected, given = clone(arguments), clone(arguments)
        version = given[0]._version
        assert_equal(run(*given), function(*expected))
        assert_equal(given, expected)
        assert given[0]._version > version
    assert anabranch.counters.eager_graphs == 0


def test_arguments_whose_strides_vary_and_that_share_memory():
    run = compiled(adds, dynamic=True)
    for rows in (5, 7):
        base = torch.randn(rows, rows + 3)
        expected = clone(base)
        got = run(base.t(), base.t()[:, :])
        assert_equal(got, adds(expected.t(), expected.t()[:, :]))
        assert_equal(base, expected)


def test_a_parameter_whose_strides_vary():
    run = compiled(adds, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (5, 7):
            weight = torch.nn.Parameter(torch.randn(rows, rows + 3).t())
            expected, y = clone(weight), torch.randn(rows + 3, rows)
            assert_equal(run(weight, y), adds(expected, y))
            assert_equal(weight, expected)

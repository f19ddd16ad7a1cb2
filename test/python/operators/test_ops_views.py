"""Our kernels for views, slices, joins, gathers and scatters equal eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from checking import check, compiled, ints, rand

import anabranch


def write_strided(x, y):
    """Writes to every third element, starting at each lane of a vector."""
    a, b, c = x.clone(), x.clone(), torch.zeros(2, 5, 97)
    a[:, 1:5:3, 1:60:3] = y
    b[:, ::3, 30:90:3] = y * 2
    c[:, 1::2, 1::2] = x[:, :2, :48]
    return a, b, c


def write_slices(x, y):
    x = x.clone()
    x[:, 1:4] = y
    x[1] = 0
    x[2, ::2] = 5
    return x


def write_indices(x, i, y):
    x = x.clone()
    x[i, -1] = y
    x.index_put_((i,), y[:, None].expand(-1, x.shape[1]), accumulate=True)
    return x


def write_mask(x):
    x = x.clone()
    x[x > 0] = 2.0
    return x


CASES = {
    "reshape": (
        lambda x: (x.reshape(-1), x.unsqueeze(1) + 0, x.view(x.shape[0], 3, -1) * 2),
        (rand(4, 6),),
    ),
    "permute": (
        lambda x: (x.permute(2, 0, 1) + 1, x.transpose(0, 1).reshape(x.shape[0], -1)),
        (rand(4, 6, 5),),
    ),
    "expand": (
        lambda x: (x.unsqueeze(1).expand(-1, 3, -1) + 0, x.repeat(2, 3)),
        (rand(4, 6),),
    ),
    "slice": (
        lambda x: (x[:, 1:5:2] + 0, x[-1] + 0, x[-2:] + 0, x[1:, -3] * 2),
        (rand(4, 6),),
    ),
    "split": (
        lambda x: [*(y + 0 for y in x.split(2, 1)), *(y + 0 for y in x.unbind(1)[:2])],
        (rand(4, 6),),
    ),
    "flip": (
        lambda x: (x.flip(0, 1), x.roll((1, -2), (0, 1)), x.roll(5)),
        (rand(4, 6),),
    ),
    "diagonal": (
        lambda x: (x.diagonal(1) + 0, x.diagonal(-2) + 0, x.unfold(1, 3, 2) + 0),
        (rand(4, 6),),
    ),
    "cat": (
        lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x], 1), torch.cat([y, y])),
        (rand(4, 6), rand(4, 2)),
    ),
    "cat_promotes": (
        lambda x: torch.cat([x, x.double(), torch.empty(0)]),
        (rand(4),),
    ),
    "pad": (
        lambda x: (F.pad(x, (1, 2, -1, 3)), F.pad(x, (1, 2), value=3.0)),
        (rand(4, 6),),
    ),
    "pad_border": (
        lambda x: (
            F.pad(x, (2, 1), mode="reflect"),
            F.pad(x, (2, 1), mode="replicate"),
        ),
        (rand(4, 6),),
    ),
    "slice_scatter": (write_slices, (rand(4, 6), rand(4, 3))),
    "strided_writes": (write_strided, (rand(2, 5, 99), rand(2, 2, 20))),
    "select_scatter": (
        lambda x, y: torch.select_scatter(x, y, 1, -2),
        (rand(4, 6), rand(4)),
    ),
    "gather": (lambda x, i: x.gather(1, i), (rand(3, 4), ints(4, 3, 2))),
    "index": (
        lambda x, i, j: (x[:, i], x[i[:3], j], x[i[:2], :, j[:2]], x[-1 - i]),
        (rand(4, 4, 5), ints(4, 6), ints(4, 3)),
    ),
    "index_select": (lambda x, i: x.index_select(1, i), (rand(4, 4), ints(4, 6))),
    "embedding": (F.embedding, (ints(9, 2, 3), rand(9, 4))),
    "embedding_i32": (F.embedding, (ints(9, 2, 3).int(), rand(9, 4))),
    "scatter": (
        lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i, 7.0)),
        (
            rand(3, 8),
            torch.stack([torch.randperm(8)[:5] for _ in range(3)]),
            rand(3, 6),
        ),
    ),
    "scatter_add": (
        lambda x, i, y: x.scatter_add(1, i, y),
        (rand(3, 4), ints(4, 3, 6), rand(3, 6)),
    ),
    "index_put": (write_indices, (rand(9, 4), torch.randperm(9)[:5], rand(5))),
    "masked_put": (write_mask, (rand(3, 4),)),
    "index_add": (
        lambda x, i, y: (x.index_add(0, i, y, alpha=2), x.index_fill(0, i, 1.5)),
        (rand(4, 3), ints(4, 6), rand(6, 3)),
    ),
    "as_strided": (
        lambda x: (
            x.as_strided((2, 4, 3), (6, 2, 1), 3) * 2,
            (x + 1)[1:, ::2].as_strided((3, 3), (5, 1)) + 0,
            (x + 1).t().as_strided((3, 3), (5, 1), 1),
        ),
        (rand(4, 6),),
    ),
    "index_copy": (
        lambda x, i, y: x.index_copy(1, i, y),
        (rand(3, 6), torch.randperm(6)[:4], rand(3, 4)),
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_against_eager(name, dynamic):
    function, arguments = CASES[name]
    check(function, *arguments, calls=1, dynamic=dynamic)
    assert anabranch.counters.eager_graphs == 0
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scatter_reduce(reduce, include_self):
    def function(x, i, y):
        return x.scatter_reduce(1, i, y, reduce, include_self=include_self)

    check(function, rand(3, 4), ints(4, 3, 6), rand(3, 6), calls=1)
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: F.embedding(i, x),
        lambda x, i: x.index_add(0, i, x[: i.shape[0]]),
    ],
)
def test_index_out_of_range(function):
    run = compiled(function)
    x, good = rand(4, 3), torch.tensor([0, 3])
    torch.testing.assert_close(run(x, good), function(x, good))
    with pytest.raises(IndexError):
        run(x, torch.tensor([1, 4]))
    torch.testing.assert_close(run(x, good), function(x, good))


def bytes_of_pytorch(x):
    made = torch.gcd(x, x)
    return (
        made,
        made.view(torch.int8),
        made + 1,
        made.view(torch.int8) * 2,
        torch.gcd(made.view(torch.int8), made.view(torch.int8)),
        made.reshape(-1).view(torch.int8),
    )


@pytest.mark.parametrize(
    "function",
    [
        bytes_of_pytorch,
        lambda x: torch.gcd(x, x).view(torch.int8),
        lambda x: (
            torch.gcd(x.view(torch.int8), x.view(torch.int8)).view(torch.uint8) + 1
        ),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_of_a_fallback_are_read_as_another_dtype(function, dynamic):
    x = torch.randint(0, 200, (7, 9)).to(torch.uint8)
    check(function, x, dynamic=dynamic)


def bytes_of_bools(x):
    """The trace looks at the sums as bools, then as bytes again."""
    seen = torch.eq(x, x)
    seen.view(torch.uint8).view(-1).add_(1)
    return seen, seen.view(torch.uint8) * 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_that_are_no_bools_survive_a_look_at_them_as_bools(dtype, dynamic):
    x = torch.randint(0, 100, (7, 9)).to(dtype)
    check(lambda x: (x + 1).view(torch.bool).view(dtype), x, dynamic=dynamic)
    check(lambda x: (x + 1).view(torch.bool).view(torch.int8), x, dynamic=dynamic)
    check(bytes_of_bools, x, dynamic=dynamic)


def test_result_of_a_strided_argument_keeps_its_strides():
    """Writes a whole argument that has gaps and symbolic sizes, and returns a view."""

    def function(x):
        x.copy_(x)
        return x.flatten()

    x = torch.arange(10560.0).as_strided((33, 2, 16, 5), (320, 160, 10, 2))
    assert check(function, x, dynamic=True)(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("read", "made"),
    [
        (torch.float16, torch.bfloat16),
        (torch.bfloat16, torch.float16),
        (torch.int16, torch.float16),
        (torch.int16, torch.bfloat16),
    ],
)
def test_bits_of_one_dtype_are_computed_with_as_another(read, made, dynamic):
    """The bits of f16 numbers from 1 to 2 are finite numbers in all of these dtypes."""

    def function(x):
        y = x.view(made)
        return y.float() * 2, y + 1, torch.where(y > 1.5, y, y * 3), y.view(read)

    x = (torch.rand(7, 37) + 1).to(torch.float16).view(read)
    check(function, x, dynamic=dynamic)

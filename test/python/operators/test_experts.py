"""Products of experts: they read chosen weights in place, or groups of rows."""

from __future__ import annotations

import pytest
import torch

import anabranch

FLOATS = [torch.float32, torch.bfloat16]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + shape[0])
    return (torch.randn(*shape, generator=generator) / shape[-1] ** 0.5).to(dtype)


def check(function, *inputs, fallback=0, copies=None, freeze=False, dynamic=None):
    """Compares with eager, and with float64 as exactly as the dtype allows."""
    torch._dynamo.reset()
    anabranch.counters.reset()
    compiled = anabranch.compile(function, freeze=freeze, dynamic=dynamic)
    with torch.no_grad():
        result = compiled(*inputs)
        exact = function(*(x.double() if x.is_floating_point() else x for x in inputs))
        eager = function(*inputs)
    assert anabranch.counters.fallback_calls == fallback
    assert result.dtype == eager.dtype and result.shape == eager.shape
    error = (result.double() - exact).abs().max() if exact.numel() else 0
    allowed = (eager.double() - exact).abs().max() if exact.numel() else 0
    assert error <= 2 * allowed + 1e-6 * (1 + exact.abs().max())
    if copies is not None:
        assert anabranch.counters.kernels <= copies
    return compiled


CHOICES = {
    "one": [2],
    "two": [2, 5],
    "same": [3] * 7,
    "runs": [0, 0, 0, 1, 1, 4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2],
    "mixed": [5, 1, 5, 1, 1, 0, 7],
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize(
    ("columns", "depth"), [(64, 96), (70, 33)], ids=["whole", "tails"]
)
@pytest.mark.parametrize("form", ["rows", "columns", "matrix_vector"])
def test_gathered_weights(form, columns, depth, chosen, dtype):
    """Each row has a weight, in either order of elements, as in transformers' batched_mm.
    No kernel copies the chosen weights."""
    index = torch.tensor(chosen)
    x = random(len(chosen), depth, dtype=dtype)
    if form == "columns":
        weight = random(8, depth, columns, dtype=dtype)
        work = lambda x, w, i: torch.bmm(x.unsqueeze(1), w[i]).squeeze(1)
    else:
        weight = random(8, columns, depth, dtype=dtype)
        work = {
            "rows": lambda x, w, i: torch.bmm(x.unsqueeze(1), w[i].mT).squeeze(1),
            "matrix_vector": lambda x, w, i: torch.bmm(w[i], x.unsqueeze(-1)).squeeze(
                -1
            ),
        }[form]
    check(work, x, weight, index, copies=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gathered_weights_of_one_token(dtype):
    """The columns of the first product, and the depth of the second, run over all experts."""

    def work(x, up, down, chosen):
        inner = torch.nn.functional.silu(torch.einsum("ehd,d->eh", up[chosen], x))
        return torch.einsum("edh,eh->d", down[chosen], inner)

    x, up, down = random(64), random(8, 96, 64), random(8, 64, 96)
    inputs = [t.to(dtype) for t in (x, up, down)]
    kernels = 3 if dtype == torch.float32 else 4
    check(work, *inputs, torch.tensor([2, 5]), copies=kernels)
    check(work, *inputs, torch.tensor([7, 0, 0]), copies=kernels)


@pytest.mark.parametrize("gather", ["index_select", "embedding", "number"])
def test_other_gathers(gather):
    x, weight = random(5, 1, 32), random(6, 48, 32)
    index = torch.tensor([4, 4, 0, 5, -2 if gather == "number" else 3])
    work = {
        "index_select": lambda x, w, i: x @ w.index_select(0, i).mT,
        "embedding": lambda x, w, i: (
            x @ torch.nn.functional.embedding(i, w.flatten(1)).view(-1, 48, 32).mT
        ),
        "number": lambda x, w, i: x @ w[i[4]].T,
    }[gather]
    check(work, x, weight, index)


def test_many_rows_of_each_gathered_weight():
    x, weight = random(3, 40, 32), random(6, 48, 32)
    check(lambda x, w, i: x @ w[i].mT, x, weight, torch.tensor([5, 0, 5]), copies=1)


@pytest.mark.parametrize("place", [8, -9])
def test_an_index_out_of_range_is_an_error(place):
    torch._dynamo.reset()
    x, weight = random(2, 1, 32), random(8, 48, 32)
    work = anabranch.compile(lambda x, w, i: x @ w[i].mT)
    with torch.no_grad():
        work(x, weight, torch.tensor([1, 7]))
        with pytest.raises(IndexError):
            work(x, weight, torch.tensor([1, place]))


def test_dynamic_rows_of_gathered_weights():
    torch._dynamo.reset()
    weight = random(4, 48, 32)

    def work(x, i):
        return torch.bmm(x.unsqueeze(1), weight[i].mT).squeeze(1)

    compiled = anabranch.compile(work, dynamic=True)
    for rows in (3, 9, 70):
        x, index = random(rows, 32), torch.arange(rows) * 5 // rows % 4
        with torch.no_grad():
            assert torch.allclose(compiled(x, index), work(x, index), atol=1e-5)


# Groups of rows


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(
    "counts",
    [[5, 0, 1, 7], [0, 0, 0, 3], [40, 2, 30, 0], [1, 1, 1, 1], [200, 0, 100, 20]],
    ids=str,
)
def test_grouped_products(counts, transposed, dtype):
    ends = torch.tensor(counts).cumsum(0).to(torch.int32)
    x = random(sum(counts), 64, dtype=dtype)
    weight = (
        random(4, 96, 64, dtype=dtype) if transposed else random(4, 64, 96, dtype=dtype)
    )

    def work(x, w, ends):
        w = w.mT if transposed else w
        if x.dtype == torch.bfloat16:
            return torch._grouped_mm(x, w, offs=ends)
        return torch.ops.transformers.grouped_mm_fallback(x, w, ends)

    pytest.importorskip("transformers.integrations.moe")
    torch._dynamo.reset()
    anabranch.counters.reset()
    with torch.no_grad():
        result = anabranch.compile(work)(x, weight, ends)
        exact = torch.cat(
            [
                part.double() @ (w.mT if transposed else w).double()
                for part, w in zip(x.split(counts), weight, strict=True)
            ]
        )
    assert anabranch.counters.fallback_calls == 0
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    assert torch.allclose(result.double(), exact, tolerance, tolerance)


def test_rows_after_the_last_group_are_zero():
    pytest.importorskip("transformers.integrations.moe")
    torch._dynamo.reset()
    x, weight, ends = random(6, 16), random(2, 16, 8), torch.tensor([1, 4])

    def work(x, w, ends):
        return torch.ops.transformers.grouped_mm_fallback(x, w, ends)

    with torch.no_grad():
        result = anabranch.compile(work)(x, weight, ends)
        assert torch.allclose(result, work(x, weight, ends), atol=1e-5)
    assert result[4:].eq(0).all()


# What routers do


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.bool])
def test_sort_is_stable(dtype, descending):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 8, (3, 100), generator=generator).to(dtype)
    if dtype.is_floating_point:
        x[0, 5], x[1, :3] = float("nan"), float("-inf")
        x[2, 10:20] = -0.0
    torch._dynamo.reset()
    anabranch.counters.reset()
    work = lambda x: torch.sort(x, stable=True, dim=-1, descending=descending)
    with torch.no_grad():
        values, places = anabranch.compile(work)(x)
    expected = work(x)
    assert anabranch.counters.fallback_calls == 0
    assert torch.equal(places, expected[1])
    assert torch.equal(values.nan_to_num(7), expected[0].nan_to_num(7))


@pytest.mark.parametrize("experts", [2, 7, 60])
def test_router_without_pytorch(experts):
    """The router of transformers' grouped_mm: sort, counts, ends, and the inverse order."""

    def work(ids):
        order, places = torch.sort(ids, stable=True)
        counts = torch.histc(order.float(), bins=experts, min=0, max=experts - 1)
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        back = torch.empty_like(places)
        back[places] = torch.arange(places.size(0))
        return order, counts, ends, back

    generator = torch.Generator().manual_seed(experts)
    for rows in (1, 2, 128):
        torch._dynamo.reset()
        anabranch.counters.reset()
        ids = torch.randint(0, experts, (rows,), generator=generator)
        with torch.no_grad():
            result = anabranch.compile(work)(ids)
        assert anabranch.counters.fallback_calls == 0
        for made, expected in zip(result, work(ids), strict=True):
            assert torch.equal(made, expected)


def test_histc_at_its_edges():
    x = torch.tensor(
        [-1.0, 0, 0.1, 0.25, 0.3, 0.999, 1, 1.5, float("nan"), float("inf")]
    )
    for bins in (1, 3, 4, 7):
        torch._dynamo.reset()
        work = lambda x, bins=bins: torch.histc(x, bins, 0, 1)
        with torch.no_grad():
            assert torch.equal(anabranch.compile(work)(x), work(x))

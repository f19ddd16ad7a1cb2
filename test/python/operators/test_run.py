"""Graphs of every kind give eager's results."""

import pytest
import torch
from checking import assert_equal, check, clone, compiled
from torch import nn

import anabranch


def ours() -> bool:
    """Asserts that all graphs so far were compiled, and that PyTorch ran none whole."""
    return anabranch.counters.graphs > 0 and anabranch.counters.eager_graphs == 0


def test_mlp():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()
    check(model, torch.randn(5, 16))
    assert ours()


def test_frozen_mlp():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    check(model, torch.randn(5, 16), options={"freeze": True})
    assert ours()


def test_parameters_stay_live_without_freeze():
    model = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    run = compiled(model)
    with torch.no_grad():
        run(x)
        model.weight.mul_(2)
        assert_equal(run(x), model(x))


def test_symbolic_sizes():
    def function(x, y):
        return torch.softmax(x @ y, -1), torch.cat([x, x]).sum(0)

    run = compiled(function, dynamic=True)
    for rows in (3, 17, 64):
        x, y = torch.randn(rows, 8), torch.randn(8, rows)
        assert_equal(run(x, y), function(x, y))
    assert anabranch.counters.graphs == 1


def test_graph_breaks():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y + x.cos()

    check(function, torch.randn(7))
    assert anabranch.counters.graphs == 2


def test_sizes_that_depend_on_values():
    def function(x):
        return x.nonzero() * 2, x[x > 0].sum()

    check(function, torch.tensor([1.0, 0.0, -2.0, 3.0]))


def test_views_as_outputs():
    def function(x):
        y = x * 2
        return y.t(), y[1:], x.view(-1), x[::2], y.unsqueeze(0)

    check(function, torch.randn(4, 6))


def test_a_view_of_an_input_is_a_view():
    x = torch.zeros(4)
    view, _ = compiled(lambda x: (x[1:3], x + 1))(x)
    view.fill_(5)
    assert x.tolist() == [0, 5, 5, 0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("transpose", [False, True])
def test_results_that_share_memory(dynamic, begin, transpose):
    def function(x, y):
        z = y * 2
        parts = x.chunk(2, 1)[0], x.t(), x[-1, 1:], y[1:].add_(1), y
        return *parts, z[1:], z.t(), z, x.expand(2, *x.shape)

    def storages(tensors):
        return [
            [a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in tensors]
            for b in tensors
        ]

    x, y = torch.randn(6, 5)[begin:], torch.randn(4, 3)
    x = x.t() if transpose else x
    run = compiled(function, dynamic=dynamic)
    with torch.no_grad():
        for rows in (slice(None), slice(1, None)):
            given, other = [x[rows], y.clone()], [x[rows], y.clone()]
            result, expected = run(*given), function(*other)
            assert_equal(result, expected)
            assert storages([*result, *given]) == storages([*expected, *other])
    assert ours()


def test_an_input_handed_back():
    x = torch.randn(3)
    same, _ = compiled(lambda x: (x, x + 1))(x)
    assert same is x or same.data_ptr() == x.data_ptr()


def test_expanded_and_transposed_results():
    def function(x):
        y = x.sum(0)
        return y.expand(3, -1), (x * 2).permute(1, 0), (x + 1).t().contiguous()

    check(function, torch.randn(4, 6))


def test_inputs_written_in_place():
    def function(x, y):
        x.add_(1)
        y[1:].mul_(x[1:])
        return x * y

    check(function, torch.randn(5), torch.randn(5))


@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_inputs_that_overwrite_what_others_read(shape):
    def function(x, y):
        x.add_(y)
        y.add_(x)
        return y * x, torch.trunc(x)

    check(function, torch.full(shape, 1.75), torch.full(shape, 2.5))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows, depth", [(37, 70), (1, 33), (130, 1200)])
def test_results_that_overwrite_dying_operands(dynamic, rows, depth):
    def function(x, w, v):
        a = torch.softmax(x, -1)
        residual = torch.relu((a @ w) @ v) + a
        scores = torch.softmax(residual, -1)
        return scores @ w

    tensors = torch.randn(rows, depth), torch.randn(depth, 50), torch.randn(50, depth)
    check(function, *tensors, dynamic=dynamic)


def test_a_written_input_that_is_no_contiguous_tensor():
    def function(x):
        x.mul_(2)
        return x + 1

    check(function, torch.randn(4, 6).t())


def test_buffers_written_in_place():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 8, 4))

        def forward(self, x, position):
            self.keys.index_copy_(1, position, x)
            return (self.keys * x.mean(1, keepdim=True)).sum(-1)

    check(Cache(), torch.randn(2, 1, 4), torch.tensor([3]), calls=3)


def test_a_kv_cache_by_slices():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 8, 4))

        def forward(self, x, position: int):
            self.keys[:, position : position + 1] = x
            return self.keys.sum(1)

    check(Cache(), torch.randn(2, 1, 4), 3, calls=3)


def test_version_counters_move():
    x = torch.zeros(3)
    before = x._version
    with torch.no_grad():
        compiled(lambda x: x.add_(1))(x)
    assert x.tolist() == [1, 1, 1] and x._version > before


def test_scalars_and_symbols():
    def function(x, n: int):
        return x * n, x.shape[0] * 2 + n, n

    run = compiled(function, dynamic=True)
    for rows, n in ((3, 5), (8, 2), (11, 7)):
        x = torch.randn(rows, 2)
        assert_equal(run(x, n), function(x, n))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (1,), (1, 1, 1)])
def test_small_shapes(shape):
    def function(x):
        return x + 1, x.sum(), x.reshape(-1), torch.cat([x.reshape(-1)] * 2)

    check(function, torch.randn(shape))


@pytest.mark.parametrize("dynamic", [False, True])
def test_strided_inputs(dynamic):
    def function(x):
        return x * 2, x.sum(-1), x + x.mean()

    base = torch.randn(8, 6, 4)
    for x in (base.transpose(0, 2), base[:, ::2], base[1:, 1:, 1:], base.select(1, 2)):
        torch._dynamo.reset()
        check(function, x, dynamic=dynamic)


def test_overlapping_inputs():
    def function(x):
        return x * 2 + 1, x.sum(0)

    check(function, torch.randn(4, 1).expand(4, 5))
    check(function, torch.arange(6.0).as_strided((3, 4), (1, 1)))


def test_the_same_tensor_twice():
    x = torch.randn(4)
    assert_equal(compiled(lambda a, b: a * 2 + b)(x, x), x * 3)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "u8", "i16", "i32"])
def test_dtypes(dtype):
    names = {"f16": "float16", "bf16": "bfloat16", "f64": "float64", "u8": "uint8"}
    kind = getattr(torch, names.get(dtype, dtype.replace("i", "int")))
    x = (torch.randn(33) * 5).abs().to(kind)
    check(lambda x: (x + x, x * 2, x > 3, x.to(torch.float32)), x)


def test_operators_without_a_kernel():
    def function(x):
        values, order = torch.sort(x, dim=-1)
        return values, order, torch.linalg.svdvals(x), torch.fft.rfft(x).abs()

    check(function, torch.randn(4, 8), tolerance={"rtol": 1e-4, "atol": 1e-4})
    assert ours() and anabranch.counters.fallback_calls > 0


def test_random_numbers_are_those_of_eager():
    def function(x):
        return x + torch.rand(4), torch.randn(3), torch.bernoulli(x.sigmoid())

    x = torch.randn(4)
    torch.manual_seed(7)
    expected = function(x)
    torch.manual_seed(7)
    assert_equal(compiled(function)(x), expected)


def test_an_index_out_of_range_is_an_error():
    table = torch.randn(4, 3)
    run = compiled(lambda t, i: torch.nn.functional.embedding(i, t) * 2)
    assert_equal(run(table, torch.tensor([1, 3])), table[[1, 3]] * 2)
    with pytest.raises((IndexError, RuntimeError)):
        run(table, torch.tensor([1, 9]))
    assert_equal(run(table, torch.tensor([0, 2])), table[[0, 2]] * 2)


def test_training_step():
    def steps(model, run):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(1)
        losses = []
        for _ in range(4):
            x, target = torch.randn(8, 6), torch.randn(8, 2)
            loss = nn.functional.mse_loss(run(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.detach().clone() for p in model.parameters()]

    model = nn.Sequential(
        nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 2)
    )
    other = clone(model)
    assert_equal(
        steps(model, compiled(model)), steps(other, other), rtol=1e-4, atol=1e-5
    )
    assert anabranch.counters.graphs == 2


def test_anabranch_compile():
    model = nn.Linear(4, 4)
    run = anabranch.compile(model, config=anabranch.Config(freeze=True))
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert_equal(run(x), model(x))
    report = anabranch.last_report()
    assert report and {"name", "phases", "kernels"} <= set(report)


def test_stopping_early_runs_eagerly(capfd):
    check(lambda x: x + 1, torch.randn(3), options={"stop": "lower", "explain": True})
    assert anabranch.counters.eager_graphs == 1
    assert "stopped after lower" in capfd.readouterr().err


def test_dump(tmp_path):
    check(lambda x: x + 1, torch.randn(3), options={"dump": str(tmp_path)})
    assert list(tmp_path.glob("*.graph.json"))


@pytest.mark.parametrize(
    "pad", [(0, 0, 0, 2), (0, 2), (0, 0, 0, 0, 0, 1), (0, 1, 1, 0)]
)
def test_pad_at_one_end(pad):
    x = torch.randn(2, 3, 4)
    compiled = torch.compile(
        lambda x: torch.nn.functional.pad(x, pad), backend=anabranch.anabranch
    )
    assert torch.equal(compiled(x), torch.nn.functional.pad(x, pad))


def test_reshape_of_a_fallback_result():
    x = torch.randn(1, 2, 8)

    def pool(x):
        return torch.nn.functional.adaptive_avg_pool1d(x, 3)

    torch.testing.assert_close(
        torch.compile(pool, backend=anabranch.anabranch)(x), pool(x)
    )


def test_as_strided_beyond_the_memory_is_refused():
    def beyond(x):
        return (x * 2).as_strided((3, 3), (50, 1)) + 1

    with pytest.raises((RuntimeError, IndexError)):
        torch.compile(beyond, backend=anabranch.anabranch)(torch.randn(20))


def test_what_folds_to_an_argument_is_a_copy():
    def copies(x):
        joined = torch.cat([x.view(2, 6)]).view(3, 4)
        return (
            torch.cat([x]),
            torch.cat([x, x[:0]]),
            torch.slice_scatter(x, x, 0, 0, 3),
            joined,
            torch.stack([x])[0],
        )

    x = torch.randn(3, 4)
    results = torch.compile(copies, backend=anabranch.anabranch)(x)
    for result in results:
        torch.testing.assert_close(result, x)
    assert len({x.data_ptr(), *(result.data_ptr() for result in results)}) == 6


def test_symbolic_results_keep_the_order_of_their_dimensions():
    def shuffled(x):
        return torch.nn.functional.pixel_shuffle(x, 2).relu()

    x = torch.randn(1, 16, 6, 7).to(memory_format=torch.channels_last)
    check(shuffled, x, dynamic=True)

"""Operators that write their arguments are commands of one program."""

from __future__ import annotations

import copy

import pytest
import torch
from checking import assert_equal, check, clone, compiled
from torch import Tensor
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

import anabranch

library = torch.library.Library("writes_test", "FRAGMENT")


@torch.library.custom_op("writes_test::attend", mutates_args=("cache",))
def attend(query: Tensor, cache: Tensor, place: int) -> Tensor:
    """Writes one row of the cache, as attention with a cache of keys does."""
    cache[place] = query[-1]
    return query @ cache.t()


@attend.register_fake
def _(query, cache, place):
    return query.new_empty(query.shape[0], cache.shape[0])


@torch.library.custom_op("writes_test::attend_into", mutates_args=("out",))
def attend_into(query: Tensor, key: Tensor, out: Tensor) -> None:
    out.copy_((query * key).view_as(out))


@torch.library.custom_op("writes_test::scale", mutates_args=("x",))
def scale(x: Tensor, factor: float = 2.0) -> None:
    x.mul_(factor)


@torch.library.custom_op("writes_test::spread", mutates_args=("xs", "rest"))
def spread(value: Tensor, xs: list[Tensor], rest: Tensor | None) -> None:
    for number, x in enumerate(xs):
        x.add_(value.sum() + number)
    if rest is not None:
        rest.sub_(value.mean())


@torch.library.custom_op("writes_test::exchange", mutates_args=("a", "b"))
def exchange(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return a + b, a - b


@exchange.register_fake
def _(a, b):
    return torch.empty_like(a), torch.empty_like(b)


library.define(
    "square.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,)
)
library.impl("square.out", lambda x, *, out: out.copy_(x * x), "CPU")
torch.library.register_fake(
    "writes_test::square.out", lambda x, *, out: out, lib=library
)
library.define("bump_(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
library.impl("bump_", lambda x: x.add_(1), "CPU")
torch.library.register_fake("writes_test::bump_", lambda x: x, lib=library)

ops = torch.ops.writes_test


def one_program(function, *arguments, **settings):
    """Compares with eager PyTorch. Returns the compiled function."""
    run = check(function, *arguments, fullgraph=True, **settings)
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1 and "outside" not in report
    assert anabranch.counters.eager_graphs == 0
    return run


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_that_write_caches(dynamic, dtype):
    def model(x, caches, weights):
        for place, (cache, weight) in enumerate(zip(caches, weights)):
            x = torch.relu(ops.attend(x @ weight, cache, place) @ cache) + x
        return x

    caches = [torch.randn(12, 8, dtype=dtype) for _ in range(12)]
    weights = [torch.randn(8, 8, dtype=dtype) / 8 for _ in range(12)]
    x = torch.randn(5, 8, dtype=dtype)
    one_program(model, x, caches, weights, dynamic=dynamic)


def test_an_output_that_the_caller_makes():
    def model(x):
        out = torch.empty(6, 8)
        ops.attend_into(x.view(6, 2, 4), x.view(6, 2, 4) + 1, out.view(6, 2, 4))
        return torch.relu(out) + x

    one_program(model, torch.randn(6, 8))


def test_lists_and_nothing():
    def model(x, a, b):
        y = x * 2
        ops.spread(x, [a, y[1:3], b.t()], None)
        ops.spread(y, [], b)
        return y + 1, a * 2

    one_program(model, torch.randn(5, 4), torch.randn(3), torch.randn(2, 4))


def test_two_views_of_one_base():
    def model(x):
        y = x + 1
        left, right = ops.exchange(y[:, :3], y[:, 3:])
        return y, left, right

    one_program(model, torch.randn(4, 6))


def test_old_values_that_are_read_later():
    def model(x, cache):
        y = torch.relu(x)
        z = y * 2
        ops.scale(z)
        before = cache * 3
        old = cache.clone()
        ops.scale(cache, 0.5)
        ops.scale(cache[1:])
        return y, z, before, old + cache

    one_program(model, torch.randn(4, 6), torch.randn(4, 6))


def test_inputs_with_strides():
    def model(x, cache, wide):
        ops.attend(x, cache, 1)
        ops.scale(cache[:, 1:3])
        ops.scale(wide)
        return cache * 2, wide + 1, cache @ x.t()

    cache = torch.randn(6, 4).t()
    wide = torch.randn(4, 12)[:, ::2]
    one_program(model, torch.randn(3, 6), cache, wide)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_inputs_that_begin_inside_their_memory(before, dynamic):
    """PyTorch's traces lose the place, or count it twice."""

    def model(x):
        views = x[3:9, 1], x[:, 1:3]
        x[2:5] = 2
        if not before:
            views = x[3:9, 1], x[:, 1:3]
        ops.spread(x.sum(), list(views), None)
        ops.scale(views[1][1])
        return x + 1

    memory = torch.randn(200)
    one_program(model, memory.as_strided((10, 4), (4, 1), 5), dynamic=dynamic)
    compare = check if dynamic else one_program  # symbolic strides with gaps
    compare(model, memory.as_strided((10, 4), (12, 2), 5), dynamic=dynamic)


@pytest.mark.parametrize("size", [33, 4000])
def test_a_copy_with_strides_and_a_symbolic_size(size):
    """The strides of `wide` are symbolic, so the program returns its new value, and that
    of `line`: the operator writes a copy of `line`."""

    def model(wide, line):
        wide += 1
        assert line.stride(0) == 3  # a guard: the stride is no symbol
        ops.scale(line[1:])
        return wide, line.sum()

    wide, line = torch.ones(10, 24)[:, ::2], torch.ones(3 * size)[::3]
    check(model, wide, line, dynamic=True)
    assert anabranch.counters.eager_graphs == 0


def test_what_is_written_is_no_argument_of_the_caller():
    weight = torch.randn(4, 4)

    def model(x):
        y = x.clone()
        ops.scale(y)
        z = torch.zeros(4, 4)
        ops.scale(z)
        w = torch.zeros(4, 4)
        ops.bump_(w)
        v = weight.clone()
        ops.bump_(v.t()[1:])
        return x + y, z, w, v

    one_program(model, torch.randn(4, 4))


def test_values_exchange_their_places():
    def model(a, b):
        ops.scale(a)
        ops.scale(b, 3.0)
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        return a + b

    one_program(model, torch.randn(4), torch.randn(4))


def test_slices_before_and_after():
    def model(x, cache):
        cache[1] = x
        ops.scale(cache)
        cache[2:4] += 1
        ops.scale(cache[0])
        return cache.sum(0)

    one_program(model, torch.randn(4), torch.randn(5, 4))


def test_out_variants_and_inplace_forms():
    def model(x):
        out = torch.empty_like(x)
        ops.square.out(x, out=out)
        ops.bump_(out)
        return ops.bump_(x * 2) + out

    one_program(model, torch.randn(3, 5))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_sizes(rows):
    def model(x, cache):
        y = x + 1
        ops.scale(y[:, 1:])
        ops.spread(x, [y, cache[: x.shape[0]]], None)
        return y, cache.sum()

    run = compiled(model, dynamic=True)
    arguments = torch.randn(rows, 4), torch.randn(9, 4)
    ours, theirs = clone(arguments), clone(arguments)
    assert_equal(run(*ours), model(*theirs))
    assert_equal(ours, theirs)


def test_results_of_other_operators():
    def model(x):
        values, _ = torch.ops.aten.topk(x, 3)
        ops.scale(values)
        a, b = ops.exchange(values, x[:, :3] * 1)
        ops.scale(a)
        return values, a, b

    one_program(model, torch.randn(4, 6))


class Cached(torch.nn.Module):
    """Writes a buffer, as a cache of keys is written."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        scores = ops.attend(self.linear(x), self.cache, 1)
        ops.scale(self.cache[2:])
        return torch.relu(scores) @ self.cache


@pytest.mark.parametrize("freeze", [False, True])
def test_buffers(freeze):
    with torch.no_grad():
        one_program(Cached().eval(), torch.randn(3, 8), options={"freeze": freeze})


def test_exported(tmp_path):
    model, x = Cached().eval(), torch.randn(3, 8)
    with pytest.raises(anabranch.CompileError, match="writes_test::attend") as caught:
        anabranch.export(model, tmp_path / "p", x)
    line = Cached.forward.__code__.co_firstlineno + 1
    assert f"test_writing_operators.py:{line}" in str(caught.value)
    anabranch.export(model, tmp_path / "p", x, allow_libtorch=True)
    run, theirs = anabranch.load(tmp_path / "p"), copy.deepcopy(model)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(torch.from_numpy(run(x=x.numpy())), theirs(x))


def test_a_method_from_the_cache():
    model, x = Cached().eval(), torch.randn(3, 8)
    theirs = copy.deepcopy(model)
    with torch.no_grad():
        for _ in range(2):
            run = anabranch.cache_compile(model.forward)
            torch.testing.assert_close(run(x), theirs(x))
            torch.testing.assert_close(model.cache, theirs.cache)


def test_streams_and_super_kernels():
    def model(x, cache):
        with anabranch.stream("side"):
            y = torch.relu(x @ x) * 2
        with anabranch.super_kernel("layer"):
            z = torch.softmax(x, -1) + 1
            ops.scale(z)
            z = z * 2 + cache
        with anabranch.stream("side"):
            ops.scale(cache)
            y = y + cache
        return y @ z, z

    options = {"streams": "marked", "hazards": "wait"}
    one_program(model, torch.randn(4, 4), torch.randn(4, 4), options=options)


def test_gradients_around():
    def model(x, weight, state):
        y = x @ weight
        ops.scale(state)
        return (y * state).sum()

    x, weight = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
    state = torch.randn(3, 4)
    ends = []
    for run in (model, compiled(model)):
        one, own = weight.detach().clone().requires_grad_(), state.clone()
        loss = run(x, one, own)
        loss.backward()
        ends.append((loss.detach(), one.grad, own))
    assert_equal(*ends)


def test_an_error_runs_the_operator_once():
    calls = []

    @torch.library.custom_op("writes_test::fail", mutates_args=("x",))
    def fail(x: Tensor) -> None:
        calls.append(1)
        x.add_(1)
        raise ValueError("no such row")

    def model(x):
        y = x * 2
        ops.fail(y)
        return y + 1

    with torch.no_grad(), pytest.raises(ValueError, match="no such row"):
        compiled(model)(torch.randn(3))
    assert calls == [1]


def test_effects_keep_their_order():
    said: list[tuple[int, float]] = []

    @torch.library.custom_op("writes_test::say", mutates_args=())
    def say(x: Tensor, number: int) -> None:
        said.append((number, float(x.sum())))

    @torch.library.custom_op("writes_test::note", mutates_args=())
    def note(x: Tensor, number: int) -> tuple[Tensor, Tensor]:
        said.append((number, float(x.sum())))
        return x + 1, x - 1

    say.register_fake(lambda x, number: None)
    note.register_fake(lambda x, number: (torch.empty_like(x), torch.empty_like(x)))
    for name in ("say", "note"):
        _register_effectful_op(f"writes_test::{name}", _EffectType.ORDERED)

    def model(x):
        y = torch.relu(x)
        ops.say(y, 1)
        more, less = ops.note(x, 2)
        ops.say(x * 3, 3)
        ops.scale(y)
        return y + less, more

    one_program(model, torch.arange(4.0))
    # `one_program` calls both functions twice, in turns.
    assert [number for number, _ in said] == [1, 2, 3] * 4
    assert said[:3] == said[3:6]


def test_versions_of_arguments():
    """Autograd counts the write, as in eager PyTorch."""

    def model(x):
        ops.scale(x)
        return x * 2

    ours = torch.randn(3)
    theirs = copy.deepcopy(ours)
    with torch.no_grad():
        compiled(model)(ours)
        model(theirs)
    assert ours._version > 0 and theirs._version > 0

"""Graphs equal eager: dtypes, numbers, aliases, empty tensors, random numbers."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import anabranch
from pictures import compiled

DTYPES = [
    *(torch.float16, torch.float32, torch.float64, torch.bfloat16),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
    *(torch.complex64, torch.complex128),
]
PASSED = [
    *(torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32),
]


def same(found, wanted) -> None:
    torch.testing.assert_close(found, wanted, check_stride=True)


@pytest.mark.checklist("T020", "T021")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, dynamic) -> None:
    x = torch.ones(3, 4).to(dtype)
    y = torch.tensor([[0, 1, 2, 3]] * 3).to(dtype)
    function = torch.logical_or if dtype is torch.bool else torch.add
    same(compiled(lambda x, y: function(x, y), dynamic=dynamic)(x, y), function(x, y))


@pytest.mark.checklist("T021")
@pytest.mark.parametrize("dtype", PASSED)
def test_dtypes_that_pass_through(dtype) -> None:
    x, y = torch.ones(4).to(dtype), torch.ones(4)
    found = compiled(lambda x, y: (x, y + 1, x.view(2, 2)))(x, y)
    assert found[0].dtype == dtype
    assert found[0].data_ptr() == x.data_ptr()
    assert found[2].shape == (2, 2)
    assert torch.equal(found[1], y + 1)


@pytest.mark.checklist("T022", "T023")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("number", [2.5, 3, True])
def test_numbers_beside_tensors(number, dynamic) -> None:
    x = torch.arange(4.0)

    def function(x, number):
        return x * number + number

    same(compiled(function, dynamic=dynamic)(x, number), function(x, number))


@pytest.mark.checklist("T023")
def test_arithmetic_of_sizes() -> None:
    def function(x, n):
        rows = x.shape[0]
        table = [n + rows, n - rows, n * rows, n // 2, n % 3, (n + rows) // 2]
        return [x * value for value in table] + [x / (n / rows), -(-n // 4)]

    run = compiled(function, dynamic=True)
    for rows, n in ((3, 17), (5, 23)):
        x = torch.ones(rows, 2)
        for one, other in zip(run(x, n), function(x, n)):
            same(one, other)


@pytest.mark.checklist("T024")
def test_a_size_is_no_second_input() -> None:
    def function(x, n):
        return x.reshape(n, -1) * n

    run = compiled(function, dynamic=True)
    same(run(torch.ones(6, 4), 6), function(torch.ones(6, 4), 6))
    counts = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    same(run(torch.ones(8, 4), 8), function(torch.ones(8, 4), 8))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counts


@pytest.mark.checklist("T025")
def test_one_value_twice_is_one_tensor() -> None:
    def function(x):
        y = x + 1
        return y, y, x * 2

    found = compiled(function)(torch.ones(3))
    assert found[0] is found[1]


VIEWS = {
    "slice": lambda x, y: x[1:3],
    "slice and transpose": lambda x, y: x[1:4, 1:4].T,
    "transpose": lambda x, y: x.transpose(0, 1),
    "expand": lambda x, y: x[:1].expand(4, 4),
    "size of another": lambda x, y: x[: y.shape[0]],
    "expression": lambda x, y: x[: x.shape[0] // 2, y.shape[0] - 1 :],
    "itself": lambda x, y: x,
}


@pytest.mark.checklist("T026")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_inputs(name, dynamic) -> None:
    def function(x, y):
        return VIEWS[name](x, y), y * 2

    run = compiled(function, dynamic=dynamic)
    for _ in range(2):
        x, y = torch.randn(4, 4), torch.randn(2, 4)
        found, wanted = run(x, y)[0], VIEWS[name](x, y)
        assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert found.storage_offset() == wanted.storage_offset()
        same(found, wanted)


@pytest.mark.checklist("T027")
def test_complex_views() -> None:
    run = compiled(lambda x: (torch.view_as_real(x), x + 1), dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 2, dtype=torch.complex64)
        found = run(x)[0]
        same(found, torch.view_as_real(x))
        assert found.data_ptr() == x.data_ptr()
    torch._dynamo.reset()
    run = compiled(lambda x: (torch.view_as_complex(x), x + 1), dynamic=True)
    x = torch.randn(3, 2)
    found = run(x)
    same(found[0], torch.view_as_complex(x))
    assert found[0].data_ptr() == x.data_ptr()
    assert found[1].data_ptr() != x.data_ptr()


@pytest.mark.checklist("T028")
def test_several_results() -> None:
    def function(x):
        values, places = x.topk(2)
        low, _ = x.min(-1)
        return values, places, low

    x = torch.randn(3, 7)
    for one, other in zip(compiled(function)(x), function(x)):
        same(one, other)


@pytest.mark.checklist("T029")
def test_gradients_of_any_size() -> None:
    run = compiled(lambda x, w: torch.tanh(x @ w).sum(), dynamic=True)
    for rows in (3, 5):
        given = [torch.randn(rows, 4), torch.randn(4, 2)]
        one = [t.clone().requires_grad_() for t in given]
        other = [t.clone().requires_grad_() for t in given]
        run(*one).backward()
        torch.tanh(other[0] @ other[1]).sum().backward()
        for a, b in zip(one, other):
            same(a.grad, b.grad)


@pytest.mark.checklist("T030")
@pytest.mark.parametrize("dynamic", [False, True])
def test_empty_tensors(dynamic) -> None:
    def function(x, y):
        return torch.cat([x, y]) + 1, x * 2, y[:0], (y[:0] @ y.T).sum()

    x, y = torch.empty(0, 3), torch.randn(4, 3)
    for one, other in zip(compiled(function, dynamic=dynamic)(x, y), function(x, y)):
        same(one, other)


@pytest.mark.checklist("T031")
def test_transposed_operands_and_numbers_as_tensors() -> None:
    x, y, number = torch.randn(5, 3), torch.randn(5, 4), torch.tensor(3.0)

    def function(x, y, number):
        return x @ y * number

    same(compiled(function)(x.T, y, number), function(x.T, y, number))


@pytest.mark.checklist("T032")
def test_random_numbers() -> None:
    def function(x):
        noise = torch.nn.functional.dropout(x, 0.5)
        return noise, torch.rand(100), torch.rand_like(x)

    dropped, uniform, like = compiled(function)(torch.ones(1000))
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert 0 <= uniform.min() and uniform.max() < 1
    assert like.shape == (1000,)


@pytest.mark.checklist("T033")
def test_a_reset_frees_graphs() -> None:
    class Marker(torch.nn.Module):
        def forward(self, x):
            return x * 2

    model = Marker()
    seen = weakref.ref(model)
    compiled(model)(torch.ones(3))
    assert anabranch.counters.graphs == 1
    torch._dynamo.reset()
    del model
    gc.collect()
    assert seen() is None


@torch.library.custom_op("basics::both", mutates_args=("a", "b"))
def both(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, n: int, *, kind: str = "add"
) -> None:
    a.add_(x * n)
    if kind == "add":
        b.add_(1)


@torch.library.custom_op("basics::result", mutates_args=("a",))
def result(a: torch.Tensor, more: torch.Tensor | None) -> torch.Tensor:
    a.mul_(2)
    return a + 1 if more is None else a + more


@result.register_fake
def _(a, more):
    return torch.empty_like(a)


def in_views(x, y):
    both(x[1:], y[1:], y[0], 3)
    return x + y


def without_results(x, y):
    both(x, y, x, 2, kind="other")
    return y * 1


def with_options(x, y):
    return result(y, None) + result(y, x), y + 1


@pytest.mark.checklist("T133")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
@pytest.mark.parametrize("function", [in_views, without_results, with_options])
def test_operators_that_write_to_their_inputs(config, function, mode) -> None:
    config.mode = mode
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    given, copies = (x.clone(), y.clone()), (x.clone(), y.clone())
    found, wanted = compiled(function, config)(*given), function(*copies)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(given, copies)

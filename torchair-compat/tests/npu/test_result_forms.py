"""Equal layers ask an operator for the forms of its results once."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

import torch_npu
from pictures import compiled
from torchair._impl.operators import result_forms


@pytest.fixture
def runs(monkeypatch):
    """How often the parts of operators ran for forms alone."""
    found: list[bool] = []
    ask = result_forms._forms

    def count(result, arguments):
        found.append(True)
        return ask(result, arguments)

    monkeypatch.setattr(result_forms, "_forms", count)
    return found


def layers(count: int, width: int):
    def run(x, gamma):
        total = x
        for _ in range(count):
            y, _, total = torch_npu.npu_add_rms_norm(total, x, gamma)
            total = total + torch_npu.npu_swiglu(torch.cat([y, y], -1))
        return total

    return run, torch.randn(3, width), torch.randn(width)


def test_layers_of_equal_forms(runs) -> None:
    for width, asked in ((7, 2), (9, 2)):
        function, x, gamma = layers(6, width)
        runs.clear()
        found = compiled(function)(x, gamma)
        torch.testing.assert_close(found, function(x, gamma), rtol=1e-4, atol=1e-4)
        assert len(runs) == asked


def test_layers_of_equal_symbols(runs) -> None:
    """Each trace asks once, whatever the number of layers is; sizes stay symbols."""
    asked = []
    for count in (2, 6):
        torch._dynamo.reset()
        function, x, gamma = layers(count, 7)
        runs.clear()
        run = compiled(function, dynamic=True)
        found = run(x, gamma)
        asked.append(len(runs))
        torch.testing.assert_close(found, function(x, gamma), rtol=1e-4, atol=1e-4)
        more = torch.randn(5, 7)
        torch.testing.assert_close(
            run(more, gamma), function(more, gamma), rtol=1e-4, atol=1e-4
        )
        assert len(runs) == asked[-1]
    assert 0 < asked[0] == asked[1] < 4


def test_symbols_that_become_numbers() -> None:
    """A size that one layer fixes is a symbol in Dynamo's pass, and a number in the next
    pass: both have one form, with which the next pass finds the first one's."""
    symbols = ShapeEnv()
    source = ConstantSource("size")
    symbol = symbols.create_symbol(7, source, dynamic_dim=DimDynamic.DYNAMIC)
    with FakeTensorMode(shape_env=symbols):
        size = symbols.create_symintnode(symbol, hint=7, source=source)
        x = torch.empty(3, size)
        assert result_forms._form(x) != result_forms._form(torch.empty(3, 7))
        assert x.shape[1] == 7  # fixes it
        assert isinstance(x.shape[1], torch.SymInt)
        assert result_forms._form(x) == result_forms._form(torch.empty(3, 7))


def test_numbers_that_are_symbols() -> None:
    """An argument that is a size is a part of the key."""

    def run(x, y):
        first = torch_npu.npu_slice(x, [0, 0], [y.shape[0], 4])
        return first, torch_npu.npu_slice(x, [0, 0], [y.shape[0] - 1, 4])

    function = compiled(run, dynamic=True)
    x = torch.randn(9, 6)
    for rows in (3, 5):
        found = function(x, torch.ones(rows, 2))
        for one, other in zip(found, run(x, torch.ones(rows, 2))):
            assert torch.equal(one, other)


@pytest.mark.parametrize("dynamic", [True, False])
def test_other_forms_run_anew(dynamic) -> None:
    def run(x, scale):
        y, rows = torch_npu.npu_dynamic_quant_asymmetric(x)[:2]
        cast = torch_npu.npu_dtype_cast(x, torch.float16)
        other = torch_npu.npu_dtype_cast(x, torch.bfloat16)
        return y * scale, rows, cast, other, torch_npu.npu_dtype_cast(x, torch.float32)

    function = compiled(run, dynamic=dynamic)
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        for found, wanted in zip(function(x, 2), run(x, 2), strict=True):
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found, wanted)


def test_results_that_are_arguments_stay_them() -> None:
    """A cast to the same dtype returns its argument, which is written later."""

    def run(x):
        same = torch_npu.npu_dtype_cast(x, torch.float32)
        same.add_(1)
        return x * 2

    for _ in range(2):
        torch._dynamo.reset()
        x = torch.ones(3)
        assert torch.equal(compiled(run)(x), torch.full((3,), 4.0))
        assert torch.equal(x, torch.full((3,), 2.0))

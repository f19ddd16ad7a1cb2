"""Built-in fusions whose patterns come two and three in a row: the next one reads what the
one before it made, and all share an input."""

from __future__ import annotations

import itertools

import pytest
import torch

import torch_npu
from pictures import compiled
from torchair._impl.compile import passes

bf16 = torch.bfloat16
WIDTH = 128


def dynamic_quant(x, residual, gamma, scale):
    y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma, 1e-6)
    q, rows = torch_npu.npu_dynamic_quant(y)
    return (q * rows.unsqueeze(-1)).to(bf16), total


def smoothed(x, residual, gamma, scale):
    y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma)
    q, rows = torch_npu.npu_dynamic_quant(y, smooth_scales=scale)
    return (q * rows.unsqueeze(-1)).to(bf16), total


def flattened(x, residual, gamma, scale):
    y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma)
    q, rows = torch_npu.npu_dynamic_quant(y.flatten(0, 1))
    return (q * rows.unsqueeze(-1)).to(bf16).view_as(x), total


def cast(x, residual, gamma, scale):
    y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma)
    return (y.view(-1, WIDTH).float() * 2).view_as(x).to(bf16), total


def quantized(x, residual, gamma, scale):
    y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma)
    q = torch_npu.npu_quantize(y, scale, None, torch.qint8, -1, True)
    return (q * scale).to(bf16), total


def transposed(x, residual, gamma, scale):
    weight = residual.transpose(1, 2) @ residual
    made = torch.bmm(x.transpose(0, 1), weight[:1].expand(x.shape[1], -1, -1))
    return made.transpose(0, 1) / WIDTH, residual


# For each pattern, its joined operator, and whether only captures have it.
PATTERNS = {
    dynamic_quant: ("npu_add_rms_norm_dynamic_quant", False),
    smoothed: ("npu_add_rms_norm_dynamic_quant", False),
    flattened: ("npu_add_rms_norm_dynamic_quant", False),
    cast: ("npu_add_rms_norm_cast", False),
    quantized: ("npu_add_rms_norm_quant", True),
    transposed: ("npu_transpose_batchmatmul", True),
}


@pytest.fixture
def joined(monkeypatch):
    """The joined operators of the graph after the fusions."""
    found = []
    lower = passes.lower_operators

    def keep(module):
        found.extend(str(node.target) for node in module.graph.nodes)
        return lower(module)

    monkeypatch.setattr(passes, "lower_operators", keep)
    return found


def inputs():
    x, residual = (torch.randn(2, 3, WIDTH).to(bf16) for _ in range(2))
    return x, residual, torch.rand(WIDTH).to(bf16), (torch.rand(WIDTH) + 0.5).to(bf16)


def check(function, given, config) -> None:
    with torch.no_grad():
        found, wanted = compiled(function, config)(*given), function(*given)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "npugraph_ex"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_in_a_row(pattern, count, mode, config, joined) -> None:
    def function(x, residual, gamma, scale):
        for _ in range(count):
            x, residual = pattern(x, residual, gamma, scale)
        return x, residual

    config.mode = mode
    check(function, inputs(), config)
    name, captures_only = PATTERNS[pattern]
    applied = 0 if captures_only and mode == "max-autotune" else count
    assert joined.count(f"npu.{name}.default") == applied


@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_of_one_input(mode, config) -> None:
    """Every pattern reads the same operands, and all results are returned."""

    def function(*given):
        return [one for pattern in PATTERNS for one in pattern(*given)]

    config.mode = mode
    check(function, inputs(), config)


@pytest.mark.parametrize("first", PATTERNS)
@pytest.mark.parametrize("second", PATTERNS)
def test_one_after_another(first, second, config) -> None:
    def function(x, residual, gamma, scale):
        x, residual = first(x, residual, gamma, scale)
        return second(x, residual, gamma, scale)

    config.mode = "npugraph_ex"
    check(function, inputs(), config)


@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_that_feed_one_another(config, dynamic) -> None:
    """A second layer reads every pair of what the first one has, in every order."""

    def layer(a, b, gamma):
        y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
        q, rows = torch_npu.npu_dynamic_quant(y)
        return (q * rows.unsqueeze(-1)).to(bf16), total

    def function(x, residual, gamma):
        results = []
        for pair in itertools.product((x, residual), repeat=2):
            values = (x, *layer(*pair, gamma))
            for operands in itertools.product(values, repeat=2):
                results.extend(layer(*operands, gamma))
        return results

    config.mode = "npugraph_ex"
    given = inputs()[:3]
    with torch.no_grad():
        found = compiled(function, config, dynamic=dynamic)(*given)
        assert all(map(torch.equal, found, function(*given)))


def test_a_norm_of_two_dimensions(config, joined) -> None:
    """gamma has other widths than a row of scales: values are those of eager code."""

    def function(x, residual, gamma):
        y, _, total = torch_npu.npu_add_rms_norm(residual, x, gamma)
        q, rows = torch_npu.npu_dynamic_quant(y)
        return q, rows, total

    x, residual, _, _ = inputs()
    check(function, (x, residual, torch.rand(3, WIDTH).to(bf16)), config)


def test_operands_that_the_joined_operator_refuses(config, joined, monkeypatch) -> None:
    """Such a pattern is no match, and no error."""
    target = torch.ops.npu.npu_add_rms_norm_dynamic_quant.default
    real = passes.apply_fusions.__globals__["_value"]

    def refuse(node):
        if node.target is target:
            raise RuntimeError("another width")
        return real(node)

    monkeypatch.setitem(passes.apply_fusions.__globals__, "_value", refuse)
    check(dynamic_quant, inputs(), config)
    assert "npu.npu_add_rms_norm_dynamic_quant.default" not in joined
    assert "npu.npu_add_rms_norm.default" in joined

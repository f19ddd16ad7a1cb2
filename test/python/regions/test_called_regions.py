"""`torch.compiler.nested_compile_region`: the graph that calls a region is one program."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from checking import assert_equal, check, compiled
from torch import nn

import anabranch

region = torch.compiler.nested_compile_region


class Layer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    @region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + torch.relu(self.linear(x)))


def layers(count: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(count))).eval()


def assert_whole() -> None:
    """The last graph became one program, and PyTorch ran none."""
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1
    assert anabranch.counters.eager_graphs == 0


def test_equal_layers_share_their_kernels():
    check(layers(8), torch.randn(3, 8), fullgraph=True)
    assert_whole()
    assert len(anabranch.last_report()["kernels"]) <= 4


def test_symbolic_sizes():
    run, model = compiled(layers(), fullgraph=True), layers()
    x = torch.randn(3, 8)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        for given in (x, torch.randn(5, 8), torch.randn(1, 8)):
            assert_equal(run(given), model(given))
    assert_whole()


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic):
    ours, theirs = layers(), layers()
    x = torch.randn(3, 8)
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    compiled(ours, fullgraph=True)(x).square().sum().backward()
    theirs(x).square().sum().backward()
    for got, want in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(got.grad, want.grad)
    assert_whole()


def test_frozen_weights():
    model, x = layers(), torch.randn(3, 8)
    with torch.no_grad():
        wanted = model(x)
        run = anabranch.compile(model, freeze=True, fullgraph=True)
        assert_equal(run(x), wanted)
    assert_whole()


def test_regions_in_regions_and_several_results():
    @region
    def inner(x, y):
        return x * y + 1, torch.sigmoid(x)

    @region
    def outer(x, y):
        a, b = inner(x, y)
        c, d = inner(b, a)
        return a - c, d, b.t() @ b

    def function(x, y):
        a, b, c = outer(x, y)
        d, e, f = outer(b, a)
        return a + d, b, c @ e.t(), f

    check(function, torch.randn(4, 4), torch.randn(4, 4), fullgraph=True)
    assert_whole()


def test_calls_with_other_sizes_and_strides():
    @region
    def scaled(x, w):
        return torch.softmax(x @ w, -1) * x.shape[0]

    def function(x, y, w):
        return scaled(x, w), scaled(y, w), scaled(y.t(), w[:2]), scaled(x[1:], w)

    w = torch.randn(5, 5)
    check(function, torch.randn(3, 5), torch.randn(2, 5), w, fullgraph=True)
    assert_whole()


def test_two_symbols_take_turns():
    @region
    def summed(x):
        return torch.tanh(x) * x.shape[0] + x.sum(0)

    def function(x, y):
        return summed(x), summed(y), summed(x + 1)

    run = compiled(function, fullgraph=True)
    x, y = torch.randn(3, 4), torch.randn(6, 4)
    for tensor in (x, y):
        torch._dynamo.mark_dynamic(tensor, 0)
    for a, b in ((x, y), (torch.randn(7, 4), torch.randn(2, 4))):
        assert_equal(run(a, b), function(a, b))
    assert_whole()


def test_updates_inside_of_a_region():
    """A trace without functionalization sees the update, and PyTorch keeps what it
    traced of the region. The second trace must not use it."""

    @region
    def updated(x):
        y = x * 2
        y.add_(1)
        y[0] = x[1]
        return y

    check(lambda x: updated(updated(x)), torch.randn(3, 4), fullgraph=True)
    assert_whole()


def test_updates_of_an_argument():
    """PyTorch gives such a call a form of its own. It still computes what eager code
    does."""

    @region
    def updated(x, state):
        state.add_(x)
        return x * state

    def function(x, state):
        return updated(x, state) + updated(x, state)

    check(function, torch.randn(3, 4), torch.zeros(3, 4), fullgraph=True)


def test_views_of_arguments_and_results():
    @region
    def viewed(x):
        y = x.t().reshape(2, -1)
        return y.sin() + y.flatten()[:1]

    def function(x):
        y = viewed(x)
        return y, y.t(), y[0], x.t()

    check(function, torch.randn(4, 6), fullgraph=True)
    assert_whole()


def test_constants_and_branches_on_sizes():
    table = torch.arange(4.0)

    @region
    def shifted(x):
        y = x + table + torch.tensor([1.0, 2, 3, 4])
        return y * 2 if x.shape[0] > 2 else y

    def function(x, y):
        return shifted(x), shifted(y), shifted(x)

    check(function, torch.randn(3, 4), torch.randn(2, 4), fullgraph=True)
    assert_whole()


def test_sizes_that_depend_on_data_stay_a_call():
    @region
    def positive(x):
        return (x > 0).nonzero().float().sum(0)

    check(lambda x: positive(x) + positive(x.t()), torch.randn(4, 4), fullgraph=True)


def test_scopes_around_calls(tmp_path):
    """Operators take the scope of their call, not that of the call that was traced."""
    layer = layers(1)

    def function(x):
        with anabranch.stream("one"):
            y = layer(x)
        with anabranch.stream("two"):
            z = layer(x + 1)
        return y, z, layer(x - 1)

    x = torch.randn(3, 8)
    with torch.no_grad():
        run = compiled(function, fullgraph=True, options={"dump": str(tmp_path)})
        assert_equal(run(x), function(x))
    assert_whole()
    text = (tmp_path / "05-memory.mlir").read_text()
    streams = re.split(r"anabranch\.stream ", text)[1:]
    launches = {s.split('"')[1]: s.count("anabranch.launch") for s in streams}
    # x + 1 and x - 1 run in kernels of their own, or in the layers' kernels
    assert launches["one"] == 2 and launches["two"] >= 2 and launches["main"] >= 2


def test_export(tmp_path):
    model, x = layers(), torch.randn(3, 8)
    anabranch.export(model, tmp_path / "m.anb", (x,))
    with torch.no_grad():
        assert_equal(anabranch.load(tmp_path / "m.anb")(x), model(x))


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()
        self.run = anabranch.cache_compile(self.run, dynamic=False)

    def forward(self, x):
        return self.run(x)

    def run(self, x):
        return self.layers(x)


def test_cache_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    x = torch.randn(3, 8)
    with torch.no_grad():
        wanted = layers()(x)
        assert_equal(Cached()(x), wanted)
        monkeypatch.setattr(torch, "compile", None)  # the second object replays
        assert_equal(Cached()(x), wanted)


UNARY = ["torch.relu({})", "torch.sin({})", "{0}.t().reshape({0}.shape)", "{} * 2 + 1"]
BINARY = [
    "{} + {}",
    "{} * {}",
    "torch.minimum({}, {})",
    "torch.softmax({0} @ {1}.t(), -1) @ {1}",
]


def random_region(rng: random.Random, number: int, inner: str | None) -> str:
    """The text of a region that calls `inner`. PyTorch takes two closures of one code
    for one region, so each region is a text of its own."""
    values, lines = ["x", "y"], []
    for _ in range(5):
        made = f"v{len(values)}"
        if inner and rng.random() < 0.4:
            left, right = rng.sample(values, 2)
            lines.append(f"{made}, w{len(values)} = {inner}({left}, {right})")
            values.append(f"w{len(values)}")
        else:
            form = rng.choice(UNARY + BINARY)
            lines.append(f"{made} = {form.format(rng.choice(values), values[-1])}")
        values.append(made)
    lines.append(f"return {values[-1]} * 0.5, {rng.choice(values)} - 1")
    body = "".join(f"    {line}\n" for line in lines)
    return f"@region\ndef r{number}(x, y):\n{body}"


def random_program(rng: random.Random, nested: bool, folder: Path) -> Any:
    """PyTorch fails for a region that is called from two others, from one with one
    tensor twice, or from another one with symbolic sizes."""
    texts = [random_region(rng, 0, None)]
    for number in (1, 2):
        texts.append(random_region(rng, number, f"r{number - 1}" if nested else None))
    calls = ["r2"] * 3 if nested else [f"r{rng.randrange(3)}" for _ in range(3)]
    texts.append(
        "def main(x, y):\n"
        f"    a, b = {calls[0]}(x, y)\n"
        f"    c, d = {calls[1]}(a, y + 1)\n"
        f"    return a, c, {calls[2]}(d, b)[0]\n"
    )
    path = folder / "program.py"
    head = "import torch\nregion = torch.compiler.nested_compile_region\n"
    path.write_text("\n".join([head, *texts]))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 4, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(12))
def test_random_regions(seed, tmp_path):
    """Even numbers are nests of regions, odd ones have symbolic sizes."""
    function = random_program(random.Random(seed), seed % 2 == 0, tmp_path)
    torch.manual_seed(seed)
    x, y = rows(5), rows(5)
    run = compiled(function, fullgraph=True)
    if seed % 2:
        for tensor in (x, y):
            torch._dynamo.mark_dynamic(tensor, 0)
    assert_equal(run(x, y), function(x, y))
    if seed % 2:
        x, y = rows(6), rows(6)
        assert_equal(run(x, y), function(x, y))
    assert_whole()

"""Super kernels whose sizes calls bind: one program, with the bits of launches for all sizes.

The first call with new sizes runs the launches, later ones the tasks; so each size is
called three times."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from variants import Variants
from whole_graphs import assert_whole

import anabranch
from anabranch import _C
from anabranch.trace.trace_file import read_trace

ROOT = Path(__file__).resolve().parents[3]
SIZES = (7, 64, 300, 7, 2, 64)


@pytest.fixture(autouse=True)
def clean():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield
    _C.set_default_threads(0)


def supers(report) -> dict[str, bool]:
    """The super kernels of a program, and whether calls bind their sizes."""
    return {entry["name"]: entry["symbolic"] for entry in report["super_kernels"]}


@torch.no_grad()
def assert_same_bits(function, calls, dynamic=True, tolerance=1e-3):
    """Asserts eager's results up to rounding, and the bits of the program without super
    kernels, of one program for all calls. Returns the super kernels. `dynamic` may name
    the dimensions of the first argument that are symbolic."""
    if isinstance(dynamic, tuple):
        for dim in dynamic:
            torch._dynamo.mark_dynamic(calls[0][0], dim)
        dynamic = False
    both = Variants(
        {"launches": {"super_kernels": "off"}, "tasks": {"super_kernels": "marked"}}
    )
    run = both.compile(function, dynamic=dynamic)
    expected = [function(*call) for call in calls]
    for threads in (2, 3):
        _C.set_default_threads(threads)
        both.chosen = "launches"
        alone = [run(*call) for call in calls]
        both.chosen = "tasks"
        for call, launched, wanted in zip(calls, alone, expected, strict=True):
            torch.testing.assert_close(launched, wanted, rtol=tolerance, atol=tolerance)
            for _ in range(3):
                torch.testing.assert_close(run(*call), launched, rtol=0, atol=0)
    assert not supers(both.reports["launches"])
    return supers(both.reports["tasks"])


def chain(x, w):
    with anabranch.super_kernel("chain", "strict-scope-check=abort"):
        return (torch.tanh(x @ w) @ w).softmax(-1)


def test_rows():
    w = torch.randn(96, 96)
    calls = [(torch.randn(rows, 96), w) for rows in SIZES]
    assert assert_same_bits(chain, calls) == {"chain_0": True}
    assert len(torch._dynamo.utils.counters["stats"]) <= 2


def members(x, y):
    """Pointwise operators, joins, sums, norms and products, over two symbols."""
    with anabranch.super_kernel("members"):
        a = torch.cat([x[3:], y[:3]]).sigmoid() + y
        b = (a * x).softmax(0) + x.t().cumsum(1).t()
        c = F.layer_norm(b @ x.t(), (x.shape[0],)) @ y
        d = (x @ (x.t() @ c / 8)).relu()
        return d.amax(0, keepdim=True) + a, c.sum(), d.argmax(-1)


def test_members_of_all_kinds():
    shapes = ((64, 48), (7, 5), (300, 48), (64, 48))
    calls = [(torch.randn(*shape), torch.randn(*shape)) for shape in shapes]
    assert assert_same_bits(members, calls) == {"members_0": True}


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)],
)
def test_a_layer_of_symbolic_batch_and_length(dtype):
    torch.manual_seed(0)
    width, heads = 64, 2
    qkv, out = torch.randn(width, 3 * width) / 8, torch.randn(width, width) / 8
    up, down = torch.randn(width, 4 * width) / 8, torch.randn(4 * width, width) / 8
    weights = [w.to(dtype) for w in (qkv, out, up, down)]

    def layer(x, qkv, out, up, down):
        with anabranch.super_kernel("layer", "strict-scope-check=abort"):
            q, k, v = (
                part.unflatten(-1, (heads, -1)).transpose(1, 2)
                for part in (x @ qkv).chunk(3, -1)
            )
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = F.layer_norm(a.transpose(1, 2).flatten(2) @ out + x, (width,))
            return F.rms_norm(F.gelu(x @ up) @ down + x, (width,))

    shapes = [(2, 20), (3, 9), (2, 33), (3, 9)]
    calls = [(torch.randn(*shape, width).to(dtype), *weights) for shape in shapes]
    tolerance = 1e-3 if dtype == torch.float32 else 0.05
    assert assert_same_bits(layer, calls, (0, 1), tolerance) == {"layer_0": True}


def test_caches_are_updated_in_place():
    def step(x, w, cache, at):
        with anabranch.super_kernel("step", "strict-scope-check=abort"):
            cache.index_copy_(0, at, (x @ w).softmax(-1))
            return (x @ cache.t()).softmax(-1) @ cache

    w = torch.randn(32, 32)
    found = {}
    for marks in ("off", "marked"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        run = torch.compile(
            step,
            backend=anabranch.anabranch,
            dynamic=True,
            options={"cache": False, "super_kernels": marks},
        )
        found[marks] = results = []
        with torch.no_grad():
            for rows in (40, 70):
                cache = torch.zeros(rows, 32)
                for at in range(3):
                    at = torch.tensor([at, at + 5])
                    results.append(run(torch.randn(2, 32), w, cache, at))
                results.append(cache)
    assert all(map(torch.equal, found["off"], found["marked"]))


def chosen(x, mask, w):
    rows = x[mask]
    with anabranch.super_kernel("rows"):
        return (torch.tanh(rows @ w) @ w).softmax(-1)


def test_sizes_that_the_run_decides():
    """One program for none, one and many rows."""
    w = torch.randn(96, 96)
    calls = []
    for rows in (7, 0, 1, 64, 300, 0, 1):
        mask = torch.zeros(400, dtype=torch.bool)
        mask[torch.randperm(400)[:rows]] = True
        calls.append((torch.randn(400, 96), mask, w))
    assert assert_same_bits(chosen, calls, dynamic=False) == {"rows_0": True}
    assert_whole()


def test_bodies_of_loops():

    def loop(xs, h, w):
        def body(h, x):
            with anabranch.super_kernel("cell", "strict-scope-check=abort"):
                h = torch.tanh((x + h) @ w).softmax(-1) @ w
            return h, h * 2

        return torch._higher_order_ops.scan(body, h, xs)

    w = torch.randn(48, 48)

    rows = (64, 9, 33)
    calls = [(torch.randn(4, n, 48), torch.randn(n, 48), w) for n in rows]
    assert assert_same_bits(loop, calls) == {"cell_0": True}


def test_gears_and_tiers_beside():
    """A program of known sizes has tasks that are made when it is loaded."""
    w = torch.randn(16, 16)
    run = torch.compile(
        chain, backend=anabranch.anabranch, options={"cache": False}, fullgraph=True
    )
    first = torch.randn(4, 16)
    anabranch.set_gears(first, {0: [4, 6]})
    with torch.no_grad():
        for rows in (4, 6, 3, 9, 3):
            x = first if rows == 4 else torch.randn(rows, 16)
            torch.testing.assert_close(run(x, w), chain(x, w))
    torch._dynamo.reset()
    tiered = torch.compile(
        chain,
        backend=anabranch.anabranch,
        options={"cache": False, "shapes": "tiered"},
        dynamic=True,
    )
    with torch.no_grad():
        for rows in (5, 5, 8, 5):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(tiered(x, w), chain(x, w))
    assert supers(anabranch.last_report()) == {"chain_0": True}


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(96, 96), nn.Linear(96, 96)

    def forward(self, x):
        with anabranch.super_kernel("chain"):
            return self.second(self.first(x).relu()).softmax(-1)


def test_packages(tmp_path):
    """A package's tasks are bound without PyTorch and without the compiler."""
    model = Exported().eval()
    shapes = {"x": {0: Dim("rows", min=0, max=512)}}
    anabranch.export(
        model, tmp_path / "p", (torch.randn(9, 96),), dynamic_shapes=shapes
    )
    assert supers(anabranch.last_report()) == {"chain_0": True}
    package = anabranch.load(tmp_path / "p")
    for rows in (0, 1, 7, 64, 300, 1):
        x = torch.randn(rows, 96)
        expected = model(x).detach()
        for _ in range(3):
            found = package(x.numpy())
            torch.testing.assert_close(torch.from_numpy(found), expected)
    np.save(tmp_path / "x.npy", x.numpy())
    command = [ROOT / "build/bin/anabranch-run", tmp_path / "p", "--repeat", "3"]
    command += ["--output-dir", tmp_path, "--inputs", tmp_path / "x.npy"]
    subprocess.run(command, check=True, capture_output=True)
    found = torch.from_numpy(np.load(tmp_path / "output0.npy"))
    torch.testing.assert_close(found, expected)


def test_cached_methods(tmp_path, monkeypatch):
    """A replayed method binds sizes as the first one does."""
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    model = Exported().eval()
    calls = [torch.randn(rows, 96) for rows in (9, 64, 9)]
    torch._dynamo.mark_dynamic(calls[0], 0)
    for _ in range(2):
        method = anabranch.cache_compile(model.forward)
        for x in calls:
            for _ in range(3):
                torch.testing.assert_close(method(x), model(x))


def test_reports_and_traces_say_it(tmp_path, capfd):
    run = torch.compile(
        chain,
        backend=anabranch.anabranch,
        options={"cache": False, "explain": True, "threads": 2},
        dynamic=True,
    )
    x, w = torch.randn(200, 96), torch.randn(96, 96)
    with torch.no_grad():
        run(x, w)
        assert "launches of sizes that calls bind at" in capfd.readouterr().err
        run(x, w)
        with anabranch.profile(tmp_path / "trace.json"):
            run(x, w)
    (call,) = read_trace(tmp_path / "trace.json").calls.values()
    parts = [e for e in call.executions.values() if e.part_of is not None]
    assert {e.about["super"] for e in parts} == {"chain_0"}

"""Layers as vLLM traces them: linear layers stay visible, attention is an operator, the
guards are dropped. Needs no vLLM."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from torch import Tensor, nn

import anabranch
from anabranch_vllm import attention, backend
from anabranch_vllm.linear import VisibleLinear

caches: dict[str, Tensor] = {}


@torch.library.custom_op("vllm_test::attend", mutates_args=("out",))
def attend(query: Tensor, out: Tensor, layer: str) -> None:
    """Attention of a server: it finds the cache of its layer by name."""
    caches[layer] = torch.cat([caches[layer], query.float()])
    out.copy_(query * caches[layer].mean())


class Linear(nn.Module):
    """vLLM's linear layer: it calls the product that was chosen after loading."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns) / columns**0.5)

    def forward(self, x):
        return self.cpu_linear(x, self.weight, None)


class Layer(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.before, self.after = Linear(32, 32), Linear(32, 32)

    def forward(self, x):
        query = self.before(x)
        out = torch.empty_like(query)
        attend(query, out, self.name)
        return x + torch.nn.functional.silu(self.after(out))


def choose(model: nn.Module, compiled: bool) -> list[nn.Module]:
    """Chooses the products of a model. Returns the layers that vLLM's function got."""
    theirs: list[nn.Module] = []
    dispatch = VisibleLinear(
        lambda layer, remove: theirs.append(layer), lambda: compiled
    )
    for layer in model.modules():
        if isinstance(layer, Linear):
            dispatch(layer, True)
    return theirs


def served(model: nn.Module):
    """Compiles a model as vLLM does: one graph without guards."""
    return torch.compile(
        model,
        backend=backend.compile_graph,
        fullgraph=True,
        dynamic=False,
        options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
    )


def run(function, inputs: list[Tensor]) -> list[Tensor]:
    for name in ("0", "1"):
        caches[name] = torch.zeros(0, 32)
    with torch.no_grad():
        return [function(x) for x in inputs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_program_serves_prompts_and_single_tokens(dtype, caplog) -> None:
    model = nn.Sequential(Layer("0"), Layer("1")).to(dtype).eval()
    assert not choose(model, compiled=True)
    inputs = [torch.randn(n, 32).to(dtype) for n in (7, 1, 1, 4, 1)]
    torch._dynamo.mark_dynamic(inputs[0], 0)
    with caplog.at_level(logging.INFO, "vllm.anabranch"):
        found = run(served(model), inputs)
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.eager_graphs == 0
    assert anabranch.counters.fallback_calls == 2  # attention, in each layer
    begin, line = caplog.messages
    assert re.fullmatch(r"Anabranch: compiles a graph of [1-9]\d* operators", begin)
    assert line.startswith("Anabranch: 1 program (")
    end = r" 2 calls of operators without a kernel: vllm_test::attend \(\d+\.\d s\)"
    assert re.search(f"{end}$", line)
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    for own, eager in zip(found, run(model, inputs), strict=True):
        torch.testing.assert_close(own, eager, **close)


def test_weights_are_packed_once_and_a_reload_is_seen() -> None:
    model = nn.Sequential(Layer("0"), Layer("1")).eval()
    choose(model, compiled=True)
    x = torch.randn(7, 32)
    torch._dynamo.mark_dynamic(x, 0)
    function = served(model)
    (before,) = run(function, [x])
    weight = model[1].after.weight.data
    weight[5, 7] += 100  # of 1024 elements, a few are compared
    torch.testing.assert_close(run(function, [x])[0], before)
    weight[5, 7] -= 100
    weight.copy_(torch.randn(32, 32))
    found, expected = run(function, [x]), run(model, [x])
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found[0], before)


def test_only_compiled_models_change() -> None:
    model = nn.Sequential(Layer("0"))
    assert len(choose(model, compiled=False)) == 2


def test_weights_that_are_no_matrix_stay_vllms() -> None:
    theirs: list[nn.Module] = []
    dispatch = VisibleLinear(lambda layer, remove: theirs.append(layer), lambda: True)
    experts = nn.Module()
    experts.weight = nn.Parameter(torch.randn(2, 8, 8))
    absent = Linear(8, 8).to("meta")
    dispatch(experts, True)
    dispatch(absent, True)
    assert theirs == [experts, absent]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_program_computes_logits_of_any_number_of_tokens(dtype) -> None:
    heads = [Linear(96, 32).to(dtype), Linear(64, 32).to(dtype)]
    for head in heads:
        head.requires_grad_(False)
        VisibleLinear(None, lambda: True)(head, False)
    for head in heads:
        for rows in (5, 1, 3, 1, 8):
            x = torch.randn(rows, 32).to(dtype)
            expected = x.double() @ head.weight.double().t()
            torch.testing.assert_close(head(x), expected.to(dtype))
    assert anabranch.counters.graphs == 2  # one for each head
    assert anabranch.counters.fallback_calls == 0


def test_logits_follow_the_embedding() -> None:
    head, x = Linear(96, 32).requires_grad_(False), torch.randn(4, 32)
    VisibleLinear(None, lambda: True)(head, False)
    before = head(x)
    head.weight.data[5, 7] += 100  # of 3072 elements, a few are compared
    torch.testing.assert_close(head(x), before)
    head.weight.data.mul_(2)
    torch.testing.assert_close(head(x), torch.nn.functional.linear(x, head.weight))


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"eager": "no description"}, "PyTorch runs the whole graph: no description"),
        ({"outside": ["b", "a", "b"]}, "the graph is cut at a, b"),
        ({"fallbacks": []}, "without a kernel"),
    ],
)
def test_the_line_says_what_was_not_compiled(report, text) -> None:
    assert backend.summary(anabranch.counters, anabranch.counters, report).endswith(
        text
    )


def gated(x: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.silu(x @ weight) * x


def save(path, *inputs: Tensor) -> None:
    with torch.no_grad(), torch._dynamo.config.patch(enable_aot_compile=True):
        compiled = served(gated).aot_compile((inputs, {}))
    compiled.save_compiled_function(str(path))


def test_a_graph_of_another_version_is_refused(tmp_path, monkeypatch) -> None:
    save(tmp_path / "model", torch.randn(7, 32), torch.randn(32, 32))
    monkeypatch.setattr(attention, "SCHEMA", "anabranch_vllm::attend() -> Tensor")
    with (
        (tmp_path / "model").open("rb") as file,
        pytest.raises(anabranch.SavedGraphError, match="another version of anabranch"),
    ):
        torch.compiler.load_compiled_function(file)


def test_a_saved_graph_is_loaded(tmp_path) -> None:
    x, weight = torch.randn(7, 32), torch.randn(32, 32)
    save(tmp_path / "model", x, weight)
    with (tmp_path / "model").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    loaded._artifacts.compiled_fn.finalize_loading(None)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, weight), gated(x, weight))
    assert anabranch.counters.loaded == 1

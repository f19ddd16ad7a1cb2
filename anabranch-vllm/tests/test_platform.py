"""The platform over a stand-in for vLLM's CPU platform. Needs no vLLM."""

from __future__ import annotations

import gc
import importlib
import logging
import queue
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import anabranch
from anabranch import extension
from anabranch_vllm import attention, linear, settings

# Modules of vLLM from which this package takes a class.
PLATFORM = "vllm.platforms.cpu"
WORKER = "vllm.v1.worker.cpu_worker"
LAYERS = "vllm.model_executor.layers.attention.attention"
OUTPUTS = "vllm.v1.outputs"
CACHING = "vllm.compilation.caching"


class AttentionLayer(torch.nn.Module):
    """Stands in for vLLM's class, of which the models here have no layer."""


class Sampler:
    """Stands in for vLLM's, which test_greedy.py has."""

    def forward(self, logits, sampling_metadata) -> str:
        return "vLLM's"


class CpuWorker:
    """Loads weights as vLLM's CPU worker does."""

    def __init__(self, model) -> None:
        self.model = model
        self.draft: torch.nn.Module | None = None
        self.model_config = SimpleNamespace(quantization=None)
        self.model_runner = SimpleNamespace(
            get_draft_model=lambda: self.draft, sampler=Sampler(), kv_caches=[]
        )

    def get_model(self):
        return self.model

    def load_model(self) -> None:
        for model in (self.model, self.draft):
            if isinstance(model, torch.nn.Linear):
                linear.VisibleLinear(None, lambda: True)(model, True)

    def initialize_from_config(self, memory: torch.Tensor) -> None:
        """The caches of layers are views of one memory."""
        self.model_runner.kv_caches = [memory[:3], memory[3:]]

    def determine_available_memory(self) -> int:
        self.profile()
        return int(gc.isenabled())

    def profile(self) -> None:
        """A test puts the first call of its model here."""

    def compile_or_warm_up_model(self) -> int:
        return int(gc.isenabled())

    def execute_model(self, x):
        return self.model(x)

    def reload_weights(self, value: float) -> None:
        self.model.weight.data[5, 7] = value  # of 1024 elements, a few are compared

    def finish_weight_update(self) -> None:
        self.reload_weights(0.0)


class CpuPlatform:
    """Changes the configuration as vLLM's CPU platform does."""

    @classmethod
    def check_and_update_config(cls, vllm_config) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "vLLM's"
        compilation = vllm_config.compilation_config
        if compilation.mode == settings.Mode.VLLM:
            compilation.mode = settings.Mode.TRACE_ONCE
            compilation.backend = "inductor"
        if vllm_config.lora_config is not None:
            compilation.mode = settings.Mode.NONE


@pytest.fixture
def stand_ins(monkeypatch):
    """Modules of vLLM's names, for the modules that derive from vLLM's classes."""
    for name in (WORKER, PLATFORM, LAYERS, OUTPUTS, CACHING):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            folder = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, folder, ModuleType(folder))
    sys.modules[PLATFORM].CpuPlatform = CpuPlatform
    sys.modules[WORKER].CPUWorker = CpuWorker
    sys.modules[LAYERS].Attention = AttentionLayer
    sys.modules[OUTPUTS].SamplerOutput = SimpleNamespace
    sys.modules[CACHING].aot_compile_hash_factors = lambda vllm_config: [vllm_config]
    ours = ("anabranch_vllm.cpu_platform", "anabranch_vllm.cpu_worker")
    for name in ours:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ours:
        sys.modules.pop(name, None)


@pytest.fixture
def platform(stand_ins):
    return importlib.import_module("anabranch_vllm.cpu_platform").AnabranchPlatform


def checked(
    platform, mode, backend, lora=None, worker="auto", latent=False
) -> SimpleNamespace:
    """The configuration after the platform's hook."""
    config = SimpleNamespace(
        model_config=SimpleNamespace(use_mla=latent),
        compilation_config=SimpleNamespace(
            mode=mode, backend=backend, custom_ops=["all"]
        ),
        parallel_config=SimpleNamespace(worker_cls=worker),
        lora_config=lora,
    )
    platform.check_and_update_config(config)
    return config


def settled(platform, mode, backend, lora=None) -> tuple[int, str]:
    """The mode and backend after the platform's hook."""
    compilation = checked(platform, mode, backend, lora).compilation_config
    return compilation.mode, compilation.backend


@pytest.mark.parametrize("backend", ["", "inductor", "anabranch"])
def test_the_default_is_anabranch(platform, backend) -> None:
    wanted = (settings.Mode.TRACE_ONCE, settings.BACKEND)
    assert settled(platform, settings.Mode.VLLM, backend) == wanted


def test_what_the_cpu_platform_does_not_compile_stays_so(platform) -> None:
    mode, backend = settled(platform, settings.Mode.VLLM, "inductor", lora=object())
    assert mode == settings.Mode.NONE
    assert backend != settings.BACKEND


@pytest.mark.parametrize(
    ("mode", "backend"),
    [(settings.Mode.NONE, "inductor"), (settings.Mode.TRACE_ONCE, "inductor")],
)
def test_another_choice_is_kept(platform, mode, backend) -> None:
    assert settled(platform, mode, backend) == (mode, backend)


@pytest.mark.parametrize(
    ("mode", "latent", "operators"),
    [
        (settings.Mode.VLLM, True, ["none"]),
        (settings.Mode.NONE, True, ["all", "-rotary_embedding"]),
        (settings.Mode.NONE, False, ["all"]),
    ],
)
def test_pytorch_rotates_latent_attention(platform, mode, latent, operators) -> None:
    config = checked(platform, mode, "inductor", latent=latent)
    assert config.compilation_config.custom_ops == operators


@pytest.mark.parametrize(
    ("mode", "worker", "wanted"),
    [
        (settings.Mode.VLLM, "auto", settings.WORKER),
        (settings.Mode.VLLM, "the user's", "the user's"),
        (settings.Mode.NONE, "auto", "vLLM's"),
    ],
)
def test_compiled_models_have_a_worker_that_packs_again(
    platform, mode, worker, wanted
) -> None:
    config = checked(platform, mode, "inductor", worker=worker)
    assert config.parallel_config.worker_cls == wanted


@pytest.fixture
def worker(stand_ins):
    module, _, name = settings.WORKER.rpartition(".")
    model = torch.nn.Linear(32, 32).eval()
    yield getattr(importlib.import_module(module), name)(model)
    gc.unfreeze()


def is_in_a_file(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is a mapping of a file without a name."""
    address = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, _, last = line.split()[0].partition("-")
        if int(first, 16) <= address < int(last, 16):
            return line.endswith("(deleted)")
    return False


def test_weights_that_programs_pack_are_in_a_file(worker, caplog) -> None:
    values = worker.model.weight.detach().clone()
    with caplog.at_level(logging.INFO, "vllm.anabranch"):
        worker.load_model()
    assert is_in_a_file(worker.model.weight)
    assert not is_in_a_file(worker.model.bias)
    assert worker.compile_or_warm_up_model() is not None
    assert torch.equal(worker.model.weight, values)
    assert "0 MiB of weights are in a file" in caplog.text


class Attending(AttentionLayer):
    """A layer that has a cache of its own, and writes it."""

    query_quant = kv_sharing_target_layer_name = None
    attn_backend = SimpleNamespace(forward_includes_kv_cache_update=False)

    def __init__(self, layer_name: str) -> None:
        super().__init__()
        self.layer_name = layer_name

    def forward(self, query):
        """What vLLM's layers do, which `joined` replaces."""


def test_a_model_that_drafts_is_treated_like_the_model(worker) -> None:
    """Its layers call the operator, its weights move, and it is packed again."""
    worker.draft = torch.nn.Linear(32, 32).eval()
    worker.draft.attention = Attending("draft.0")
    worker.load_model()
    assert is_in_a_file(worker.model.weight) and is_in_a_file(worker.draft.weight)
    number = int(worker.draft.attention.anabranch_number)
    assert attention._names[number] == "draft.0"
    compiled = torch.compile(worker.draft, backend=anabranch.anabranch)
    x = torch.randn(16, 32)
    with torch.no_grad():
        compiled(x)
        worker.draft.weight.data[5, 7] = 100.0  # of 1024 elements, a few are compared
        worker.finish_weight_update()
        torch.testing.assert_close(compiled(x), worker.draft(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_equal_layers_of_a_model_that_drafts_are_traced_once(worker) -> None:
    worker.draft, bodies = Layers(passes=False), []

    def look(module, inputs):
        bodies.append(sum(1 for _ in module.children()))
        return anabranch.anabranch(module, inputs)

    compiled = torch.compile(worker.draft, backend=look, fullgraph=True)
    worker.profile = lambda: compiled(torch.randn(4, 16))
    worker.determine_available_memory()
    assert bodies == [1]


def test_weights_stay_where_no_file_can_be_written(worker, caplog, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no-such-folder")
    with caplog.at_level(logging.WARNING, "vllm.anabranch"):
        worker.load_model()
    assert not is_in_a_file(worker.model.weight)
    assert "weights stay in memory" in caplog.text


def test_weights_stay_where_the_user_says_so(worker, monkeypatch) -> None:
    monkeypatch.setenv("ANABRANCH_VLLM_MOVE_WEIGHTS", "0")
    worker.load_model()
    assert not is_in_a_file(worker.model.weight)


def test_collections_of_the_start_do_not_walk_what_imports_made(worker) -> None:
    before = [[]]
    assert gc.get_freeze_count() > 10_000
    assert any(before is found for found in gc.get_objects()), "it is collected"


def test_the_collector_rests_while_vllm_compiles(worker) -> None:
    assert not worker.determine_available_memory()
    assert not worker.compile_or_warm_up_model()
    assert gc.isenabled()


class Layer(torch.nn.Module):
    """A layer, which gives back its argument if it `passes` it."""

    def __init__(self, passes: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.passes = passes

    def forward(self, x):
        return torch.relu(self.linear(x)), x if self.passes else x + 1


class Layers(torch.nn.Module):
    def __init__(self, passes: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(passes) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x, before = layer(x)
        return x + before


@torch.no_grad()
@pytest.mark.parametrize("passes", [False, True])
def test_layers_that_pytorch_refuses_as_regions(worker, caplog, passes) -> None:
    worker.model, x = Layers(passes), torch.randn(4, 16)
    bodies, found = [], []

    def look(module, inputs):
        bodies.append(sum(1 for _ in module.children()))
        return anabranch.anabranch(module, inputs)

    compiled = torch.compile(worker.model, backend=look, fullgraph=True)
    worker.profile = lambda: found.append(compiled(x))
    with caplog.at_level(logging.INFO, "vllm.anabranch"):
        assert not worker.determine_available_memory()  # the collector rests
    assert bodies == [0 if passes else 1]
    assert ("traces each layer by itself" in caplog.text) == passes
    torch.testing.assert_close(found, [worker.model(x)])


def test_other_errors_of_a_trace_are_not_hidden(worker) -> None:
    worker.model, calls = Layers(passes=False), []

    def fail() -> None:
        calls.append(1)
        raise ValueError("no room")

    worker.profile = fail
    with pytest.raises(ValueError, match="no room"):
        worker.determine_available_memory()
    assert len(calls) == 1
    assert not hasattr(Layer.forward, "__marked_compile_region_fn__")


@torch.no_grad()
def test_weights_that_are_loaded_anew_are_packed(worker) -> None:
    model, x = worker.model, torch.randn(16, 32)
    worker.load_model()
    compiled = torch.compile(model, backend=anabranch.anabranch)
    for load in (
        lambda: None,
        lambda: worker.reload_weights(100.0),
        worker.finish_weight_update,
    ):
        load()
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def test_greedy_tokens_need_no_float32_logits(worker) -> None:
    """The rest of what a batch may ask for is in test_greedy.py."""
    worker.load_model()
    sampler, random = worker.model_runner.sampler, SimpleNamespace(all_greedy=False)
    logits = torch.randn(3, 100)
    assert sampler.forward(logits, random) == "vLLM's"
    assert sampler.forward(logits.bfloat16(), random) == "vLLM's"
    assert anabranch.counters.graphs == 1  # the program of 16 bits


def test_the_cache_gets_huge_pages_once(worker, monkeypatch) -> None:
    asked: queue.Queue = queue.Queue()
    monkeypatch.setattr(extension, "gather_huge_pages", lambda *place: asked.put(place))
    memory = torch.zeros(8, 1024)
    worker.initialize_from_config(memory)
    assert asked.get(timeout=30) == (memory.data_ptr(), memory.nbytes)
    for thread in threading.enumerate():
        if thread.name == "huge pages":
            thread.join()
    assert asked.empty()

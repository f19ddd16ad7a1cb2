"""The key of saved graphs, over a stand-in for vLLM's module. Needs no vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._functorch import config as tracing

from anabranch_vllm import saved_key, settings


class Caching:
    """vLLM's module: its key of a graph has what its own compiler depends on."""

    def __init__(self) -> None:
        self.hashed = 0

    def get_inductor_factors(self) -> list[str]:
        self.hashed += 1
        return ["all sources of PyTorch"]

    def aot_compile_hash_factors(self, vllm_config) -> list:
        if vllm_config.fails:
            raise ValueError("vLLM's")
        return [vllm_config.number, *self.get_inductor_factors()]


def config(backend: str, number: int = 0, fails: bool = False) -> SimpleNamespace:
    compilation = SimpleNamespace(backend=backend)
    return SimpleNamespace(compilation_config=compilation, number=number, fails=fails)


@pytest.fixture
def caching() -> Caching:
    made = Caching()
    saved_key.join(made)
    saved_key.join(made)  # another engine of the process
    return made


def test_the_key_follows_vllms_settings_and_how_pytorch_traces(
    caching, monkeypatch
) -> None:
    def key(number: int = 0) -> str:
        return str(caching.aot_compile_hash_factors(config(settings.BACKEND, number)))

    first = key()
    assert key() == first
    assert key(1) != first
    with tracing.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
        assert key() != first
    monkeypatch.setattr(torch, "__version__", "2.13.1")
    assert key() != first
    assert caching.hashed == 0


def test_the_key_of_other_backends_is_vllms(caching) -> None:
    caching.aot_compile_hash_factors(config(settings.BACKEND))
    with pytest.raises(ValueError, match="vLLM's"):
        caching.aot_compile_hash_factors(config(settings.BACKEND, fails=True))
    found = caching.aot_compile_hash_factors(config("inductor", 3))
    assert found == [3, "all sources of PyTorch"]
    assert caching.hashed == 1
